//! Values of keywords.

use serde_json::{Map, Number, Value, json};

use super::Corrector;
use crate::schema::display;

/// Keywords whose value is a count.
const COUNTS: [&str; 8] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"];
/// Keywords whose value is a number.
const NUMBERS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords whose value is `true` or `false`.
const FLAGS: [&str; 4] = ["uniqueItems", "deprecated", "readOnly", "writeOnly"];
/// Keywords whose value is a text.
const TEXTS: [&str; 9] =
    ["title", "description", "format", "pattern", "$comment", "contentEncoding", "contentMediaType", "$id", "$schema"];
/// Keywords whose value is `true`, `false` or a schema.
const OPEN: [&str; 4] = ["additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems"];
/// Other keywords that are never `null`.
const OTHERS: [&str; 20] = [
    "type",
    "properties",
    "required",
    "enum",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "$defs",
    "definitions",
    "patternProperties",
    "propertyNames",
    "contains",
    "prefixItems",
    "$ref",
    "examples",
];

/// Returns `true` for a keyword for which `null` is no value.
pub(super) fn is_never_null(name: &str) -> bool {
    [&COUNTS[..], &NUMBERS, &FLAGS, &TEXTS, &OPEN, &OTHERS].iter().any(|names| names.contains(&name))
}

/// Returns the type that a name of another language means, with its format. `None` if it means none.
pub(super) fn type_named(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    let plain = |name| Some((name, None));
    match name.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" | "varchar" | "char" => plain("string"),
        "integer" | "int" | "int32" | "int64" | "long" | "bigint" => plain("integer"),
        "number" | "float" | "double" | "decimal" | "numeric" => plain("number"),
        "boolean" | "bool" => plain("boolean"),
        "object" | "dict" | "map" | "struct" | "record" => plain("object"),
        "array" | "list" | "tuple" => plain("array"),
        "null" | "none" | "nil" => plain("null"),
        "date" => Some(("string", Some("date"))),
        "datetime" | "date-time" | "timestamp" => Some(("string", Some("date-time"))),
        "uuid" => Some(("string", Some("uuid"))),
        _ => None,
    }
}

