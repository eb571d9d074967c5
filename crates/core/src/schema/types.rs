//! Sets of JSON Schema types.

use jsonschema::Draft;
use serde_json::{Number, Value};

use super::{SchemaError, display, nearest};
use crate::domain::json;

/// A set of JSON Schema types; `number` includes `integer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

/// The names, in the order of their bits.
const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

impl Types {
    pub(super) const ALL: Self = Self(127);
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    /// Numbers with a fraction.
    pub(super) const FRACTION: Self = Self(8);
    /// All numbers, including integers.
    pub(super) const NUMBER: Self = Self(12);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);

    fn named(name: &str) -> Self {
        match NAMES.iter().position(|known| *known == name) {
            Some(_) if name == "number" => Self::NUMBER,
            Some(bit) => Self(1 << bit),
            None => Self::NONE,
        }
    }

    /// Reads the value of `type`; unknown names are ignored.
    pub(super) fn read(value: &Value) -> Self {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).fold(Self::NONE, |types, name| types.union(Self::named(name)))
            }
            _ => Self::ALL,
        }
    }

    /// Returns the type of a value; a double without a fraction is an integer.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Number(number) if is_whole(number) => Self::INTEGER,
            Value::Number(_) => Self::FRACTION,
            other => Self::named(json::type_name(other)),
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

    /// Returns `true` if a value has one of the types. Since draft 6, a double without a fraction is an integer.
    pub(super) fn allow(self, value: &Value, draft: Draft) -> bool {
        let is_double = draft == Draft::Draft4 && value.is_f64();
        self.meets(if is_double { Self::FRACTION } else { Self::of(value) })
    }

    /// Returns the names; omits `integer` if the set contains `number`.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let shown = if self.meets(Self::FRACTION) { self.without(Self::INTEGER) } else { self };
        (0..7).filter(move |bit| shown.0 & (1 << bit) != 0).map(|bit| NAMES[bit])
    }
}

/// Returns `true` if a number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|double| double.fract() == 0.0)
}

/// Parses the value of `type`.
///
/// # Errors
/// Returns a [`SchemaError`] with a suggestion if a name is not a JSON Schema type.
pub(super) fn declared(pointer: &str, value: Option<&Value>) -> Result<Option<Types>, SchemaError> {
    let named = |name: &str, pointer: String| {
        let types = Types::named(name);
        let message = || format!("{} is not a JSON Schema type; {}", display::text(name), hint(name));
        if types.is_empty() { Err(SchemaError { pointer, message: message() }) } else { Ok(types) }
    };
    match value {
        Some(Value::String(name)) => named(name, format!("{pointer}/type")).map(Some),
        Some(Value::Array(names)) => {
            let mut set = Types::NONE;
            for (index, name) in names.iter().enumerate() {
                // The meta-schema rejects everything else.
                if let Some(name) = name.as_str() {
                    set = set.union(named(name, format!("{pointer}/type/{index}"))?);
                }
            }
            Ok(Some(set))
        }
        _ => Ok(None),
    }
}

/// Returns the types of the given values.
pub(super) fn of_values(values: &[Value]) -> Types {
    values.iter().fold(Types::NONE, |types, value| types.union(Types::named(json::type_name(value))))
}

fn hint(name: &str) -> String {
    let meant = match name.to_ascii_lowercase().as_str() {
        "float" | "double" | "decimal" | "numeric" => Some("number"),
        "int" | "long" | "int32" | "int64" | "uint" => Some("integer"),
        "dict" | "map" | "hashmap" | "struct" | "record" | "json" => Some("object"),
        "list" | "tuple" | "set" => Some("array"),
        "str" | "text" | "char" | "date" | "datetime" | "file" | "enum" => Some("string"),
        "bool" => Some("boolean"),
        "none" | "nil" | "undefined" => Some("null"),
        "any" | "mixed" | "*" => return "omit \"type\" to allow any value".to_owned(),
        other => nearest(other, NAMES),
    };
    match meant {
        Some(meant) => format!("use \"{meant}\""),
        None => format!("use one of {}", NAMES.join(", ")),
    }
}
