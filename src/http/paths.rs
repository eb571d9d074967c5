//! The paths of requests that are handled differently from those of the router, and the plain form of a path.
//!
//! Paths with a trailing slash or repeated slashes, which clients build from a base URL and a path. They mean the path
//! without them, and are rewritten before anything else reads the path: access, metrics and routing see one form.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, Uri};

/// The paths whose requests bypass the router, and their method.
pub(super) const CALLS: &str = "/tool-calls";
pub(super) const MCP: &str = "/mcp";
pub(super) const METHOD: Method = Method::POST;

/// Routes for bodies that `server.max_body_bytes` does not limit, with the same method: a document with its own limit, and
/// the stream of a model.
pub(super) const IMPORT: &str = "/imports/openapi";
pub(super) const MODEL_STREAM: &str = "/tool-calls/stream";

/// The folders of web pages, whose relative links depend on a trailing slash.
const PAGES: [&str; 2] = ["/console/", "/docs/"];
/// The routes among them that are no pages.
const NO_PAGES: [&str; 3] = ["/console/login/", "/console/logout/", "/console/whoami/"];

/// Removes repeated slashes and trailing slashes from the path of a request.
pub(super) fn normalize(request: &mut Request) {
    let path = request.uri().path();
    if !(path.len() > 1 && path.ends_with('/') || path.contains("//")) {
        return;
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(uri) = plain(request.uri(), is_read) {
        *request.uri_mut() = uri;
    }
}

/// Returns a URI with the plain form of its path; `None` if it has no other.
fn plain(uri: &Uri, is_read: bool) -> Option<Uri> {
    let path = uri.path();
    let is_repeated = |index: usize, letter: char| letter == '/' && path[..index].ends_with('/');
    let single = path.char_indices().filter(|(index, letter)| !is_repeated(*index, *letter));
    let mut plain: String = single.map(|(_, letter)| letter).collect();
    let is_page =
        is_read && PAGES.iter().any(|folder| plain.starts_with(folder)) && !NO_PAGES.contains(&plain.as_str());
    if !is_page && plain.len() > 1 && plain.ends_with('/') {
        plain.pop();
    }
    if plain == path {
        return None;
    }
    if let Some(query) = uri.query() {
        plain.push('?');
        plain.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(plain).ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns `true` if a path begins with a name in other letters than those of the routes, which are all in lower case.
pub(super) fn has_upper_case(uri: &Uri) -> bool {
    let name = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
    name.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, is_read: bool) -> String {
        let uri: Uri = path.parse().unwrap();
        plain(&uri, is_read).unwrap_or(uri).to_string()
    }

    #[test]
    fn slashes_without_a_meaning_are_removed() {
        for (path, expected) in [
            ("/mcp", "/mcp"),
            ("/mcp/", "/mcp"),
            ("/mcp///", "/mcp"),
            ("//mcp", "/mcp"),
            ("///tools//a.b/", "/tools/a.b"),
            ("/tools/?q=//a/", "/tools?q=//a/"),
            ("/tools/a%2F%2Fb/", "/tools/a%2F%2Fb"),
            ("/", "/"),
            ("//", "/"),
            ("http://h//mcp/?a=1", "http://h/mcp?a=1"),
        ] {
            assert_eq!(read(path, false), expected, "{path}");
        }
    }

    #[test]
    fn folders_of_pages_keep_their_trailing_slash() {
        for (path, is_read, expected) in [
            ("/docs/", true, "/docs/"),
            ("//console//", true, "/console/"),
            ("/console/calls/", true, "/console/calls/"),
            ("/console/login/", false, "/console/login"),
            ("/console/whoami/", true, "/console/whoami"),
        ] {
            assert_eq!(read(path, is_read), expected, "{path}");
        }
    }

    #[test]
    fn upper_case_is_noticed_in_the_first_name_only() {
        assert!(has_upper_case(&Uri::from_static("/MCP/x")));
        assert!(!has_upper_case(&Uri::from_static("/tools/Echo")) && !has_upper_case(&Uri::from_static("/")));
    }
}
