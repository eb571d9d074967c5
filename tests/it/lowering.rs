//! Lowering to each vendor's subset, and restoring: golden cases and random schemas.

use serde_json::{Value, json};
use toolpost::schema::lower::{LoweredSchema, Target, lower};
use toolpost::schema::{CompiledSchema, Role, compile};

mod checker;
mod golden;
mod properties;
mod schemas;
mod values;

const TARGETS: [Target; 4] = [Target::OpenAi, Target::OpenAiStrict, Target::Anthropic, Target::Gemini];

/// Converts a vendor's schema to plain JSON Schema for [`compile`]. Only Gemini's schema changes: its objects are
/// implicitly closed, and `nullable` is a keyword.
fn as_json_schema(target: Target, schema: &Value) -> Value {
    if target != Target::Gemini {
        return schema.clone();
    }
    let mut schema = schema.clone();
    translate(&mut schema);
    schema
}

fn translate(schema: &mut Value) {
    let Value::Object(keywords) = schema else { panic!("{schema} is no schema") };
    for keyword in ["items", "properties", "anyOf"] {
        match keywords.get_mut(keyword) {
            Some(Value::Array(some)) => some.iter_mut().for_each(translate),
            Some(Value::Object(members)) if keyword == "properties" => members.values_mut().for_each(translate),
            Some(one) => translate(one),
            None => {}
        }
    }
    if keywords.get("type") == Some(&json!("object")) {
        keywords.insert("additionalProperties".to_owned(), json!(false));
    }
    if keywords.shift_remove("nullable") == Some(json!(true)) {
        let without = Value::Object(keywords.clone());
        *schema = json!({"anyOf": [without, {"type": "null"}]});
    }
}

fn compiled(schema: &Value) -> CompiledSchema {
    compile(schema, Role::Input).unwrap_or_else(|error| panic!("{error} in {schema}"))
}

/// Restores the arguments for the original schema.
fn back(lowered: &LoweredSchema, arguments: &Value) -> Value {
    lowered.restorer.apply(arguments).unwrap_or_else(|| arguments.clone())
}
