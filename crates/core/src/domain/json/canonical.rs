//! The canonical form of JSON (RFC 8785), with all digits of whole numbers.

use serde_json::{Number, Value};

use super::write_text;

/// Appends a value in the canonical form: without white space, with sorted members, and with numbers as ECMAScript
/// writes doubles. Different values have different forms: a whole number in the range of 64-bit integers is written with all
/// its digits, where RFC 8785 (section 3.2.2.3) writes at most 17 and so gives neighbours beyond 2^53 the same form.
pub fn write_canonical(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Number(number) => write_number(out, number),
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

fn write_number(out: &mut Vec<u8>, number: &Number) {
    let whole = whole_number(number);
    if let Some(whole) = whole {
        return out.extend_from_slice(whole.to_string().as_bytes());
    }
    // A number beyond the range of doubles has no canonical form, so its digits count.
    match number.as_f64().filter(|value| value.is_finite()) {
        Some(value) => out.extend_from_slice(ryu_js::Buffer::new().format(value).as_bytes()),
        None => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Returns the value of a whole number in the range of 64-bit integers, also if it is a double.
fn whole_number(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i128() {
        return Some(integer);
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    let is_in_range = (-2_f64.powi(63)..2_f64.powi(64)).contains(&value);
    // Exact, because the value is whole and in range.
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and in range")]
    is_in_range.then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    #[test]
    fn whole_numbers_have_all_their_digits() {
        for digits in ["9007199254740992", "9007199254740993", "-9007199254740993", "18446744073709551615"] {
            assert_eq!(canonical(digits), digits);
        }
        // The nearest double of both is 2^60, which RFC 8785 writes as the second one.
        assert_eq!(canonical("1152921504606846976"), "1152921504606846976");
        assert_eq!(canonical("1152921504606847000"), "1152921504606847000");
        assert_eq!(canonical("1.152921504606847e18"), "1152921504606846976");
        assert_eq!(canonical("295147905179352830000.0"), "295147905179352830000");
    }

    proptest! {
        #[test]
        fn different_integers_have_different_forms(one: i64, step in 1_i64..2000, double: f64) {
            let other = one.wrapping_add(step);
            prop_assert_ne!(canonical(&one.to_string()), canonical(&other.to_string()));
            if double.is_finite() {
                let form = canonical(&Value::from(double).to_string());
                let is_equal = form == canonical(&one.to_string());
                #[expect(clippy::cast_possible_truncation, reason = "saturates")]
                let same = double.fract() == 0.0 && double as i128 == i128::from(one);
                prop_assert_eq!(is_equal, same);
            }
        }
    }
}
