//! The OpenAPI document as served: the generated document, adapted to client generators.
//!
//! Facts about a type or a route are attributes next to it, or a schema that is written out there. Here are rules that hold for all
//! schemas. The document must match what the service accepts; Schemathesis checks this.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use crate::domain::schemas::{IS, OPTIONAL, TOGETHER};

mod clients;

/// The schema of any JSON that the service accepts: integers beyond 64 bits are rejected, never rounded.
const ANY: &str = "Json";
/// Keywords that constrain a value. A schema without any of them allows every value.
const CONSTRAINTS: [&str; 8] = ["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "not"];
const SCHEMAS: &str = "/components/schemas";

/// Returns the document with all patches and derived parts applied.
pub(super) fn refined(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    place_keywords(&mut document);
    remove_null_from_parameters(&mut document);
    let schemas = document.pointer(SCHEMAS).and_then(Value::as_object).cloned().unwrap_or_default();
    join_parts(&mut document, &schemas);
    change_request_schemas(&mut document, bound_values);
    clients::reshape(&mut document);
    write_summaries_as_text(&mut document);
    document
}

/// Moves the content of [`IS`] and [`TOGETHER`] to the schemas that they describe.
fn place_keywords(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(place_keywords),
        Value::Object(schema) => {
            schema.values_mut().for_each(place_keywords);
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            let members = properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
            for together in members.filter_map(|member| member.shift_remove(TOGETHER)).collect::<Vec<_>>() {
                merge_into(schema, together);
            }
            if let Some(Value::Object(own)) = schema.shift_remove(IS) {
                schema.retain(|name, _| matches!(name.as_str(), "description" | "default" | "writeOnly" | TOGETHER));
                schema.extend(own);
            }
            write_null_last(schema);
        }
        _ => {}
    }
}

/// Rewrites a nullable reference to one of the [`OPTIONAL`] schemas as `anyOf`, with the description on the outside.
fn write_null_last(schema: &mut Map<String, Value>) {
    let Some([one, null]) = schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice) else { return };
    let name = one["$ref"].as_str().and_then(|target| target.rsplit('/').next());
    if null["type"] != "null" || !name.is_some_and(|name| OPTIONAL.contains(&name)) {
        return;
    }
    let (mut one, null) = (one.clone(), null.clone());
    let description = one.as_object_mut().and_then(|one| one.shift_remove("description"));
    for keyword in ["oneOf", "default"] {
        schema.shift_remove(keyword);
    }
    schema.extend(description.map(|text| ("description".to_owned(), text)));
    schema.insert("anyOf".to_owned(), Value::Array(vec![one, null]));
}

/// Returns all operations of a document.
fn operations(document: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut);
    items.flat_map(Map::values_mut).filter_map(Value::as_object_mut)
}

/// Inserts the schema of any JSON wherever a schema of a request allows arbitrary values.
fn bound_values(schema: &mut Value, waiting: &mut Vec<String>) {
    let Value::Object(members) = schema else { return };
    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
        waiting.extend(target.rsplit('/').next().map(str::to_owned));
        return;
    }
    let any = || json!({ "$ref": format!("#/components/schemas/{ANY}") });
    if !CONSTRAINTS.iter().any(|word| members.contains_key(*word)) {
        members.extend(any().as_object().cloned().unwrap_or_default());
        return;
    }
    let is_open =
        members.get("additionalProperties").is_none_or(|others| others.as_object().is_some_and(Map::is_empty));
    if is_object(members) && is_open {
        members.insert("additionalProperties".to_owned(), any());
    }
    let named = members.get_mut("properties").and_then(Value::as_object_mut);
    named.into_iter().flat_map(Map::values_mut).for_each(|schema| bound_values(schema, waiting));
    for word in ["anyOf", "oneOf", "allOf"] {
        let parts = members.get_mut(word).and_then(Value::as_array_mut);
        // Conditions on members are not schemas of their values.
        let is_whole =
            |part: &&mut Value| ["type", "$ref", "anyOf", "oneOf", "allOf"].iter().any(|word| part.get(word).is_some());
        parts.into_iter().flatten().filter(is_whole).for_each(|part| bound_values(part, waiting));
    }
    for word in ["items", "additionalProperties"] {
        if let Some(schema) = members.get_mut(word) {
            bound_values(schema, waiting);
        }
    }
}

/// Changes the schemas of all request bodies, and the schemas that they refer to. `change` adds the names of the latter
/// to its list.
fn change_request_schemas(document: &mut Value, change: impl Fn(&mut Value, &mut Vec<String>)) {
    let mut waiting = Vec::new();
    let contents = operations(document).filter_map(|operation| operation.get_mut("requestBody")?.get_mut("content"));
    let contents = contents.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for schema in contents.filter_map(|content| content.get_mut("schema")) {
        change(schema, &mut waiting);
    }
    let Some(schemas) = document.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) else { return };
    let mut seen = HashSet::from([ANY.to_owned()]);
    while let Some(name) = waiting.pop() {
        if let Some(schema) = schemas.get_mut(&name).filter(|_| seen.insert(name)) {
            change(schema, &mut waiting);
        }
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
            found.extend(target.map(str::to_owned));
            members.values().for_each(|member| collect_references(member, found));
        }
        _ => {}
    }
}

/// Returns `true` for the schema of an object.
fn is_object(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object"),
    }
}

/// Converts summaries to one line of plain text, because Markdown is not rendered there (OpenAPI 3.1, section
/// 4.8.10.1).
fn write_summaries_as_text(document: &mut Value) {
    for operation in operations(document) {
        if let Some(summary) = operation.get("summary").and_then(Value::as_str) {
            let words: Vec<&str> = summary.split_whitespace().collect();
            let text = words.join(" ").replace('`', "");
            operation.insert("summary".to_owned(), text.into());
        }
    }
}

