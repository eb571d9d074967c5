//! Comparison of numbers and values, as JSON Schema defines it.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Compares numbers; exactly if both are 64-bit integers.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    let integer = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Compares values as JSON Schema does: `1` equals `1.0`.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let equal = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(equal)
        }
        _ => one == other,
    }
}

/// Parses a length or a count, also if it is written as a double.
pub(super) fn count(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |double: f64| (double.fract() == 0.0 && (0.0..1e15).contains(&double)).then_some(double as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}
