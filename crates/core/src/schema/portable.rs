//! Schemas as lists over the Model Context Protocol show them: what all known clients take. One schema that a client
//! refuses often costs it the whole list.
//!
//! Clients of Anthropic and OpenAI refuse combinators at the root, and names of properties in other letters. VS Code
//! refuses arrays without `items`. The official SDKs refuse properties that are booleans, and dialects other than 2020-12.
//! Many models do not follow references. A schema without any of this stays as it is.

use serde_json::{Map, Value, json};

use super::lower::{self, Target};

/// Keywords that clients refuse at the root.
const REFUSED_AT_ROOT: [&str; 12] = [
    "$ref",
    "$dynamicRef",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "dependentSchemas",
];
/// Keywords whose values are data.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];
/// The dialect of the protocol, without the fragment.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The keyword for a header that repeats an argument.
const HEADER: &str = "x-mcp-header";
/// Parts of patterns of ECMA-262 that the regular expressions of Python reject.
const NOT_PYTHON: [&str; 6] = ["\\p{", "\\P{", "\\u{", "\\k<", "\\c", "(?<"];

/// Maximum size of a schema without references that is larger than twice the schema with them, in bytes.
const SMALL: usize = 8 * 1024;

/// Returns an input schema that all known clients take; `None` if it is one already.
#[must_use]
pub fn input(schema: &Value) -> Option<Value> {
    let target = if has_refused_names(schema) { Target::Anthropic } else { Target::OpenAi };
    let is_refused = target == Target::Anthropic || is_refused(schema);
    if !is_refused && !has_references(schema, 0) {
        return has_marks(schema).then(|| without_marks(schema));
    }
    let listed = lower::lower(schema, target).map(|lowered| {
        let mut listed = lowered.schema;
        keep_headers(schema, &mut listed);
        listed
    });
    match listed {
        // Most clients take references, and a long schema costs each conversation.
        Ok(listed) if !is_refused && is_much_longer(&listed, schema) => Some(without_marks(schema)),
        Ok(listed) => Some(listed),
        Err(_) => Some(reduced(schema)),
    }
}

fn is_much_longer(listed: &Value, schema: &Value) -> bool {
    let length = listed.to_string().len();
    length > SMALL && length > 2 * schema.to_string().len()
}

/// Returns an output schema that all known clients take and that allows every value that the schema allows; `None` if
/// there is none.
#[must_use]
pub fn output(schema: &Value) -> Option<Value> {
    if schema.get("type").is_none_or(|root| root != "object") || is_of_old_dialect(schema) && has_old_forms(schema, 0) {
        return None;
    }
    let mut listed = without_marks(schema);
    widen(&mut listed, 0).then_some(listed)
}

/// Returns `true` if clients of Anthropic refuse the name of a property.
#[must_use]
pub fn has_refused_names(schema: &Value) -> bool {
    lower::has_aliases(schema, Target::Anthropic)
}

/// Returns `true` for a schema that some client refuses.
fn is_refused(schema: &Value) -> bool {
    let is_object = schema.get("type").is_some_and(|root| root == "object");
    !is_object
        || REFUSED_AT_ROOT.iter().any(|keyword| schema.get(keyword).is_some())
        || is_of_old_dialect(schema)
        || is_refused_inside(schema, 0)
}

fn is_refused_inside(schema: &Value, depth: usize) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let is_array =
        |kinds: &Value| kinds == "array" || kinds.as_array().is_some_and(|all| all.contains(&json!("array")));
    let is_open_array =
        keywords.get("type").is_some_and(is_array) && !keywords.get("items").is_some_and(Value::is_object);
    is_open_array
        || depth > 64
        || has_old_keywords(keywords)
        || has_boolean(keywords)
        || subschemas(keywords).any(|schema| is_refused_inside(schema, depth + 1))
}

fn has_references(schema: &Value, depth: usize) -> bool {
    const KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
    let Value::Object(keywords) = schema else { return false };
    KEYWORDS.iter().any(|keyword| keywords.get(*keyword).is_some_and(Value::is_string))
        || depth <= 64 && subschemas(keywords).any(|schema| has_references(schema, depth + 1))
}

/// Returns `true` for a property or an alternative that is a boolean.
fn has_boolean(keywords: &Map<String, Value>) -> bool {
    let of_object = keywords.get("properties").and_then(Value::as_object);
    let of_arrays =
        ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter().filter_map(|name| keywords.get(name)?.as_array());
    of_object.is_some_and(|all| all.values().any(Value::is_boolean)) || of_arrays.flatten().any(Value::is_boolean)
}

/// Returns `true` for keywords that 2020-12 does not have, or not in this form.
fn has_old_keywords(keywords: &Map<String, Value>) -> bool {
    let is_flag = |name: &str| keywords.get(name).is_some_and(Value::is_boolean);
    is_flag("exclusiveMinimum")
        || is_flag("exclusiveMaximum")
        || keywords.get("items").is_some_and(Value::is_array)
        || ["dependencies", "additionalItems", "$recursiveRef"].iter().any(|name| keywords.contains_key(*name))
}

