//! Lossless JSON: at most 128 levels, and numbers as 64-bit integers or doubles. An integer is never rounded.

use std::ops::Range;

use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

mod bounds;
mod canonical;
mod correct;
mod text;
mod weighed;
mod write;

pub use bounds::{Bound, ReplacedBound, SCHEMA_MAPS, is_within_schema, parse_with_schemas};
pub use canonical::write_canonical;
pub use correct::correct;
pub use text::JsonText;
pub use weighed::{DeserializeWeighed, STEP, Scale, WeighedError, WeighedValue, parse_weighed, parse_weighed_as};
pub use write::{write_text, write_value};

/// The error reason for an integer that would be rounded.
const BEYOND_64_BITS: &str = "integer beyond 64 bits";
/// The parser's error reason for a number beyond the range of doubles.
const BEYOND_DOUBLES: &str = "number out of range";

/// Maximum nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// An error returned by [`parse`], with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct JsonError {
    /// The reason, without the position.
    pub reason: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 1.
    pub column: usize,
}

/// Returns a description of the number if the text is valid JSON with a number that cannot be represented. Returns
/// `None` for any other error.
#[must_use]
pub fn unkept_number(text: &str, error: &JsonError) -> Option<String> {
    let what = match error.reason.as_str() {
        BEYOND_64_BITS => "an integer beyond 64 bits",
        BEYOND_DOUBLES => "a number beyond a double",
        _ => return None,
    };
    // Numbers are checked before the syntax.
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    is_json.then(|| format!("{what} (line {}, column {})", error.line, error.column))
}

/// Parses a JSON document.
///
/// # Errors
/// Returns an error if the text is not JSON (RFC 8259), is nested deeper than [`MAX_DEPTH`], or contains an integer
/// that neither fits 64 bits nor is exactly a double.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_weighed(bytes, |_| true).map(|weighed| weighed.value).map_err(|error| match error {
        WeighedError::Json(error) => error,
        // Unreachable, because every allocation is granted.
        WeighedError::TooHeavy => JsonError { reason: error.to_string(), line: 1, column: 1 },
    })
}

/// Parses a document and counts its memory on `scale`.
fn parse_with(bytes: &[u8], scale: &mut Scale<'_>) -> Result<Value, JsonError> {
    if may_hold_long_integer(bytes) {
        check_depth_and_integers(bytes)?;
    }
    // The parser stops one level early, so a text that it rejects as too deep is checked again. Validating UTF-8 once
    // for the whole text is faster than for each string. Invalid UTF-8 is left to the parser, which reports the
    // position.
    let parsed = match std::str::from_utf8(bytes) {
        Ok(text) => parse_from(&mut serde_json::Deserializer::from_str(text), scale),
        Err(_) => parse_from(&mut serde_json::Deserializer::from_slice(bytes), scale),
    };
    let parsed = match parsed {
        Err(error) if error.is_syntax() && error.to_string().starts_with("recursion limit") => {
            check_depth_and_integers(bytes)?;
            scale.reset();
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            deserializer.disable_recursion_limit();
            parse_from(&mut deserializer, scale)
        }
        parsed => parsed,
    };
    parsed.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let reason = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text).to_owned();
        JsonError { reason, line, column }
    })
}

fn parse_from<'de>(
    deserializer: &mut serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    scale: &mut Scale<'_>,
) -> serde_json::Result<Value> {
    let value = scale.deserialize(&mut *deserializer)?;
    deserializer.end().map(|()| value)
}

/// Minimum length of an integer that may exceed 64 bits.
const LONG_INTEGER: usize = 19;

/// Returns `true` if the text contains [`LONG_INTEGER`] consecutive digits. One of them is then at a multiple of that
/// length, so only those bytes are inspected.
fn may_hold_long_integer(bytes: &[u8]) -> bool {
    (LONG_INTEGER - 1..bytes.len()).step_by(LONG_INTEGER).any(|at| {
        let before = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let from_here = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        from_here > 0 && before + from_here >= LONG_INTEGER
    })
}

/// Checks depth and integers in one pass over the raw text. Syntax errors are left to the parser.
fn check_depth_and_integers(bytes: &[u8]) -> Result<(), JsonError> {
    scan(bytes, |_, integer| Err(error_at(bytes, integer.start, BEYOND_64_BITS.to_owned())))
}

/// A step of the path to a value in a raw text.
enum RawToken {
    /// The index in an array.
    Index(usize),
    /// The last key of an object with its quotes, and whether the next string is a key.
    Key(Range<usize>, bool),
}

