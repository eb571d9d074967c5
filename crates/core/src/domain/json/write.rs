//! A writer of compact JSON with the same output as serde_json. It scans strings eight bytes at a time, because most of
//! the arguments, results and outputs of calls are strings.

use serde_json::Value;

/// Appends a value.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            // Writing a number to memory cannot fail.
            let _ = serde_json::to_writer(out, number);
        }
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(out, name);
                out.push(b':');
                write_value(out, member);
            }
            out.push(b'}');
        }
    }
}

/// Appends a string (RFC 8259, section 7).
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    // The start of the bytes that are not written yet.
    let mut start = 0;
    while let Some(at) = next_escape(bytes, start) {
        out.extend_from_slice(&bytes[start..at]);
        escape(out, bytes[at]);
        start = at + 1;
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Returns the index of the next byte that must be escaped.
fn next_escape(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let found = escapes(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let is_escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    bytes[at..].iter().position(is_escaped).map(|offset| at + offset)
}

/// Returns a word whose lowest set bit is in the first byte to escape. Higher bytes are undefined.
fn escapes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    /// Returns such a word for the first byte below `least`, which is at most 128.
    const fn below(word: u64, least: u64) -> u64 {
        word.wrapping_sub(ONES * least) & !word & HIGH
    }
    below(word, 0x20) | below(word ^ (ONES * b'"' as u64), 1) | below(word ^ (ONES * b'\\' as u64), 1)
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write_value(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_at_every_index_is_written_like_serde() {
        for byte in 0..128_u8 {
            for before in 0..20 {
                for behind in [0, 1, 7, 8, 9] {
                    let text = format!("{}{}{}", "x".repeat(before), byte as char, "\u{e9}".repeat(behind));
                    assert_eq!(written(&json!(text)), serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    #[test]
    fn values_are_written_like_serde() {
        let value = json!({
            "": null, "a\"b": [true, false, 0, -1, u64::MAX, i64::MIN, 0.1, 1e300, -0.0, 5.0], "n": {"o": {}, "p": []},
            "long": "no byte of this text is escaped", "much": "\"\"\"\\\\\n\t\u{8}\u{c}\r\u{0}\u{1f}\u{7f}",
        });
        assert_eq!(written(&value), serde_json::to_string(&value).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_written_like_serde(parts in vec("[a-zA-Z ]{0,12}|[\"\\\\\u{0}-\u{1f}]|.", 0..12)) {
            let text = parts.concat();
            prop_assert_eq!(written(&json!(text)), serde_json::to_string(&text).unwrap());
        }
    }
}
