//! The server URL of each operation.

use serde_json::{Map, Value};
use url::Url;

use super::reference::{self, text};
use super::version::Version;
use super::{ImportError, OperationError, Options};
use crate::domain::json;

/// Returns the server URL from the options.
///
/// # Errors
/// Returns an [`ImportError`] if the URL is invalid.
pub fn from_options(options: &Options) -> Result<Option<String>, ImportError> {
    let Some(server) = &options.server else { return Ok(None) };
    let found = absolute(server.trim(), options.document_url.as_ref()).map(Some);
    found.map_err(|reason| {
        let (OperationError::NoServer(reason) | OperationError::Refused(reason)) = reason;
        ImportError::option("server", "", format!("must be an http:// or https:// URL: {reason}"))
    })
}

/// Returns the server URL of one operation, without a slash at the end.
///
/// # Errors
/// Returns an [`OperationError`] if no usable server is named.
pub fn of_operation(
    version: Version,
    document: &Map<String, Value>,
    path: &Map<String, Value>,
    operation: &Map<String, Value>,
    from: Option<&Url>,
) -> Result<String, OperationError> {
    if version == Version::V2 {
        return old(document, operation, from);
    }
    let mut first = None;
    for object in [operation, path, document] {
        let servers = reference::elements(object, "servers")?;
        first = first.or(servers.first());
    }
    let Some(server) = first else { return absolute("/", from) };
    let server = server.as_object().ok_or_else(|| OperationError::Refused("a server must be an object".to_owned()))?;
    absolute(filled(server)?.trim(), from)
}

/// Returns a server's URL with the defaults of its variables.
fn filled(server: &Map<String, Value>) -> Result<String, String> {
    let mut rest = text(server, "url").unwrap_or("/");
    let variables = reference::member(server, "variables")?;
    let mut url = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("the server's URL has a `{` without a `}`")?;
        let variable = variables.and_then(|variables| variables.get(name));
        let default = match variable.and_then(|variable| variable.get("default")) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => {
                let name = json::shorten(name, 60);
                return Err(format!(
                    "the variable {name} of the server's URL has no default: set the URL with `server`"
                ));
            }
        };
        url.push_str(before);
        url.push_str(&default);
        rest = behind;
    }
    url.push_str(rest);
    Ok(url)
}

/// Builds the URL from `schemes`, `host` and `basePath` of 2.0.
fn old(
    document: &Map<String, Value>,
    operation: &Map<String, Value>,
    from: Option<&Url>,
) -> Result<String, OperationError> {
    let all = reference::inherited(operation, document, "schemes")?;
    let scheme = ["https", "http"].into_iter().find(|scheme| all.iter().any(|one| one == scheme));
    let scheme = scheme.or(from.map(Url::scheme)).unwrap_or("https");
    let base = text(document, "basePath").unwrap_or("/");
    let slash = if base.starts_with('/') { "" } else { "/" };
    match text(document, "host") {
        Some(host) => absolute(&format!("{scheme}://{host}{slash}{base}"), from),
        None => absolute(&format!("{slash}{base}"), from),
    }
}