/// Calls `on_rounded` with the path and the range of each integer that would be rounded. Syntax errors are left to the
/// parser.
fn scan(
    bytes: &[u8],
    mut on_rounded: impl FnMut(&[RawToken], Range<usize>) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    let (mut path, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at + 1);
                if let Some(RawToken::Key(key, is_key @ true)) = path.last_mut() {
                    (*key, *is_key) = (start..bytes.len().min(at + 1), false);
                }
            }
            b'[' | b'{' if path.len() >= MAX_DEPTH => {
                return Err(error_at(bytes, at, format!("nested deeper than {MAX_DEPTH} levels")));
            }
            b'[' => path.push(RawToken::Index(0)),
            b'{' => path.push(RawToken::Key(0..0, true)),
            b']' | b'}' => drop(path.pop()),
            b',' => match path.last_mut() {
                Some(RawToken::Index(index)) => *index += 1,
                Some(RawToken::Key(_, is_key)) => *is_key = true,
                None => {}
            },
            b'0'..=b'9' | b'-' => {
                at = end_of_number(bytes, at);
                let token = &bytes[start..=at];
                if token.len() >= LONG_INTEGER && !is_exact(token) {
                    on_rounded(&path, start..at + 1)?;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Returns the index of the closing quote, or the end of the text.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Returns the index of the last byte of the number that begins at `start`.
fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let rest = bytes[start + 1..].iter();
    start + rest.take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')).count()
}

/// Returns `true` if an integer keeps its value as `i64`, `u64` or `f64`. Fractions and exponents are doubles by
/// definition.
fn is_exact(token: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(token) else { return true };
    if text.contains(['.', 'e', 'E']) || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return true;
    }
    text.parse::<f64>().is_ok_and(|double| format!("{double:.0}") == text)
}

fn error_at(bytes: &[u8], at: usize, reason: String) -> JsonError {
    let before = &bytes[..at];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    JsonError { reason, line, column: at - line_start + 1 }
}

/// Returns the size of the members as compact JSON, in bytes.
#[must_use]
pub fn size_of(members: &Map<String, Value>) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Writing to the counter cannot fail.
    let _ = serde_json::to_writer(&mut counter, members);
    counter.0
}

/// Merges `patch` into `target`: objects are merged recursively, and other values are replaced.
pub fn merge_deep(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, new) in patch {
        match (target.get_mut(&key), new) {
            (Some(Value::Object(old)), Value::Object(new)) => merge_deep(old, new),
            (_, new) => {
                target.insert(key, new);
            }
        }
    }
}

/// Returns the JSON type of a value, named as in JSON Schema.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns a JSON Pointer for display. The empty pointer of the root would look as if it were missing.
#[must_use]
pub fn pointer_text(pointer: &str) -> &str {
    if pointer.is_empty() { "(root)" } else { pointer }
}

/// Returns an escaped reference token of a JSON Pointer (RFC 6901, section 3).
#[must_use]
pub fn pointer_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns at most `limit` characters of `text`, with `…` for the omitted part.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_value_or_are_rejected() {
        for kept in ["9223372036854775807", "-9223372036854775808", "18446744073709551615"] {
            assert_eq!(parse(kept.as_bytes()).unwrap().to_string(), kept);
        }
        let refused = parse(b"[1,\n 123456789012345678901234567890]").unwrap_err();
        assert_eq!((refused.line, refused.column), (2, 2));
        assert!(parse(b"18446744073709551617").is_err());
        assert!(parse(b"1e400").is_err());
        assert_eq!(parse(b"18446744073709551616").unwrap().as_f64(), Some(18446744073709551616.0));
    }

    #[test]
    fn json_of_128_levels_is_read_and_deeper_json_is_rejected() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(128).as_bytes()).is_ok());
        assert!(parse(nested(129).as_bytes()).unwrap_err().reason.contains("128"));
        assert!(parse(format!("\"{}\"", "[".repeat(500)).as_bytes()).is_ok());
    }

    #[test]
    fn last_of_duplicate_keys_wins() {
        assert_eq!(parse(br#"{"a":1,"a":2}"#).unwrap(), serde_json::json!({"a": 2}));
    }

    #[test]
    fn syntax_error_names_its_position_once() {
        let error = parse(b"{\"a\": tru}").unwrap_err();
        assert_eq!(error.to_string(), "expected ident at line 1 column 10");
    }

    #[test]
    fn objects_merge_and_other_values_are_replaced() {
        let mut target = serde_json::json!({"a": {"x": 1}, "b": [1], "c": 1});
        let patch = serde_json::json!({"a": {"y": 2}, "b": [2], "c": {"z": 1}});
        merge_deep(target.as_object_mut().unwrap(), patch.as_object().unwrap().clone());
        assert_eq!(target, serde_json::json!({"a": {"x": 1, "y": 2}, "b": [2], "c": {"z": 1}}));
    }
}
