//! Security headers of all responses: no content sniffing, no framing, no caching unless declared otherwise.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const DENY_ALL: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
/// For responses to pages of allowed origins.
pub(super) const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// For responses with an entity tag: only the client may store them, and must revalidate each time.
const REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The policy of the service's own pages: they may load resources from the service and send requests to it.
pub(super) const OF_A_PAGE: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

/// Default headers of a response, with capacity for its own headers.
static DEFAULTS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = HeaderMap::with_capacity(CAPACITY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    headers.insert(CONTENT_SECURITY_POLICY, DENY_ALL);
    headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers
});

/// The initial headers of a JSON response: its media type and the defaults.
static JSON_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = DEFAULTS.clone();
    headers.insert(CONTENT_TYPE, JSON);
    headers
});

const CAPACITY: usize = 12;

/// Returns the initial headers of a JSON response.
pub(super) fn of_json() -> HeaderMap {
    JSON_HEADERS.clone()
}

/// Adds the default headers that a response does not set. Copying the whole map is faster than a `SetResponseHeaderLayer` for
/// each header.
pub(super) fn secure(headers: &mut HeaderMap) {
    let is_tagged = headers.contains_key(ETAG);
    if [&X_CONTENT_TYPE_OPTIONS, &REFERRER_POLICY, &RESOURCE_POLICY].iter().all(|name| headers.contains_key(*name)) {
        if is_tagged && headers.get(CACHE_CONTROL) == Some(&NO_STORE) {
            headers.insert(CACHE_CONTROL, REVALIDATE);
        }
    } else {
        let own = std::mem::replace(headers, DEFAULTS.clone());
        if is_tagged {
            headers.insert(CACHE_CONTROL, REVALIDATE);
        }
        headers.extend(own);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::SET_COOKIE;

    use super::*;

    #[test]
    fn json_responses_get_the_same_headers() {
        let more = [None, Some((ETAG, "\"1\"")), Some((CACHE_CONTROL, "max-age=60"))];
        for more in more {
            let (mut json, mut other) = (of_json(), HeaderMap::from_iter([(CONTENT_TYPE, JSON)]));
            for headers in [&mut json, &mut other] {
                if let Some((name, value)) = &more {
                    headers.insert(name, HeaderValue::from_static(value));
                }
                secure(headers);
            }
            assert_eq!(json, other);
        }
    }

    #[test]
    fn headers_of_the_response_take_precedence() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        secure(&mut headers);
        assert_eq!((headers[CACHE_CONTROL].as_bytes(), headers.len()), (&b"max-age=60"[..], 5));
        let own = HeaderValue::from_static("same-origin");
        let mut page = HeaderMap::from_iter([(REFERRER_POLICY, own.clone())]);
        secure(&mut page);
        assert_eq!((&page[REFERRER_POLICY], &page[X_CONTENT_TYPE_OPTIONS]), (&own, &NOSNIFF));
        assert!(page.contains_key(RESOURCE_POLICY) && page.contains_key(CONTENT_SECURITY_POLICY));
        let mut tagged = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"1\""))]);
        secure(&mut tagged);
        assert_eq!(tagged[CACHE_CONTROL], "private, no-cache");
        let mut repeated = HeaderMap::new();
        for value in ["a", "b"] {
            repeated.append(SET_COOKIE, HeaderValue::from_static(value));
        }
        secure(&mut repeated);
        assert_eq!(repeated.get_all(SET_COOKIE).iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
