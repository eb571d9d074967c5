//! The parameters of a tool as text, one line each, with nested members under dotted keys.

use serde_json::{Map, Value};

use crate::domain::json;
use crate::formats::one_line;

/// Maximum depth of listed nested objects.
const MAX_DEPTH: usize = 3;
/// Maximum number of lines of one tool.
const MAX_LINES: usize = 200;
/// Maximum number of values in a list.
const MAX_VALUES: usize = 50;
/// Maximum length of a value in a list, in characters.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum number of consecutive references.
const MAX_REFERENCES: usize = 8;

/// Returns the parameters of a tool as text, in the order of its schema.
pub(super) fn lines(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(schema, schema, "", MAX_DEPTH, &mut found);
    found
}

/// Adds the parameters of an object. `prefix` is the key of the object: `address.`, `items[].`.
fn collect(root: &Value, schema: &Value, prefix: &str, depth: usize, found: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, given) in properties {
        if found.len() >= MAX_LINES {
            return;
        }
        let property = resolve(root, given);
        let is_required = required.is_some_and(|names| names.iter().any(|required| required == name.as_str()));
        let need = if is_required { "required" } else { "optional" };
        let mut line = format!("  - {prefix}{name}: {} ({need})", kind(root, property, depth));
        let description = [given, property].iter().find_map(|schema| schema.get("description")?.as_str());
        let description = description.map(one_line).unwrap_or_default();
        if !description.is_empty() {
            line.push_str(&format!(" - {description}"));
        }
        line.push('\n');
        let default = given.get("default").or_else(|| property.get("default")).map(value);
        let examples = property.get("examples").and_then(Value::as_array);
        for (heading, values) in [
            ("Allowed values", allowed(root, property)),
            ("Default", default.into_iter().collect()),
            ("Examples", examples.map(|values| shown(values.iter())).unwrap_or_default()),
        ] {
            if !values.is_empty() {
                line.push_str(&format!("    {heading}: {}\n", values.join(", ")));
            }
        }
        found.push(line);
        if depth > 1 {
            let (inner, suffix) = nested(root, property);
            collect(root, inner, &format!("{prefix}{name}{suffix}."), depth - 1, found);
        }
    }
}

/// Returns the nested object of a property: the property itself, the items of its array, or its only branch with
/// properties.
fn nested<'a>(root: &'a Value, property: &'a Value) -> (&'a Value, &'static str) {
    if let Some(items) = property.get("items") {
        return (resolve(root, items), "[]");
    }
    let has_properties = |branch: &&Value| branch.get("properties").is_some();
    let objects: Vec<&Value> = branches(root, property).filter(has_properties).collect();
    match objects[..] {
        [only] if !has_properties(&property) => (only, ""),
        _ => (property, ""),
    }
}

/// Returns the alternatives of a schema.
fn branches<'a>(root: &'a Value, schema: &'a Value) -> impl Iterator<Item = &'a Value> {
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    lists.flatten().map(|branch| resolve(root, branch))
}

/// Follows local references; returns the schema itself if it is not a reference.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let Some(named) = reference.and_then(|text| root.pointer(text.strip_prefix('#')?)) else { break };
        schema = named;
    }
    schema
}

/// Returns the types as text: `string`, `array of integer`, `string or null`.
fn kind(root: &Value, schema: &Value, depth: usize) -> String {
    let mut kinds: Vec<String> = match schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() && depth > 0 {
        kinds = branches(root, schema).map(|branch| kind(root, branch, depth - 1)).collect();
    }
    if kinds.is_empty() {
        kinds = enumerated(schema).iter().map(|value| json::type_name(value).to_owned()).collect();
    }
    if kinds.is_empty() {
        let is_object = schema.get("properties").is_some();
        kinds.push(if is_object { "object" } else { "any" }.to_owned());
    }
    let items = schema.get("items").map(|items| resolve(root, items)).filter(|items| items.is_object() && depth > 0);
    if let (Some(items), Some(array)) = (items, kinds.iter_mut().find(|kind| *kind == "array")) {
        let of = kind(root, items, depth - 1);
        if of != "any" {
            *array = format!("array of {of}");
        }
    }
    let mut distinct: Vec<String> = Vec::new();
    for kind in kinds {
        if !distinct.contains(&kind) {
            distinct.push(kind);
        }
    }
    distinct.join(" or ")
}

fn allowed(root: &Value, schema: &Value) -> Vec<String> {
    let own = enumerated(schema);
    if !own.is_empty() {
        return shown(own.into_iter());
    }
    if let Some(items) = schema.get("items") {
        return shown(enumerated(resolve(root, items)).into_iter());
    }
    // The list is complete only if every alternative is a list of values.
    let is_null = |branch: &Value| branch.get("type").is_some_and(|name| name == "null");
    let lists: Vec<Vec<&Value>> = branches(root, schema).filter(|branch| !is_null(branch)).map(enumerated).collect();
    if lists.iter().any(Vec::is_empty) { Vec::new() } else { shown(lists.concat().into_iter()) }
}

fn enumerated(schema: &Value) -> Vec<&Value> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().collect(),
        (_, Some(only)) => vec![only],
        _ => Vec::new(),
    }
}

fn shown<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> Vec<String> {
    let count = values.len();
    let mut shown: Vec<String> = values.take(MAX_VALUES).map(value).collect();
    if count > MAX_VALUES {
        shown.push(format!("… ({count} in all)"));
    }
    shown
}

/// Formats a value: a string unquoted if that is unambiguous, any other value as JSON.
fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    };
    json::shorten(&text, MAX_VALUE_CHARS)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains([',', '"', '\n', '\r'])
}

/// Returns the names of all parameters, including nested ones, for searches.
#[must_use]
pub fn names(schema: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    gather(schema, MAX_DEPTH * 2, &mut found);
    found
}

fn gather<'a>(schema: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    let Some(members) = schema.as_object().filter(|_| depth > 0 && found.len() < MAX_LINES) else { return };
    let inner = |keyword: &str| members.get(keyword).and_then(Value::as_object);
    for (name, property) in inner("properties").into_iter().flat_map(Map::iter) {
        found.push(name);
        gather(property, depth - 1, found);
    }
    members.get("items").into_iter().for_each(|items| gather(items, depth - 1, found));
    for named in ["$defs", "definitions"].into_iter().filter_map(inner).flat_map(Map::values) {
        gather(named, depth - 1, found);
    }
}
