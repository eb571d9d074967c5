//! `Range` requests (RFC 9110, section 14) for stored bodies.

use super::{HttpResult, Problem};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;

/// The requested part of a body.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    /// The full body: no range, an invalid range, or several ranges.
    Whole,
    /// From the first to the last byte, both inclusive.
    Part(usize, usize),
    /// A range outside the body.
    Nothing,
}

/// Responds with the body or the requested part. The content for a given `tag` never changes.
///
/// # Errors
/// Returns a 416 problem if the range is outside the body.
pub(super) fn answer(headers: &HeaderMap, tag: &str, media_type: &str, bytes: Vec<u8>) -> HttpResult {
    let length = bytes.len();
    let bytes = Bytes::from(bytes);
    let (status, bytes, content_range) = match requested_range(headers, tag, length) {
        ByteRange::Whole => (StatusCode::OK, bytes, None),
        ByteRange::Part(first, last) => {
            let range = format!("bytes {first}-{last}/{length}");
            (StatusCode::PARTIAL_CONTENT, bytes.slice(first..=last), Some(range))
        }
        ByteRange::Nothing => return Err(Problem::range_not_satisfiable(length)),
    };
    let fallback = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(media_type).unwrap_or(fallback);
    // The content comes from a tool: browsers must only display it.
    let fixed = [
        (header::CONTENT_TYPE, media_type),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
        ),
    ];
    let mut response = (status, fixed, bytes).into_response();
    let optional = [(header::ETAG, Some(tag.to_owned())), (header::CONTENT_RANGE, content_range)];
    for (name, value) in optional {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

fn requested_range(headers: &HeaderMap, tag: &str, length: usize) -> ByteRange {
    let text_of = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // The client has a part of a different version, so it gets the full body.
    if text_of(header::IF_RANGE).is_some_and(|known| known != tag) {
        return ByteRange::Whole;
    }
    text_of(header::RANGE).and_then(|range| parse_range(range, length)).unwrap_or(ByteRange::Whole)
}

/// Resolves a `Range` against a body of the given length; `None` if the header must be ignored.
fn parse_range(range: &str, length: usize) -> Option<ByteRange> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    Some(match (first.trim(), last.trim()) {
        ("", last) => match parse_number(last)? {
            0 => ByteRange::Nothing,
            _ if length == 0 => ByteRange::Nothing,
            suffix => ByteRange::Part(length.saturating_sub(suffix), length - 1),
        },
        (first, last) => {
            let first = parse_number(first)?;
            let last = if last.is_empty() { usize::MAX } else { parse_number(last)? };
            if last < first {
                return None;
            }
            if first < length { ByteRange::Part(first, last.min(length - 1)) } else { ByteRange::Nothing }
        }
    })
}

/// Parses decimal digits. Numbers that are too large become `usize::MAX`, past the end of any body.
fn parse_number(text: &str) -> Option<usize> {
    let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_per_rfc_9110() {
        for (range, wanted) in [
            ("bytes=0-4", Some(ByteRange::Part(0, 4))),
            ("bytes=5-", Some(ByteRange::Part(5, 9))),
            ("bytes=-3", Some(ByteRange::Part(7, 9))),
            ("bytes=-30", Some(ByteRange::Part(0, 9))),
            ("Bytes=9-99", Some(ByteRange::Part(9, 9))),
            ("bytes=9-99999999999999999999999", Some(ByteRange::Part(9, 9))),
            ("bytes=10-", Some(ByteRange::Nothing)),
            ("bytes=99999999999999999999999-", Some(ByteRange::Nothing)),
            ("bytes=-0", Some(ByteRange::Nothing)),
            ("bytes=4-2", None),
            ("bytes=0-1,4-5", None),
            ("lines=0-1", None),
            ("bytes=+1-2", None),
            ("bytes=a-b", None),
            ("bytes=-", None),
            ("0-4", None),
        ] {
            assert_eq!(parse_range(range, 10), wanted, "{range}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Some(ByteRange::Nothing));
        assert_eq!(parse_range("bytes=-1", 0), Some(ByteRange::Nothing));
    }

    #[test]
    fn range_of_another_version_is_ignored() {
        let headers = |if_range: &'static str| {
            let pairs = [(header::RANGE, "bytes=0-1"), (header::IF_RANGE, if_range)];
            pairs.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect::<HeaderMap>()
        };
        assert_eq!(requested_range(&headers("\"a\""), "\"a\"", 9), ByteRange::Part(0, 1));
        assert_eq!(requested_range(&headers("\"b\""), "\"a\"", 9), ByteRange::Whole);
    }
}
