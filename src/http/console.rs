//! `/console`: the files of the web page, as they are in the folder `console/`.

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::{AppState, Problem};

pub(super) mod login;

/// A file of the page.
struct File {
    /// The path below `/console/`.
    path: &'static str,
    /// The entity tag, in quotes.
    tag: &'static str,
    bytes: &'static [u8],
    gzip: &'static [u8],
    /// Browsers accept it over HTTPS, and on their own machine.
    brotli: &'static [u8],
}

/// All files, with their compressed form. `build.rs` writes the list.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

const INDEX: &str = "index.html";
/// What the server replaces in [`INDEX`], so that relative URLs work at each path and below any prefix of a gateway.
const BASE: &str = "<base href=\"./\">";
/// Folders that contain only files. Other paths are screens of the page.
const FOLDERS: [&str; 4] = ["lib/", "components/", "views/", "vendor/"];

/// The page loads and sends everything to the service itself, and runs no script or style inside of its markup.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
     base-uri 'self'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// The sign-in tells the path of the page by its `Referer`.
const REFERRERS: HeaderValue = HeaderValue::from_static("same-origin");

/// Returns the routes of the page.
pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/", get(front))
        .route("/console", get(page))
        .route("/console/", get(page))
        .route("/console/{*path}", get(page))
}

/// Sends browsers to the page.
async fn front(headers: HeaderMap) -> Response {
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/html"));
    if headers.get_all(ACCEPT).iter().any(accepts) {
        return (StatusCode::FOUND, [(LOCATION, "console/"), (VARY, "accept")]).into_response();
    }
    Problem::not_found("no such path; see /openapi.json").into_response()
}

async fn page(request: Request) -> Response {
    let path = request.uri().path().strip_prefix("/console").unwrap_or_default();
    let file = path.strip_prefix('/').unwrap_or_default();
    let mut response = match FILES.iter().find(|known| known.path == file && file != INDEX) {
        Some(file) => asset(file, request.headers()),
        None if is_missing(file) => return Problem::not_found("the console has no such file").into_response(),
        None => index(path),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, NO_CACHE);
    headers.insert(REFERRER_POLICY, REFERRERS);
    response
}

/// Returns `true` if the path can only name a file.
fn is_missing(file: &str) -> bool {
    let is_script =
        !file.contains('/') && [".js", ".css", ".map", ".ico", ".svg"].iter().any(|end| file.ends_with(end));
    is_script || FOLDERS.iter().any(|folder| file.starts_with(folder))
}

fn asset(file: &'static File, headers: &HeaderMap) -> Response {
    let tag = [(ETAG, HeaderValue::from_static(file.tag)), (VARY, HeaderValue::from_static("accept-encoding"))];
    let has = |name: HeaderName, wanted: &str| {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|value| value.contains(wanted))
    };
    if has(IF_NONE_MATCH, file.tag) {
        return (StatusCode::NOT_MODIFIED, tag).into_response();
    }
    let kind = [(CONTENT_TYPE, HeaderValue::from_static(media_type(file.path)))];
    for (encoding, bytes) in [("br", file.brotli), ("gzip", file.gzip)] {
        if has(ACCEPT_ENCODING, encoding) {
            return (tag, kind, [(CONTENT_ENCODING, encoding)], bytes).into_response();
        }
    }
    (tag, kind, file.bytes).into_response()
}

/// Returns the page with the relative path from this path to `/console/`.
fn index(path: &str) -> Response {
    let base = match path.matches('/').count() {
        0 => "console/".to_owned(),
        1 => "./".to_owned(),
        depth => "../".repeat(depth - 1),
    };
    let found = FILES.iter().find(|file| file.path == INDEX).and_then(|file| std::str::from_utf8(file.bytes).ok());
    let text = found.unwrap_or_default().replacen(BASE, &format!("<base href=\"{base}\">"), 1);
    ([(CONTENT_TYPE, media_type(INDEX))], text).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_equals_its_source_in_both_forms() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        for file in FILES {
            let source = std::fs::read(root.join(file.path)).unwrap();
            assert!(file.bytes == source, "{}", file.path);
            let mut unpacked = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(file.gzip);
            std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
            assert!(unpacked == source && !file.brotli.is_empty(), "{}", file.path);
        }
    }

    #[test]
    fn each_file_has_a_media_type_and_the_index_names_its_base() {
        for file in FILES {
            assert_ne!(media_type(file.path), "application/octet-stream", "{}", file.path);
        }
        let index = FILES.iter().find(|file| file.path == INDEX).unwrap();
        assert!(std::str::from_utf8(index.bytes).unwrap().contains(BASE));
    }
}
