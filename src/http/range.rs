//! `Range` requests (RFC 9110, section 14) for what is stored whole.

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// What of a body is asked for.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    /// All of it: no range, one that is none, or several, which may be answered so.
    Whole,
    /// From the first to the last byte, both in it.
    Part(usize, usize),
    /// Nothing that there is.
    Nothing,
}

/// Answers with the body, or with the part of it that is asked for. What has `tag` never changes.
///
/// # Errors
/// 416 if the range is outside the body.
pub(super) fn answer(headers: &HeaderMap, tag: &str, media_type: &str, bytes: Vec<u8>) -> Result<Response, Problem> {
    let length = bytes.len();
    let bytes = Bytes::from(bytes);
    let (status, bytes, content_range) = match wanted(headers, tag, length) {
        ByteRange::Whole => (StatusCode::OK, bytes, None),
        ByteRange::Part(first, last) => {
            let range = format!("bytes {first}-{last}/{length}");
            (StatusCode::PARTIAL_CONTENT, bytes.slice(first..=last), Some(range))
        }
        ByteRange::Nothing => return Err(Problem::range_not_satisfiable(length)),
    };
    let fallback = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(media_type).unwrap_or(fallback);
    // What a tool made, so that a browser does nothing with it but show it.
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
    let told = [(header::ETAG, Some(tag.to_owned())), (header::CONTENT_RANGE, content_range)];
    for (name, value) in told {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

fn wanted(headers: &HeaderMap, tag: &str, length: usize) -> ByteRange {
    let text_of = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // A part of something else is of no use to whoever has the rest.
    if text_of(header::IF_RANGE).is_some_and(|known| known != tag) {
        return ByteRange::Whole;
    }
    text_of(header::RANGE).and_then(|range| part(range, length)).unwrap_or(ByteRange::Whole)
}

/// What a `Range` asks for of so many bytes; `None` if it is none that counts.
fn part(range: &str, length: usize) -> Option<ByteRange> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    Some(match (first.trim(), last.trim()) {
        ("", last) => match number(last)? {
            0 => ByteRange::Nothing,
            _ if length == 0 => ByteRange::Nothing,
            suffix => ByteRange::Part(length.saturating_sub(suffix), length - 1),
        },
        (first, last) => {
            let first = number(first)?;
            let last = if last.is_empty() { usize::MAX } else { number(last)? };
            if last < first {
                return None;
            }
            if first < length { ByteRange::Part(first, last.min(length - 1)) } else { ByteRange::Nothing }
        }
    })
}

/// Digits only; what is larger than any body is so too.
fn number(text: &str) -> Option<usize> {
    let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_rfc_has_them() {
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
            assert_eq!(part(range, 10), wanted, "{range}");
        }
        assert_eq!(part("bytes=0-", 0), Some(ByteRange::Nothing));
        assert_eq!(part("bytes=-1", 0), Some(ByteRange::Nothing));
    }

    #[test]
    fn a_part_of_another_version_is_not_given() {
        let headers = |if_range: &'static str| {
            let pairs = [(header::RANGE, "bytes=0-1"), (header::IF_RANGE, if_range)];
            pairs.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect::<HeaderMap>()
        };
        assert_eq!(wanted(&headers("\"a\""), "\"a\"", 9), ByteRange::Part(0, 1));
        assert_eq!(wanted(&headers("\"b\""), "\"a\"", 9), ByteRange::Whole);
    }
}