fn absolute(text: &str, from: Option<&Url>) -> Result<String, OperationError> {
    let shown = json::shorten(text, 200);
    let url = match (Url::parse(text), from) {
        (Err(url::ParseError::RelativeUrlWithoutBase), Some(from)) => from.join(text),
        (Err(url::ParseError::RelativeUrlWithoutBase), None) => {
            let message = match text {
                "/" => "the document names no server: set its URL with `server` (--server URL)".to_owned(),
                _ => format!(
                    "the document's server \"{shown}\" is a relative URL: set the full URL with `server` (--server URL)"
                ),
            };
            return Err(OperationError::NoServer(message));
        }
        (url, _) => url,
    };
    let url = url.map_err(|error| format!("the server's URL \"{shown}\" is invalid: {error}"))?;
    let fault = if !matches!(url.scheme(), "http" | "https") {
        Some("is not http:// or https://")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("contains a user or a password: use `auth` instead")
    } else if url.query().is_some() || url.fragment().is_some() {
        Some("has a query or a fragment, so no path can be appended")
    } else {
        None
    };
    match fault {
        Some(fault) => Err(format!("the server's URL {fault}").into()),
        None => Ok(url.as_str().trim_end_matches('/').to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolve_base(
        version: Version,
        document: Value,
        operation: Value,
        from: Option<&str>,
    ) -> Result<String, OperationError> {
        let path = json!({"servers": document["path_servers"]});
        let objects = [&document, &path, &operation].map(|value| value.as_object().unwrap());
        let from = from.map(|url| Url::parse(url).unwrap());
        of_operation(version, objects[0], objects[1], objects[2], from.as_ref())
    }

    #[test]
    fn nearest_server_is_used_and_relative_urls_are_resolved() {
        let one = |url: &str| json!([{"url": url}, {"url": "http://second"}]);
        let from = Some("https://docs.example/api/openapi.yaml?x=1");
        for (document, operation, from, url) in [
            (json!({"servers": one("https://a/v1/")}), json!({}), None, "https://a/v1"),
            (json!({"servers": one("https://a"), "path_servers": one("https://b")}), json!({}), None, "https://b"),
            (json!({"path_servers": one("https://b")}), json!({"servers": one("https://c")}), None, "https://c"),
            (json!({"servers": one("/v1")}), json!({}), from, "https://docs.example/v1"),
            (json!({"servers": one("v1")}), json!({}), from, "https://docs.example/api/v1"),
            (json!({}), json!({}), from, "https://docs.example"),
            (
                json!({"servers": [{"url": "https://{host}:{port}/{base}", "variables": {"host": {"default": "h"}, "port": {"default": 8443}, "base": {"default": "v2"}}}]}),
                json!({}),
                None,
                "https://h:8443/v2",
            ),
        ] {
            assert_eq!(resolve_base(Version::V31, document, operation, from).as_deref(), Ok(url));
        }
        for (document, from, url) in [
            (json!({"host": "h:81", "basePath": "/v1", "schemes": ["http", "https"]}), None, "https://h:81/v1"),
            (json!({"host": "h", "schemes": ["ws", "http"]}), None, "http://h"),
            (json!({"host": "h", "basePath": "v"}), None, "https://h/v"),
            (json!({"basePath": "/v"}), Some("http://h:81/x/swagger.json"), "http://h:81/v"),
        ] {
            assert_eq!(resolve_base(Version::V2, document, json!({}), from).as_deref(), Ok(url));
        }
    }

    #[test]
    fn missing_server_is_reported_with_a_hint() {
        for (version, document) in [
            (Version::V30, json!({})),
            (Version::V31, json!({"servers": [{"url": "/v1"}]})),
            (Version::V2, json!({"basePath": "/v1"})),
        ] {
            let Err(OperationError::NoServer(message)) = resolve_base(version, document, json!({}), None) else {
                panic!("expected an error")
            };
            assert!(message.contains("--server URL"), "{message}");
        }
        for url in ["ftp://h", "https://u:p@h", "https://h?x=1", "https://{h}", "https://h/{x", "http://"] {
            let found = resolve_base(Version::V31, json!({"servers": [{"url": url}]}), json!({}), None);
            assert!(matches!(found, Err(OperationError::Refused(_))), "{url}: {found:?}");
        }
    }

    #[test]
    fn server_option_is_checked() {
        let options = |server: &str| Options { server: Some(server.to_owned()), ..Options::default() };
        assert_eq!(from_options(&options("https://h/v1/")), Ok(Some("https://h/v1".to_owned())));
        assert_eq!(from_options(&Options::default()), Ok(None));
        for server in ["", "h.example", "file:///x", "/v1"] {
            assert_eq!(from_options(&options(server)).unwrap_err().option, Some("server"), "{server}");
        }
    }
}