/// Returns `true` if the meaning of a schema of an old draft changes in 2020-12.
fn has_old_forms(schema: &Value, depth: usize) -> bool {
    let Value::Object(keywords) = schema else { return false };
    // Up to draft 7, nothing next to a reference counts.
    let has_ignored = keywords.contains_key("$ref") && keywords.len() > 1;
    depth > 64
        || has_ignored
        || has_old_keywords(keywords)
        || subschemas(keywords).any(|schema| has_old_forms(schema, depth + 1))
}

/// Returns the values of keywords that may be schemas, and the members of keywords with schemas by name.
fn subschemas(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let schemas = keywords.iter().filter(|(keyword, _)| !DATA.contains(&keyword.as_str()));
    schemas.flat_map(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(named)) => {
            named.values().collect::<Vec<_>>()
        }
        (_, Value::Array(all)) => all.iter().collect(),
        (_, one) => vec![one],
    })
}

fn dialect(schema: &Value) -> Option<&str> {
    schema.get("$schema").and_then(Value::as_str).map(|dialect| dialect.trim_end_matches('#'))
}

fn is_of_old_dialect(schema: &Value) -> bool {
    dialect(schema).is_some_and(|dialect| dialect != DIALECT)
}

/// Returns `true` if a schema names its dialect or itself. Clients keep schemas by `$id`, and refuse a repeated one.
fn has_marks(schema: &Value) -> bool {
    schema.get("$schema").or(schema.get("$id")).is_some() || schema.get("properties").is_none()
}

fn without_marks(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(keywords) = &mut schema {
        keywords.shift_remove("$schema");
        keywords.shift_remove("$id");
        keywords.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Returns what is left of a schema that cannot be lowered: its own properties.
fn reduced(schema: &Value) -> Value {
    const KEPT: [&str; 5] = ["description", "properties", "required", "$defs", "definitions"];
    let kept = KEPT.iter().filter_map(|keyword| Some(((*keyword).to_owned(), schema.get(keyword)?.clone())));
    let mut reduced: Map<String, Value> = std::iter::once(("type".to_owned(), json!("object"))).chain(kept).collect();
    reduced.entry("properties").or_insert_with(|| json!({}));
    Value::Object(reduced)
}

/// Keeps the keyword for headers, which lowering does not know.
fn keep_headers(schema: &Value, listed: &mut Value) {
    let (Some(Value::Object(from)), Some(Value::Object(to))) = (schema.get("properties"), listed.get_mut("properties"))
    else {
        return;
    };
    for (name, property) in from {
        let Some(shown) = to.get_mut(name) else { continue };
        if let (Some(header), Value::Object(keywords)) = (property.get(HEADER), &mut *shown) {
            keywords.insert(HEADER.to_owned(), header.clone());
        }
        keep_headers(property, shown);
    }
}

/// Removes patterns that clients in Python cannot compile, and writes boolean properties as objects. Returns `false` if
/// that would forbid values that the schema allows.
fn widen(schema: &mut Value, depth: usize) -> bool {
    let Value::Object(keywords) = schema else { return true };
    let is_foreign = |pattern: &str| {
        let plain = pattern.replace("(?<=", "").replace("(?<!", "");
        NOT_PYTHON.iter().any(|part| plain.contains(part))
    };
    if keywords.get("pattern").and_then(Value::as_str).is_some_and(is_foreign) {
        keywords.shift_remove("pattern");
    }
    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
    if depth > 64 || patterns.is_some_and(|patterns| patterns.keys().any(|pattern| is_foreign(pattern))) {
        return false;
    }
    // Inside of these keywords, a wider schema forbids more.
    if ["not", "if", "oneOf", "contains"].iter().any(|keyword| keywords.contains_key(*keyword)) {
        return !keywords.values().any(|value| has_foreign_pattern(value, &is_foreign, 0));
    }
    for (keyword, value) in keywords.iter_mut().filter(|(keyword, _)| !DATA.contains(&keyword.as_str())) {
        let is_whole = match (keyword.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "dependentSchemas" | "patternProperties",
                Value::Object(named),
            ) => named.values_mut().all(|schema| {
                if let Value::Bool(allows) = schema {
                    *schema = if *allows { json!({}) } else { json!({"not": {}}) };
                }
                widen(schema, depth + 1)
            }),
            (_, Value::Array(all)) => all.iter_mut().all(|schema| widen(schema, depth + 1)),
            (_, one) => widen(one, depth + 1),
        };
        if !is_whole {
            return false;
        }
    }
    true
}

fn has_foreign_pattern(value: &Value, is_foreign: &impl Fn(&str) -> bool, depth: usize) -> bool {
    match value {
        _ if depth > 64 => true,
        Value::Object(members) => members.iter().any(|(name, value)| {
            name == "pattern" && value.as_str().is_some_and(is_foreign)
                || has_foreign_pattern(value, is_foreign, depth + 1)
        }),
        Value::Array(items) => items.iter().any(|item| has_foreign_pattern(item, is_foreign, depth + 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