impl Corrector<'_> {
    /// Corrects the values of the keywords of one schema.
    pub(super) fn keywords(&mut self, members: &mut Map<String, Value>) {
        self.types(members);
        self.nullable(members);
        self.properties(members);
        self.required(members);
        self.enumeration(members);
        self.numbers(members);
        if !self.is_draft_4 {
            self.exclusive(members, "exclusiveMinimum", "minimum");
            self.exclusive(members, "exclusiveMaximum", "maximum");
        }
        self.flags(members);
        self.texts(members);
        self.lists(members);
        self.examples(members);
    }

    fn types(&mut self, members: &mut Map<String, Value>) {
        let Some(given) = members.get("type").cloned() else { return };
        let names: Vec<&str> = match &given {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().map(|name| name.as_str().unwrap_or("null")).collect(),
            _ => return,
        };
        if names.iter().all(|name| name.eq_ignore_ascii_case("any")) {
            members.shift_remove("type");
            self.note("type", format_args!("{} is left out: every type is allowed", display::value(&given)));
            return;
        }
        let Some(read) = names.iter().map(|name| type_named(name)).collect::<Option<Vec<_>>>() else { return };
        let mut types: Vec<&str> = Vec::new();
        for (name, _) in &read {
            if !types.contains(name) {
                types.push(name);
            }
        }
        let written = if given.is_array() { json!(types) } else { json!(types[0]) };
        if written == given {
            return;
        }
        self.note("type", format_args!("{} is written {}", display::value(&given), display::value(&written)));
        members.insert("type".to_owned(), written);
        if let [(_, Some(format))] = read[..]
            && !members.contains_key("format")
        {
            members.insert("format".to_owned(), json!(format));
        }
    }

    /// Writes `nullable` of OpenAPI 3.0 as a type, if it is written as a text; the keyword itself is no error.
    fn nullable(&mut self, members: &mut Map<String, Value>) {
        let is_text =
            members.get("nullable").and_then(Value::as_str).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        if let (true, Some(Value::String(name))) = (is_text, members.get("type")) {
            let types = json!([name, "null"]);
            members.insert("type".to_owned(), types);
            members.shift_remove("nullable");
            self.note("nullable", "written as a type");
        }
    }

    /// Writes an empty list of properties, as PHP does, as an empty object, and moves `required: true` of a property to
    /// the list of its object.
    fn properties(&mut self, members: &mut Map<String, Value>) {
        if members.get("properties").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            members.insert("properties".to_owned(), json!({}));
            self.note("properties", "[] is written {}");
        }
        let Some(Value::Object(properties)) = members.get_mut("properties") else { return };
        let mut required = Vec::new();
        for (name, property) in properties {
            let Some(property) = property.as_object_mut() else { continue };
            let flag = match property.get("required") {
                Some(Value::Bool(flag)) => *flag,
                Some(Value::String(text)) => match text.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => continue,
                },
                _ => continue,
            };
            property.shift_remove("required");
            self.note(
                "properties",
                format_args!("\"required\": {flag} of {} is moved to its object", display::text(name)),
            );
            if flag {
                required.push(json!(name));
            }
        }
        if required.is_empty() {
            return;
        }
        match members.get_mut("required") {
            Some(Value::Array(names)) => names.extend(required),
            _ => drop(members.insert("required".to_owned(), Value::Array(required))),
        }
    }

    fn required(&mut self, members: &mut Map<String, Value>) {
        let Some(given) = members.get("required") else { return };
        let names = match given {
            Value::Array(names) => {
                let mut kept: Vec<Value> = Vec::new();
                for name in names.iter().filter(|name| name.is_string()) {
                    if !kept.contains(name) {
                        kept.push(name.clone());
                    }
                }
                kept
            }
            Value::String(name) => vec![json!(name)],
            Value::Bool(false) => Vec::new(),
            Value::Object(none) if none.is_empty() => Vec::new(),
            _ => return,
        };
        let written = Value::Array(names);
        if written == *given && !(self.is_draft_4 && written == json!([])) {
            return;
        }
        self.note("required", format_args!("{} is written {}", display::value(given), display::value(&written)));
        if written == json!([]) {
            members.shift_remove("required");
        } else {
            members.insert("required".to_owned(), written);
        }
    }

    fn enumeration(&mut self, members: &mut Map<String, Value>) {
        let Some(Value::Array(values)) = members.get("enum") else { return };
        let mut kept: Vec<Value> = Vec::new();
        for value in values {
            if !kept.contains(value) {
                kept.push(value.clone());
            }
        }
        if values.is_empty() {
            members.shift_remove("enum");
            self.note("enum", "[] is left out");
        } else if kept.len() < values.len() {
            self.note("enum", "values that are listed twice are left out");
            members.insert("enum".to_owned(), Value::Array(kept));
        }
    }

    /// Reads numbers that are written as texts, and leaves out negative counts.
    fn numbers(&mut self, members: &mut Map<String, Value>) {
        for name in COUNTS.into_iter().chain(NUMBERS) {
            let Some(given) = members.get(name) else { continue };
            if let Value::String(text) = given {
                let Ok(number) = text.trim().parse::<Number>() else { continue };
                self.note(name, format_args!("{} is written {number}", display::value(given)));
                members.insert(name.to_owned(), Value::Number(number));
            }
            let is_negative = members.get(name).and_then(Value::as_f64).is_some_and(|number| number < 0.0);
            if is_negative && COUNTS.contains(&name) {
                members.shift_remove(name);
                self.note(name, "a negative number is left out");
            }
        }
    }

    /// Writes the `true` of draft 4 as the bound itself.
    fn exclusive(&mut self, members: &mut Map<String, Value>, exclusive: &str, bound: &str) {
        let Some(Value::Bool(flag)) = members.get(exclusive).cloned() else { return };
        members.shift_remove(exclusive);
        let moved = if flag { members.shift_remove(bound) } else { None };
        self.note(exclusive, format_args!("{flag}, a form of draft 4, is written as the bound itself"));
        if let Some(moved) = moved {
            members.insert(exclusive.to_owned(), moved);
        }
    }

    fn flags(&mut self, members: &mut Map<String, Value>) {
        for name in FLAGS.into_iter().chain(OPEN) {
            let Some(Value::String(text)) = members.get(name) else { continue };
            let flag = text.eq_ignore_ascii_case("true");
            if flag || text.eq_ignore_ascii_case("false") {
                self.note(name, format_args!("{} is written {flag}", display::text(text)));
                members.insert(name.to_owned(), json!(flag));
            }
        }
    }

    fn texts(&mut self, members: &mut Map<String, Value>) {
        for name in TEXTS {
            let Some(given) = members.get(name) else { continue };
            let written = match given {
                Value::String(text) if name == "$schema" && (text.trim().is_empty() || !is_known_draft(given)) => {
                    members.shift_remove(name);
                    self.note(name, "left out: it names no draft that is known");
                    continue;
                }
                Value::Number(_) | Value::Bool(_) if matches!(name, "title" | "description" | "$comment") => {
                    given.to_string()
                }
                Value::Array(lines) if name == "description" && lines.iter().all(Value::is_string) => {
                    lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
                }
                _ => continue,
            };
            self.note(name, format_args!("{} is written {}", display::value(given), display::text(&written)));
            members.insert(name.to_owned(), json!(written));
        }
    }

    /// Leaves out empty lists of schemas, and writes `items` as a list, a form of older drafts, as `prefixItems`.
    fn lists(&mut self, members: &mut Map<String, Value>) {
        for name in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            if members.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                members.shift_remove(name);
                self.note(name, "[] is left out");
            }
        }
        let Some(Value::Array(items)) = members.get("items") else { return };
        if items.is_empty() {
            members.shift_remove("items");
            self.note("items", "[] is left out");
        } else if !self.has_draft && !members.contains_key("prefixItems") {
            let items = members.shift_remove("items").unwrap_or_default();
            members.insert("prefixItems".to_owned(), items);
            if let Some(others) = members.shift_remove("additionalItems") {
                members.insert("items".to_owned(), others);
            }
            self.note("items", "a list, a form of older drafts, is written \"prefixItems\"");
        }
    }

    fn examples(&mut self, members: &mut Map<String, Value>) {
        if let Some(given) = members.get("examples").filter(|given| !given.is_array()) {
            let written = json!([given]);
            members.insert("examples".to_owned(), written);
            self.note("examples", "written as a list");
        }
    }
}

fn is_known_draft(schema: &Value) -> bool {
    crate::schema::drafts::read_draft(&json!({ "$schema": schema })).is_ok()
}
