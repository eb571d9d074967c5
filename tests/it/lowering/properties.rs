//! Properties that hold for every schema and every value.

use serde_json::{Value, json};

use super::*;
use crate::support::seeded::Seeded;

/// Number of schemas in a run, each lowered for four vendors.
const SCHEMAS: u64 = 400;
const VALUES: usize = 12;

fn each(mut what: impl FnMut(&mut Seeded, &Value, &CompiledSchema, Target, &LoweredSchema)) {
    let (mut taken, mut lost) = (0, 0);
    for seed in 0..SCHEMAS {
        let mut chance = Seeded::new(seed);
        let schema = schemas::input(&mut chance);
        let Ok(original) = compile(&schema, Role::Input) else { continue };
        for target in TARGETS {
            match lower(&schema, target) {
                Ok(lowered) => {
                    taken += 1;
                    what(&mut chance, &schema, &original, target, &lowered);
                }
                Err(_) => lost += 1,
            }
        }
    }
    assert!(taken > 800 && lost * 10 < taken, "{taken} lowered, {lost} not");
}

#[test]
fn lowered_schema_follows_the_vendor_rules() {
    each(|_, schema, _, target, lowered| {
        let found = &lowered.schema;
        let shown = std::panic::catch_unwind(|| checker::check(target, found));
        assert!(shown.is_ok(), "{target:?} of {schema} is {}", lowered.schema);
        compiled(&as_json_schema(target, &lowered.schema));
        assert_eq!(lower(schema, target).unwrap().schema.to_string(), lowered.schema.to_string());
        for loss in &lowered.losses {
            assert!(schema.pointer(&loss.pointer).is_some(), "{loss:?} of {schema}");
        }
    });
}

#[test]
fn restored_value_of_a_lowered_schema_is_valid_for_the_original() {
    let (mut held, mut widened, mut failed) = (0, 0, Vec::new());
    each(|chance, schema, original, target, lowered| {
        let widens = lowered.losses.iter().any(|loss| loss.widens);
        let plain = as_json_schema(target, &lowered.schema);
        let rules = compiled(&plain);
        for _ in 0..VALUES {
            let Some(value) = values::for_schema(&plain, &plain, chance, 0) else { continue };
            if !rules.violations(&value).is_empty() {
                continue;
            }
            let returned = back(lowered, &value);
            let wrong = original.violations(&returned);
            *if widens { &mut widened } else { &mut held } += 1;
            if !widens && !wrong.is_empty() {
                failed.push(format!(
                    "{target:?}\nschema   {schema}\nlowered  {}\nvalue    {value}\nreturned {returned}\n{:?}\n{wrong:?}",
                    lowered.schema, lowered.losses,
                ));
            }
        }
    });
    // Show a sample, the shortest failures first.
    failed.sort_by_key(String::len);
    let shortest: Vec<String> = failed.iter().step_by(failed.len().div_ceil(8).max(1)).cloned().collect();
    assert!(failed.is_empty(), "{} failed, among them\n{}", failed.len(), shortest.join("\n\n"));
    assert!(held > 2_000 && widened > 200, "{held} held, {widened} widened");
}

#[test]
fn restoring_accepts_any_value() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({"a": null, "entries": 1, "items": [{"key": 1}]}),
        json!({"entries": [{"key": "a", "value": 1}, 5], "a": [{"key": "k", "value": null}], "kind": {"item_1": 1}}),
        json!({"children": [[[{"next": {"next": null}}]]], "user_name": {}, "b": {"children": {}}}),
    ];
    each(|_, _, _, _, lowered| {
        for value in &odd {
            let once = lowered.restorer.apply(value);
            assert!(once.is_none() || !lowered.restorer.is_identity());
        }
    });
}

/// Converts a call of the original schema to the form that a model writes for the lowered schema.
fn written(target: Target, schema: &Value, document: &Value, value: &Value) -> Option<Value> {
    let go = |schema: &Value, value: &Value| written(target, schema, document, value);
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return go(document.pointer(reference.strip_prefix('#')?)?, value);
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return branches.iter().find_map(|branch| go(branch, value));
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let is = |kind: &str| types.iter().any(|known| known == kind);
    let listed = schema.get("enum").and_then(Value::as_array);
    match value {
        Value::Null if is("null") => Some(Value::Null),
        Value::Object(members) if is("object") => {
            let mut object = serde_json::Map::new();
            let properties = schema["properties"].as_object()?;
            for (name, property) in properties {
                match members.get(name) {
                    Some(member) => drop(object.insert(name.clone(), go(property, member)?)),
                    None if schema["required"]
                        .as_array()
                        .is_some_and(|required| required.iter().any(|known| known == name)) =>
                    {
                        object.insert(name.clone(), go(property, &Value::Null)?);
                    }
                    None => {}
                }
            }
            members.keys().all(|name| properties.contains_key(name)).then_some(Value::Object(object))
        }
        Value::Object(members) if is("array") => {
            let inner = schema.pointer("/items/properties/value")?;
            let entry = |(key, value)| Some(json!({"key": key, "value": go(inner, value)?}));
            members.iter().map(entry).collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        Value::Array(items) if is("object") => {
            let members = schema["properties"].as_object()?;
            let named_item = |(index, item)| {
                let name = format!("item_{}", index + 1);
                Some((name.clone(), go(members.get(&name)?, item)?))
            };
            items.iter().enumerate().map(named_item).collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
        }
        Value::Array(items) if is("array") => {
            items.iter().map(|item| go(&schema["items"], item)).collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        Value::String(_) if is("string") && listed.is_none_or(|listed| listed.contains(value)) => Some(value.clone()),
        Value::Bool(_) if is("boolean") => Some(value.clone()),
        Value::Number(number) if is("number") || is("integer") && !number.is_f64() => Some(value.clone()),
        // Of the values of a strict schema, only objects and arrays are sent as text.
        other if target == Target::Gemini || other.is_object() || other.is_array() => {
            let text = json!(other.to_string());
            listed?.contains(&text).then_some(text)
        }
        _ => None,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[test]
fn lowered_call_is_restored_to_its_meaning() {
    let mut returned = 0;
    each(|chance, schema, original, target, lowered| {
        if !matches!(target, Target::OpenAiStrict | Target::Gemini) || schema.to_string().contains(['ü', ' ', '-', '$'])
        {
            return;
        }
        let rules = compiled(&as_json_schema(target, &lowered.schema));
        for _ in 0..VALUES {
            let Some(call) = values::for_schema(schema, schema, chance, 0) else { continue };
            if !original.violations(&call).is_empty() {
                continue;
            }
            let plain = as_json_schema(target, &lowered.schema);
            let Some(written) =
                written(target, &plain, &plain, &call).filter(|written| rules.violations(written).is_empty())
            else {
                continue;
            };
            let back = back(lowered, &written);
            // An absent property and a `null` property may replace each other where the original allows both.
            assert_eq!(
                without_nulls(&back),
                without_nulls(&call),
                "{target:?}\nschema  {schema}\nlowered {}\nwritten {written}",
                lowered.schema,
            );
            returned += 1;
        }
    });
    assert!(returned > 100, "{returned}");
}
