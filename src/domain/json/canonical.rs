//! The canonical form of JSON (RFC 8785).

use serde_json::Value;

use super::write_text;

/// Appends a value in the canonical form: without white space, with sorted members, and with numbers as ECMAScript
/// writes doubles.
pub fn write_canonical(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Number(number) => {
            let mut buffer = ryu_js::Buffer::new();
            // A number beyond the range of doubles has no canonical form, so its digits count.
            match number.as_f64().filter(|value| value.is_finite()) {
                Some(value) => out.extend_from_slice(buffer.format(value).as_bytes()),
                None => out.extend_from_slice(number.to_string().as_bytes()),
            }
        }
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_canonical(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            out.push(b'{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(out, name);
                out.push(b':');
                write_canonical(out, member);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = Vec::new();
        write_canonical(&mut out, &serde_json::from_str(text).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_in_the_examples_of_the_standard() {
        let given =
            "[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, 1.0, -0.0, 10000000000000000]";
        assert_eq!(canonical(given), "[333333333.3333333,1e+30,4.5,0.002,1e-27,1,0,10000000000000000]");
    }

    #[test]
    fn members_are_sorted_by_their_utf_16_units() {
        let given =
            "{\"\u{20ac}\": 1, \"\\r\": 2, \"\u{fb33}\": 3, \"1\": 4, \"\u{1f600}\": 5, \"\u{80}\": 6, \"\u{f6}\": 7}";
        let expected = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(canonical(given), expected);
    }

    #[test]
    fn only_what_must_be_escaped_is_escaped() {
        assert_eq!(canonical(r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#), r#""€$\u000f\nA'B\"\\\\\"/""#);
    }
}
