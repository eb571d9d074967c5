//! `Cache-Control` of a request (RFC 9111, section 5.2.1): whether a cached result may be used.

use axum::http::{HeaderMap, header};

use crate::domain::call::CacheControl;

/// Parses the directives of a request. `max-age=0` equals `no-cache`, because browsers reload with either. Other
/// directives are ignored.
pub(super) fn of(headers: &HeaderMap) -> CacheControl {
    let mut found = CacheControl::Any;
    let texts = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    for directive in texts.flat_map(|text| text.split(',')) {
        let directive = directive.trim();
        if directive.eq_ignore_ascii_case("no-store") {
            return CacheControl::NoStore;
        }
        if directive.eq_ignore_ascii_case("no-cache") || directive.eq_ignore_ascii_case("max-age=0") {
            found = CacheControl::NoCache;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn strictest_directive_applies() {
        for (text, expected) in [
            ("no-cache", CacheControl::NoCache),
            ("max-age=0", CacheControl::NoCache),
            ("No-Cache, No-Store", CacheControl::NoStore),
            ("max-age=60, no-transform", CacheControl::Any),
            ("", CacheControl::Any),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(text));
            assert_eq!(of(&headers), expected, "{text}");
        }
        assert_eq!(of(&HeaderMap::new()), CacheControl::Any);
    }
}
