//! Constraints that a vendor's subset cannot express, as short sentences for the model.

use serde_json::Value;

use crate::domain::json;

/// Maximum number of characters shown of one value as JSON.
const MAX_CHARS: usize = 240;

/// Formats a value as compact JSON, shortened.
pub(super) fn value(value: &Value) -> String {
    json::shorten(&value.to_string(), MAX_CHARS)
}

/// Formats the first five values.
pub(super) fn values(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().take(5).map(value).collect();
    json::shorten(&shown.join(", "), MAX_CHARS)
}

/// Formats names in quotes.
pub(super) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().take(20).map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// Describes the constraints of a schema briefly.
pub(super) fn schema(schema: &Value) -> String {
    let Value::Object(keywords) = schema else {
        return if *schema == Value::Bool(false) {
            "no value is allowed".to_owned()
        } else {
            "any value is allowed".to_owned()
        };
    };
    let mut texts = Vec::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("required", Value::Array(required)) => {
                let given = names(required.iter().filter_map(Value::as_str));
                if !given.is_empty() {
                    texts.push(format!("{given} must be given"));
                }
            }
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let listed = property.get("enum").and_then(Value::as_array);
                    match (property.get("const"), listed) {
                        (Some(only), _) => texts.push(format!("`{name}` is {}", self::value(only))),
                        (None, Some(listed)) => texts.push(format!("`{name}` is one of {}", values(listed))),
                        (None, None) => texts.push(format!("`{name}` matches {}", self::value(property))),
                    }
                }
            }
            ("type" | "title" | "description" | "$comment" | "default", _) => {}
            _ => texts.push(format!("{} {}", json::shorten(keyword, 60), self::value(value))),
        }
    }
    let only_type = texts.is_empty().then(|| keywords.get("type")).flatten();
    if let Some(kind) = only_type {
        texts.push(format!("it is of type {}", value(kind)));
    }
    if texts.is_empty() { "any value is allowed".to_owned() } else { json::shorten(&texts.join(", "), 2 * MAX_CHARS) }
}

/// Describes alternatives: at least one or, with `one`, exactly one must match.
pub(super) fn branches(schemas: &[Value], one: bool) -> String {
    let some: Vec<String> = schemas
        .iter()
        .take(12)
        .enumerate()
        .map(|(at, schema)| format!("({}) {}", at + 1, self::schema(schema)))
        .collect();
    let how_many = if one { "Exactly one" } else { "At least one" };
    json::shorten(&format!("{how_many} of these must match: {}", some.join("; ")), 900) + "."
}

/// Describes one keyword.
pub(super) fn keyword(keyword: &str, value: &Value, whole: &Value) -> String {
    match (keyword, value) {
        ("not", schema) => format!("Must not match: {}.", self::schema(schema)),
        ("if", when) => {
            let mut text = format!("If {}", self::schema(when));
            if let Some(then) = whole.get("then") {
                text += &format!(", then {}", self::schema(then));
            }
            if let Some(other) = whole.get("else") {
                text += &format!("; otherwise {}", self::schema(other));
            }
            text + "."
        }
        ("contains", schema) => format!("At least one item must match: {}.", self::schema(schema)),
        ("minContains", count) => format!("At least {count} items must match."),
        ("maxContains", count) => format!("At most {count} items may match."),
        ("dependentRequired" | "dependencies" | "dependentSchemas", Value::Object(dependent)) => {
            let each = dependent.iter().take(20).map(|(name, needs)| match needs {
                Value::Array(needed) => {
                    let needed = names(needed.iter().filter_map(Value::as_str));
                    format!("If `{name}` is given, {needed} must be given too.")
                }
                schema => format!("If `{name}` is given: {}.", self::schema(schema)),
            });
            each.collect::<Vec<_>>().join(" ")
        }
        ("multipleOf", value) => format!("Must be a multiple of {value}."),
        ("uniqueItems", _) => "All items must be different.".to_owned(),
        ("format", value) => format!("Format: {}.", value.as_str().unwrap_or_default()),
        ("pattern", value) => {
            format!(
                "Must match the regular expression {}.",
                json::shorten(value.as_str().unwrap_or_default(), MAX_CHARS)
            )
        }
        (keyword, value) => format!("{keyword}: {}.", self::value(value)),
    }
}

/// Formats that the validator asserts; others are only annotations.
const ASSERTED: [&str; 19] = [
    "date",
    "time",
    "date-time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "uuid",
];

/// Returns `true` if the validator asserts the `format` of a schema.
pub(super) fn is_asserted(schema: &Value) -> bool {
    schema.get("format").and_then(Value::as_str).is_some_and(|format| ASSERTED.contains(&format))
}

/// Appends a sentence to a text.
pub(super) fn join(text: &mut String, more: &str) {
    if more.is_empty() || text.contains(more) {
        return;
    }
    if !text.is_empty() {
        text.push_str(if text.ends_with(['.', '!', '?', ':', '\n']) { " " } else { ". " });
    }
    text.push_str(more);
}
