//! Sets of JSON Schema types.

use jsonschema::Draft;
use serde_json::Value;

use super::{SchemaError, display, nearest};

/// A set of the seven JSON Schema types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

impl Types {
    const fn named(name: &str) -> Option<Self> {
        Some(Self(match name.as_bytes() {
            b"null" => 1,
            b"boolean" => 2,
            b"integer" => 4,
            b"number" => 8,
            b"string" => 16,
            b"array" => 32,
            b"object" => 64,
            _ => return None,
        }))
    }

    /// Returns `true` if the set contains the named type; `number` includes `integer`.
    pub(super) fn contains(self, name: &str) -> bool {
        Self::named(name).is_some_and(|one| self.0 & one.0 != 0) || name == "integer" && self.contains("number")
    }

    pub(super) fn intersect(self, other: Self) -> Self {
        // `number` includes every integer.
        let widened = |types: Self| if types.contains("number") { types.0 | 4 } else { types.0 };
        Self(widened(self) & widened(other))
    }

    /// Returns `true` if a value has one of the types. Since draft 6, a double without a fraction is an integer.
    pub(super) fn allow(self, value: &Value, draft: Draft) -> bool {
        self.contains(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Number(number) if !number.is_f64() => "integer",
            Value::Number(number) => {
                let whole = number.as_f64().is_some_and(|double| double.fract() == 0.0);
                if whole && draft > Draft::Draft4 { "integer" } else { "number" }
            }
        })
    }
}

/// Parses the value of `type`.
///
/// # Errors
/// Returns a [`SchemaError`] with a suggestion if a name is not a JSON Schema type.
pub(super) fn declared(pointer: &str, value: Option<&Value>) -> Result<Option<Types>, SchemaError> {
    let named = |name: &str, place: String| {
        Types::named(name).ok_or_else(|| SchemaError {
            pointer: place,
            message: format!("{} is not a JSON Schema type; {}", display::text(name), hint(name)),
        })
    };
    match value {
        Some(Value::String(name)) => named(name, format!("{pointer}/type")).map(Some),
        Some(Value::Array(names)) => {
            let mut set = Types(0);
            for (index, name) in names.iter().enumerate() {
                // The meta-schema rejects everything else.
                if let Some(name) = name.as_str() {
                    set.0 |= named(name, format!("{pointer}/type/{index}"))?.0;
                }
            }
            Ok(Some(set))
        }
        _ => Ok(None),
    }
}

/// Returns the types of the given values.
pub(super) fn of_values(values: &[Value]) -> Types {
    let names = values.iter().map(crate::domain::json::type_name);
    Types(names.filter_map(Types::named).fold(0, |set, one| set | one.0))
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
