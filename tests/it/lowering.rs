//! Schemas in each vendor's subset, and the way back: golden cases, and whatever chance makes.

use serde_json::{Value, json};
use toolpost::schema::lower::{Lowered, Target, lower};
use toolpost::schema::{Compiled, Role, compile};

mod checker;
mod golden;
mod properties;
mod schemas;
mod values;

const TARGETS: [Target; 4] = [Target::OpenAi, Target::OpenAiStrict, Target::Anthropic, Target::Gemini];

/// A vendor's schema as plain JSON Schema that [`compile`] takes: for Gemini, whose objects are closed and whose `null`
/// is a keyword, it is translated.
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

fn compiled(schema: &Value) -> Compiled {
    compile(schema, Role::Input).unwrap_or_else(|error| panic!("{error} in {schema}"))
}

/// The arguments as the original takes them.
fn back(lowered: &Lowered, arguments: &Value) -> Value {
    lowered.restorer.apply(arguments).unwrap_or_else(|| arguments.clone())
}
