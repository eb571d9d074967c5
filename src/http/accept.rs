//! `Accept` (RFC 9110, section 12.5.1): whether a request prefers events or JSON.

use axum::http::{HeaderMap, header};

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
    for (range, quality) in ranges(headers) {
        if range.eq_ignore_ascii_case(EVENTS) {
            events = events.max(quality);
        } else if let Some(place) = JSON.iter().position(|name| range.eq_ignore_ascii_case(name)) {
            json[place] = json[place].max(Some(quality));
        }
    }
    let json = json.into_iter().rev().flatten().next().unwrap_or(0);
    events > 0 && events >= json
}

/// Returns each media range with its quality.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = (&str, Quality)> {
    let texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
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
}
