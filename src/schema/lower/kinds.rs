//! Sets of types, and comparison of numbers.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A set of JSON Schema types; `number` includes `integer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

pub(super) const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

impl Kinds {
    pub(super) const ALL: Self = Self(127);
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    /// All numbers, including integers.
    pub(super) const NUMBER: Self = Self(12);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);

    pub(super) fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    /// Parses the value of `type`.
    pub(super) fn declared(value: &Value) -> Self {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).fold(Self::NONE, |kinds, name| kinds.union(Self::named(name)))
            }
            _ => Self::ALL,
        }
    }

    /// Returns the type of a value; a double without a fraction is an integer.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if is_whole(number) => Self::INTEGER,
            Value::Number(_) => Self(8),
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the names; omits `integer` if the set contains `number`.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let numbers = self.0 & 8 != 0;
        let bits = (0..7).filter(move |bit| self.0 & (1 << bit) != 0 && !(*bit == 2 && numbers));
        bits.map(|bit| NAMES[bit])
    }
}

/// Returns `true` if a number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|double| double.fract() == 0.0)
}

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
