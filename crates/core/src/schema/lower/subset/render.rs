//! Combines alternatives into one schema.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::{Alternative, LoweredNode};
use crate::schema::lower::restore::Branch;
use crate::schema::lower::{Restore, Target, describe};

/// Renders all alternatives as one schema.
pub(in crate::schema::lower) fn render(target: Target, mut out: LoweredNode) -> (Value, Restore) {
    let gemini = target == Target::Gemini;
    if out.alternatives.is_empty() {
        // Only `null` is allowed; Gemini has no type for it.
        let (kind, values) = if gemini { ("string", vec![json!("null")]) } else { ("null", Vec::new()) };
        let back =
            if gemini { Restore::Values(Arc::new([("null".to_owned(), Value::Null)])) } else { Restore::Identity };
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!(kind));
        note(target, &mut schema, out.title.as_deref(), &out.description);
        if !values.is_empty() {
            schema.insert("enum".to_owned(), Value::Array(values));
        }
        return (Value::Object(schema), back);
    }
    let back = choice(target, &out.alternatives);
    if gemini {
        if let Some(first) = out.alternatives.first_mut().filter(|_| out.null) {
            first.schema.insert("nullable".to_owned(), json!(true));
        }
    } else if out.null {
        let only = (out.alternatives.len() == 1).then(|| &mut out.alternatives[0].schema);
        match only.filter(|schema| schema.get("type").is_some_and(Value::is_string)) {
            Some(schema) => admit_null(schema),
            None => {
                out.alternatives.push(Alternative::of_type("null"));
            }
        }
    }
    let described = !out.description.is_empty() || out.title.is_some();
    // A `$ref` must have no siblings.
    let refers = out.alternatives[0].schema.contains_key("$ref");
    if out.alternatives.len() == 1 && !(refers && described) {
        let mut schema = out.alternatives.swap_remove(0).schema;
        note(target, &mut schema, out.title.as_deref(), &out.description);
        return (Value::Object(schema), back);
    }
    let mut schema = Map::new();
    if gemini {
        for alternative in &mut out.alternatives {
            note(target, &mut alternative.schema, out.title.as_deref(), &out.description);
        }
    } else {
        note(target, &mut schema, out.title.as_deref(), &out.description);
    }
    let alternatives = out.alternatives.into_iter().map(|alternative| Value::Object(alternative.schema));
    schema.insert("anyOf".to_owned(), alternatives.collect());
    (Value::Object(schema), back)
}

fn admit_null(schema: &mut Map<String, Value>) {
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

/// Adds a title and a description; the description precedes that of the schema.
pub(super) fn note(target: Target, schema: &mut Map<String, Value>, title: Option<&str>, description: &str) {
    if schema.contains_key("$ref") && target == Target::OpenAiStrict {
        if title.is_none() && description.is_empty() {
            return;
        }
        let reference = Value::Object(std::mem::take(schema));
        schema.insert("anyOf".to_owned(), json!([reference]));
    }
    if let Some(title) = title.filter(|_| !schema.contains_key("title")) {
        schema.insert("title".to_owned(), json!(title));
    }
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut text = description.to_owned();
    describe::join(&mut text, own);
    if !text.is_empty() {
        schema.insert("description".to_owned(), Value::String(text));
    }
    // People read type, title and description first.
    let order = ["type", "title", "description"];
    let (mut first, rest): (Vec<_>, Vec<_>) =
        std::mem::take(schema).into_iter().partition(|(keyword, _)| order.contains(&keyword.as_str()));
    first.sort_by_key(|(keyword, _)| order.iter().position(|known| known == keyword));
    schema.extend(first.into_iter().chain(rest));
}

/// Adds an alternative; drops duplicates and merges enums of the same type.
pub(super) fn push(alternatives: &mut Vec<Alternative>, new: Alternative) {
    if alternatives.iter().any(|known| known.schema == new.schema) {
        return;
    }
    let listed = |alternative: &Alternative| {
        let schema = &alternative.schema;
        schema.len() == 2 && schema.contains_key("enum") && schema.contains_key("type") && alternative.back.is_same()
    };
    let like = |known: &&mut Alternative| listed(known) && known.schema.get("type") == new.schema.get("type");
    match alternatives.iter_mut().find(like).filter(|_| listed(&new)) {
        Some(known) => {
            if let (Some(Value::Array(values)), Some(Value::Array(more))) =
                (known.schema.get_mut("enum"), new.schema.get("enum"))
            {
                let more: Vec<Value> = more.iter().filter(|value| !values.contains(value)).cloned().collect();
                values.extend(more);
            }
        }
        None => alternatives.push(new),
    }
}

/// Returns the conversion of several alternatives.
fn choice(target: Target, alternatives: &[Alternative]) -> Restore {
    match alternatives {
        [only] => only.back.clone(),
        some if some.iter().all(|alternative| alternative.back.is_same()) => Restore::Identity,
        some => {
            let branch = |alternative: &Alternative| {
                let schema = Value::Object(alternative.schema.clone());
                let schema = if target == Target::Gemini { plain(schema) } else { schema };
                Branch { schema, back: alternative.back.clone(), validator: OnceLock::new() }
            };
            Restore::Any(some.iter().map(branch).collect())
        }
    }
}

/// Converts Gemini's schema to JSON Schema: objects are closed, and `nullable` becomes a type.
fn plain(schema: Value) -> Value {
    let Value::Object(mut keywords) = schema else { return schema };
    for keyword in ["items", "anyOf", "properties"] {
        match keywords.get_mut(keyword) {
            Some(Value::Object(members)) if keyword == "properties" => {
                members.values_mut().for_each(|member| *member = plain(member.take()));
            }
            Some(Value::Array(some)) => some.iter_mut().for_each(|one| *one = plain(one.take())),
            Some(one) => *one = plain(one.take()),
            None => {}
        }
    }
    keywords.shift_remove("description");
    if keywords.contains_key("properties") {
        keywords.insert("additionalProperties".to_owned(), json!(false));
    }
    if keywords.shift_remove("nullable") == Some(json!(true)) {
        admit_null(&mut keywords);
    }
    Value::Object(keywords)
}
