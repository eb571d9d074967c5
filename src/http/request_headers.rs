//! Headers of requests: `Accept`, `Accept-Encoding`, `Prefer`, `Cache-Control` and `traceparent`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::domain::call::CacheControl;
use crate::engine::Wait;

/// The header of W3C Trace Context.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the elements of a header that is a list, of all its lines.
fn elements(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','))
}

/// A quality value, in thousandths.
type Quality = u16;

const EVENTS: &str = "text/event-stream";
/// The media ranges that match JSON, the most specific one last.
const JSON: [&str; 3] = ["*/*", "application/*", "application/json"];
/// The quality of a range without a `q` parameter.
const FULL: Quality = 1000;

/// Returns `true` if `text/event-stream` is listed with a quality above 0 and JSON has no higher quality. A wildcard alone
/// means JSON.
pub(super) fn prefers_events(headers: &HeaderMap) -> bool {
    let mut events = 0;
    let mut json = [None; JSON.len()];
    for (range, quality) in weighted(headers, header::ACCEPT) {
        if range.eq_ignore_ascii_case(EVENTS) {
            events = events.max(quality);
        } else if let Some(index) = JSON.iter().position(|name| range.eq_ignore_ascii_case(name)) {
            json[index] = json[index].max(Some(quality));
        }
    }
    let json = json.into_iter().rev().flatten().next().unwrap_or(0);
    events > 0 && events >= json
}

/// Returns `true` if the client accepts a coding of the service. Otherwise it gets responses as they are, also if it
/// rejects `identity`.
pub(super) fn accepts_compression(headers: &HeaderMap) -> bool {
    let is_known = |coding: &str| ["br", "gzip"].iter().any(|known| coding.eq_ignore_ascii_case(known));
    weighted(headers, header::ACCEPT_ENCODING).any(|(coding, quality)| quality > 0 && is_known(coding))
}

/// Returns each element of a header with its quality.
fn weighted(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&str, Quality)> {
    elements(headers, name).map(|element| {
        let mut parts = element.split(';').map(str::trim);
        (parts.next().unwrap_or_default(), parts.find_map(quality).unwrap_or(FULL))
    })
}

/// Returns the value of the parameter `q`, or `None` unless it is a number from 0 to 1.
fn quality(parameter: &str) -> Option<Quality> {
    let (name, value) = parameter.split_once('=')?;
    let value: f32 = value.trim().parse().ok()?;
    let is_quality = name.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&value);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is from 0 to 1000")]
    is_quality.then(|| (value * f32::from(FULL)).round() as Quality)
}

/// The `Prefer` header (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The waiting preferences of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preference {
    respond_async: bool,
    wait_s: Option<u64>,
}

/// Maximum wait, in seconds: one hour. Larger values are reduced to it.
const MAX_WAIT_S: u64 = 3600;

impl Preference {
    /// Parses the waiting preferences. Other preferences are ignored (RFC 7240, section 2); the first `wait` counts.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut found = Self { respond_async: false, wait_s: None };
        for preference in elements(headers, PREFER) {
            let token = preference.split(';').next().unwrap_or_default();
            let (name, value) = token.split_once('=').unwrap_or((token, ""));
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("respond-async") {
                found.respond_async = true;
            } else if name.eq_ignore_ascii_case("wait") && found.wait_s.is_none() {
                found.wait_s = value.parse::<u64>().ok().map(|seconds| seconds.min(MAX_WAIT_S));
            }
        }
        (found.respond_async || found.wait_s.is_some()).then_some(found)
    }

    /// Returns the wait. With both preferences, the request waits first and then responds asynchronously (RFC 7240,
    /// section 4.3).
    pub fn wait(self) -> Wait {
        self.wait_s.map_or(Wait::Accepted, |seconds| Wait::For(Duration::from_secs(seconds)))
    }

    /// Returns the value of `Preference-Applied`.
    pub fn applied(self) -> Option<HeaderValue> {
        let respond_async = self.respond_async.then(|| "respond-async".to_owned());
        let wait = self.wait_s.map(|seconds| format!("wait={seconds}"));
        let parts: Vec<String> = respond_async.into_iter().chain(wait).collect();
        HeaderValue::from_str(&parts.join(", ")).ok()
    }
}

