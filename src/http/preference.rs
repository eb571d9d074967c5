//! `Prefer` (RFC 7240): whether and how long a request waits for its calls.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::engine::Wait;

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
        let texts = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        for preference in texts.flat_map(|text| text.split(',')) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> Option<(Wait, String)> {
        let mut headers = HeaderMap::new();
        headers.insert("prefer", HeaderValue::from_static(text));
        let preference = Preference::of(&headers)?;
        Some((preference.wait(), preference.applied().unwrap().to_str().unwrap().to_owned()))
    }

    #[test]
    fn preferences_about_waiting_are_read_and_others_left_alone() {
        let seconds = |seconds| Wait::For(Duration::from_secs(seconds));
        assert_eq!(of("respond-async"), Some((Wait::Accepted, "respond-async".into())));
        assert_eq!(of("return=minimal, Wait = 5"), Some((seconds(5), "wait=5".into())));
        assert_eq!(of("respond-async, wait=\"10\"; x=y"), Some((seconds(10), "respond-async, wait=10".into())));
        assert_eq!(of("wait=99999999999"), Some((seconds(3600), "wait=3600".into())));
        assert_eq!((of("wait=soon"), of("handling=lenient"), of("")), (None, None, None));
    }
}
