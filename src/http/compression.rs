//! Compression of lists, of the OpenAPI document and of metrics. Files of the console are compressed when they are built.
//!
//! A compressed response reveals by its length whether parts of it repeat. So neither calls nor responses to pages of other
//! sites are compressed, as both may contain secrets next to texts of others.

use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, ETAG};
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use tower::ServiceBuilder;
use tower_http::CompressionLevel;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{CompressionBody, CompressionLayer};

use super::layers::{HttpService, into_body};
use super::{cors, paths, request_headers};

/// Minimum size of a compressed response, in bytes.
const MIN_BYTES: u64 = 1024;
/// Paths with one name that are no lists: calls, messages of MCP, and events.
const EXCLUDED: [&str; 3] = [paths::CALLS, paths::MCP, "/events"];

/// Returns `true` if the response to a request may be compressed.
pub(super) fn is_allowed(request: &Request) -> bool {
    let path = request.uri().path();
    let is_list = path.rfind('/') == Some(0) && !EXCLUDED.contains(&path);
    *request.method() == Method::GET
        && is_list
        && request_headers::accepts_compression(request.headers())
        && !cors::is_foreign(request)
}

/// Compresses the responses of a service to requests that are [allowed](is_allowed), with the least effort.
pub(super) fn compressed<S>(inner: S) -> impl HttpService
where
    S: HttpService,
{
    let predicate = SizeAbove::new(MIN_BYTES - 1).and(NotForContentType::SSE);
    ServiceBuilder::new()
        .map_response(|response: Response<CompressionBody<_>>| weaken_tag(into_body(response)))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(predicate))
        .service(inner)
}

/// Makes the entity tag of a compressed response weak: its bytes differ from those of the uncompressed one (RFC 9110,
/// section 8.8.3.3).
fn weaken_tag(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if headers.contains_key(CONTENT_ENCODING)
        && let Some(tag) = headers.get_mut(ETAG)
        && !tag.as_bytes().starts_with(b"W/")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn may_compress(method: &str, path: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        is_allowed(&request.method(method).uri(path).body(Body::empty()).unwrap())
    }

    #[test]
    fn lists_may_be_compressed_and_calls_may_not() {
        let accepts = [("accept-encoding", "gzip")];
        for path in ["/tools", "/tools?format=openai", "/sessions", "/openapi.json", "/metrics", "/console"] {
            assert!(may_compress("GET", path, &accepts), "{path}");
        }
        for path in ["/tool-calls", "/tool-calls/1/output", "/mcp", "/events", "/sessions/a/messages", "/tools/echo"] {
            assert!(!may_compress("GET", path, &accepts), "{path}");
        }
        assert!(!may_compress("POST", "/tools", &accepts) && !may_compress("GET", "/tools", &[]));
        for (site, expected) in [("cross-site", false), ("same-site", false), ("same-origin", true), ("none", true)] {
            let headers = [accepts[0], ("sec-fetch-site", site)];
            assert_eq!(may_compress("GET", "/tools", &headers), expected, "{site}");
        }
    }
}