/// Removes `null` from the types of optional parameters: queries and headers have no null.
fn remove_null_from_parameters(document: &mut Value) {
    let parameters =
        operations(document).filter_map(|operation| operation.get_mut("parameters")?.as_array_mut()).flatten();
    for types in parameters.filter_map(|parameter| parameter.pointer_mut("/schema/type")) {
        if let Some([one, _]) = types.as_array().map(Vec::as_slice) {
            *types = one.clone();
        }
    }
}

/// Merges the parts of an object schema in `allOf` into one object schema.
///
/// Separate parts cannot work: a part that rejects unknown members rejects those of the other parts, and a part that
/// allows them accepts any member.
fn join_parts(value: &mut Value, schemas: &Map<String, Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| join_parts(item, schemas)),
        Value::Object(members) => {
            if let Some(joined) = merge_parts(members, schemas) {
                *members = joined;
            }
            members.values_mut().for_each(|member| join_parts(member, schemas));
        }
        _ => {}
    }
}

/// Returns the merged schema, or `None` if the schema has no parts. Conditions among the parts stay in `allOf`.
fn merge_parts(schema: &Map<String, Value>, schemas: &Map<String, Value>) -> Option<Map<String, Value>> {
    let parts = schema.get("allOf")?.as_array()?;
    let (mut conditions, mut whole) = (Vec::new(), Map::new());
    for part in parts {
        let referred = part["$ref"].as_str().and_then(|target| schemas.get(target.rsplit('/').next()?));
        let object = referred.unwrap_or(part).as_object()?;
        let object = merge_parts(object, schemas).unwrap_or_else(|| object.clone());
        if !object.contains_key("type") {
            conditions.push(part.clone());
            continue;
        }
        for (name, value) in object {
            match (name.as_str(), whole.get_mut(&name), value) {
                ("description" | "example", ..) => {}
                ("allOf", _, Value::Array(more)) => conditions.extend(more),
                (_, Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
                (_, Some(Value::Array(there)), Value::Array(more)) => there.extend(more),
                (_, _, value) => drop(whole.insert(name, value)),
            }
        }
    }
    if whole.is_empty() {
        return None;
    }
    whole.extend(schema.iter().filter(|(name, _)| *name != "allOf").map(|(name, value)| (name.clone(), value.clone())));
    if !conditions.is_empty() {
        whole.insert("allOf".to_owned(), conditions.into());
    }
    Some(whole)
}

/// Returns the document of a service that requires no authentication.
pub(super) fn without_keys(document: &Value) -> Value {
    let mut document = document.clone();
    for operation in operations(&mut document) {
        let Some(security) = operation.get_mut("security").and_then(Value::as_array_mut) else { continue };
        let had_any = !security.is_empty();
        // Call tokens are still checked if they are sent.
        security.retain(|one| one.get("api_key").is_none());
        if had_any && !security.is_empty() {
            security.insert(0, Value::Object(Map::new()));
        }
    }
    document
}

/// Adds a condition to a schema, and merges members that both have.
fn merge_into(object: &mut Map<String, Value>, condition: Value) {
    let Value::Object(members) = condition else { return };
    for (name, value) in members {
        match object.get_mut(&name) {
            Some(Value::Object(there)) => merge_into(there, value),
            _ => drop(object.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keywords_of_a_member_say_what_it_is_and_what_holds_for_its_object() {
        let member = json!({"type": "string", "description": "A.", "x-is": {"type": "array"}, "x-together": {"not": {"required": ["a"]}}});
        let optional =
            json!({"oneOf": [{"$ref": "#/components/schemas/HttpUrl", "description": "B."}, {"type": "null"}]});
        let mut document = json!({"type": "object", "properties": {"a": member, "b": optional}});
        place_keywords(&mut document);
        let either = json!([{"$ref": "#/components/schemas/HttpUrl"}, {"type": "null"}]);
        let expected = json!({"type": "object", "not": {"required": ["a"]}, "properties": {
            "a": {"type": "array", "description": "A."}, "b": {"description": "B.", "anyOf": either}}});
        assert_eq!(document, expected);
    }

    /// The generated requests must not reach any other host, so they use a single URL.
    #[test]
    fn urls_that_match_the_schema_are_accepted() {
        let document = super::super::openapi();
        let pattern = document["components"]["schemas"]["HttpUrl"]["pattern"].as_str().unwrap();
        let urls = proptest::string::string_regex(pattern.trim_matches(['^', '$'])).unwrap();
        proptest!(|(url in urls)| {
            prop_assert!(crate::callbacks::check_url(&url).is_ok(), "{}", url);
        });
        let pattern = regex::Regex::new(pattern).unwrap();
        for url in [
            "https://example.com",
            "http://127.0.0.1:8080/a?b=c#d",
            "http://[::1]:80/",
            "https://my_host/",
            "http://[fe80::1]/x",
            "http://x.xn.nx/",
            "http://x-n.xnn-.ax--b",
        ] {
            assert!(pattern.is_match(url), "{url}");
        }
        for url in [
            "http://xn--a.example.com",
            "http://XN--",
            "ftp://example.com",
            "http://user@example.com",
            "http://",
            "http:///path",
            "http://a b",
            "example.com",
        ] {
            assert!(!pattern.is_match(url) && crate::callbacks::check_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn document_without_keys_requires_none() {
        let document = without_keys(&super::super::openapi());
        assert_eq!(document["paths"]["/tools"]["get"]["security"], json!([]));
        let result = &document["paths"]["/tool-calls/{id}/result"]["post"]["security"];
        assert_eq!(*result, json!([{}, {"call_token": []}]));
    }
}