/// Parses `Cache-Control` (RFC 9111, section 5.2.1): whether a cached result may be used. `max-age=0` equals
/// `no-cache`, because browsers reload with either. Other directives are ignored.
pub(super) fn cache_control(headers: &HeaderMap) -> CacheControl {
    let mut found = CacheControl::Any;
    for directive in elements(headers, header::CACHE_CONTROL).map(str::trim) {
        if directive.eq_ignore_ascii_case("no-store") {
            return CacheControl::NoStore;
        }
        if directive.eq_ignore_ascii_case("no-cache") || directive.eq_ignore_ascii_case("max-age=0") {
            found = CacheControl::NoCache;
        }
    }
    found
}

/// Returns the `traceparent` header unchanged if it is well-formed (W3C Trace Context, section 3.2).
pub(super) fn traceparent(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_one = lengths.starts_with(&[2, 32, 16, 2]) && parts.iter().take(4).all(|part| is_hex(part));
    is_one.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(accepted: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in accepted {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        prefers_events(&headers)
    }

    #[test]
    fn events_are_preferred_unless_json_has_a_higher_quality() {
        for accept in [
            "text/event-stream",
            "Text/Event-Stream; charset=utf-8",
            "text/event-stream;q=0.1",
            "application/json, text/event-stream",
            "text/event-stream;q=0.5, application/json;q=0.5",
            "application/json;q=0.4, text/event-stream ; Q=0.5",
            "*/*;q=0.8, text/event-stream",
            "application/json;q=0, */*, text/event-stream;q=0.2",
            "text/event-stream;q=high",
        ] {
            assert!(prefers(&[accept]), "{accept}");
        }
        assert!(prefers(&["application/json;q=0.1", "text/event-stream;q=0.2"]));
    }

    #[test]
    fn json_is_the_default() {
        for accept in [
            "",
            "*/*",
            "text/*",
            "application/json",
            "text/html, application/xhtml+xml, */*;q=0.8",
            "text/event-stream;q=0",
            "text/event-stream;q=0.000, */*",
            "application/json, text/event-stream;q=0",
            "application/json, text/event-stream;q=0.1",
            "text/event-stream;charset=utf-8;q=0.9, application/json",
            "text/event-stream;q=0.5, */*",
            "text/event-stream;q=0.5, application/*;q=0.6, */*;q=0.1",
        ] {
            assert!(!prefers(&[accept]), "{accept}");
        }
        assert!(!prefers(&[]));
        assert!(!prefers(&["text/event-stream;q=0.2", "application/json"]));
    }

    #[test]
    fn compression_needs_a_coding_of_the_service() {
        let accepts = |text| {
            accepts_compression(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        for text in ["gzip", "br", "deflate, GZIP;q=0.1", "br;q=0, gzip", "gzip, *;q=0"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["", "identity", "zstd", "*", "gzip;q=0, br;q=0.000", "identity;q=0", "*;q=0"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!accepts_compression(&HeaderMap::new()));
    }

    fn preference(text: &'static str) -> Option<(Wait, String)> {
        let mut headers = HeaderMap::new();
        headers.insert("prefer", HeaderValue::from_static(text));
        let preference = Preference::of(&headers)?;
        Some((preference.wait(), preference.applied().unwrap().to_str().unwrap().to_owned()))
    }

    #[test]
    fn preferences_about_waiting_are_read_and_others_left_alone() {
        let seconds = |seconds| Wait::For(Duration::from_secs(seconds));
        assert_eq!(preference("respond-async"), Some((Wait::Accepted, "respond-async".into())));
        assert_eq!(preference("return=minimal, Wait = 5"), Some((seconds(5), "wait=5".into())));
        assert_eq!(preference("respond-async, wait=\"10\"; x=y"), Some((seconds(10), "respond-async, wait=10".into())));
        assert_eq!(preference("wait=99999999999"), Some((seconds(3600), "wait=3600".into())));
        assert_eq!((preference("wait=soon"), preference("handling=lenient"), preference("")), (None, None, None));
    }

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
            assert_eq!(cache_control(&headers), expected, "{text}");
        }
        assert_eq!(cache_control(&HeaderMap::new()), CacheControl::Any);
    }
}
