//! The effect of a tool's presets on its schema and on the arguments of a model.
//!
//! A hidden preset is removed from the definition that clients see; an overridable preset becomes an optional argument
//! with a default.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::Fault;
use toolpost_core::domain::json::pointer_token;
use toolpost_core::domain::preset::{PresetSource, Presets};
use toolpost_core::domain::tool::Example;
use toolpost_core::domain::{Preset, ToolDefinition};
use toolpost_core::schema::{self, Role};
use toolpost_tool::executor::secrets::is_valid_secret_name;

/// Maximum length of the name of an argument with a preset, in characters.
const LONGEST_NAME: usize = 128;
/// Maximum number of presets of a tool.
const MAX_PRESETS: usize = 100;
/// Keywords whose subschemas apply to the same object (JSON Schema 2020-12, core, section 10.2).
const IN_PLACE: [&str; 6] = ["allOf", "anyOf", "oneOf", "if", "then", "else"];

/// Returns the names of hidden presets that the arguments contain.
#[must_use]
pub fn named_in(presets: &Presets, arguments: &Value) -> Vec<String> {
    let hidden = presets.iter().filter(|(_, preset)| !preset.overridable).map(|(name, _)| name);
    hidden.filter(|name| arguments.get(name.as_str()).is_some()).cloned().collect()
}

/// Returns the arguments without members named like hidden presets, or the same `Arc` if no member is removed.
#[must_use]
pub fn without(presets: &Presets, arguments: &Arc<Value>) -> Arc<Value> {
    let named = named_in(presets, arguments);
    if named.is_empty() {
        return arguments.clone();
    }
    let mut kept = (**arguments).clone();
    if let Value::Object(members) = &mut kept {
        named.iter().for_each(|name| drop(members.shift_remove(name)));
    }
    Arc::new(kept)
}

/// Copies the values of `before` to the presets of the same name that have none.
pub(super) fn keep(presets: &mut Presets, before: &Presets) {
    for (name, preset) in presets {
        if preset.origin == PresetSource::Stored(None)
            && let Some(known) = before.get(name)
        {
            preset.origin = known.origin.clone();
        }
    }
}

/// Converts a declared definition to its public form.
pub(super) fn hide(definition: &mut ToolDefinition) {
    let ToolDefinition { input_schema, presets, examples, .. } = definition;
    for (name, preset) in &*presets {
        if preset.overridable {
            open(input_schema, name, preset);
        } else {
            cut(input_schema, name);
            for Example { arguments, .. } in &mut *examples {
                remove(arguments, name);
            }
        }
    }
}

/// Makes an argument optional and sets its default.
fn open(schema: &mut Value, name: &str, preset: &Preset) {
    in_place(schema, &mut |schema| require_not(schema, name));
    if let Some(Value::Object(property)) = schema.get_mut("properties").and_then(|all| all.get_mut(name)) {
        // The preset takes precedence over the schema's own default, even if the preset's value is a secret.
        property.shift_remove("default");
        if let PresetSource::Value(value) = &preset.origin {
            property.insert("default".to_owned(), value.clone());
        }
    }
}

/// Removes an argument from the schema.
fn cut(schema: &mut Value, name: &str) {
    in_place(schema, &mut |schema| {
        require_not(schema, name);
        for keyword in ["properties", "dependentRequired", "dependentSchemas", "default"] {
            if let Some(members) = schema.get_mut(keyword) {
                remove(members, name);
            }
        }
        if let Some(Value::Array(examples)) = schema.get_mut("examples") {
            examples.iter_mut().for_each(|example| remove(example, name));
        }
        if let Some(Value::Array(order)) = schema.get_mut("propertyOrdering") {
            order.retain(|other| other != name);
        }
    });
}

fn remove(members: &mut Value, name: &str) {
    if let Value::Object(members) = members {
        members.shift_remove(name);
    }
}

fn require_not(schema: &mut Map<String, Value>, name: &str) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|other| other != name);
        if required.is_empty() {
            // Draft 4 does not allow an empty array.
            schema.shift_remove("required");
        }
    }
    if let Some(Value::Object(dependent)) = schema.get_mut("dependentRequired") {
        for required in dependent.values_mut().filter_map(Value::as_array_mut) {
            required.retain(|other| other != name);
        }
    }
}

/// Applies a change to every schema of the object itself. The depth of schemas was bounded before, which bounds the
/// recursion.
fn in_place(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(members) = schema else { return };
    change(members);
    for keyword in IN_PLACE {
        match members.get_mut(keyword) {
            Some(Value::Array(branches)) => branches.iter_mut().for_each(|branch| in_place(branch, change)),
            Some(branch) => in_place(branch, change),
            None => {}
        }
    }
    if let Some(Value::Object(dependent)) = members.get_mut("dependentSchemas") {
        dependent.values_mut().for_each(|branch| in_place(branch, change));
    }
}

/// Checks the presets of a definition and converts it to its public form. Returns `true` if it has presets.
pub(super) fn check_and_hide(definition: &mut ToolDefinition, faults: &mut Vec<Fault>) -> bool {
    if definition.presets.is_empty() {
        return false;
    }
    check(definition, faults);
    hide(definition);
    true
}

/// Adds the faults of a tool's presets and of its full schema.
fn check(definition: &ToolDefinition, faults: &mut Vec<Fault>) {
    let ToolDefinition { presets, input_schema, .. } = definition;
    if presets.len() > MAX_PRESETS {
        faults.push(Fault::at("/presets", format!("must be at most {MAX_PRESETS}")));
        return;
    }
    let whole = schema::compile(input_schema, Role::Input);
    if let Err(error) = &whole {
        faults.push(Fault::at(format!("/input_schema{}", error.pointer), error.message.clone()));
    }
    if !presets.is_empty() && has_reference(input_schema) {
        let message =
            "the arguments of a tool with presets must be declared in the schema itself, not in the target of a `$ref`";
        faults.push(Fault::at("/input_schema", message));
    }
    for (name, preset) in presets {
        let pointer = format!("/presets/{}", pointer_token(name));
        if !is_valid_name(name) {
            faults.push(Fault::at(
                &pointer,
                format!("the name must have 1 to {LONGEST_NAME} characters and no control characters"),
            ));
        }
        if preset.overridable && input_schema["properties"].get(name).is_none() {
            faults
                .push(Fault::at(&pointer, "an overridable preset requires a property of the same name in the schema"));
        }
        match &preset.origin {
            PresetSource::Secret(secret) if !is_valid_secret_name(secret) => {
                let message =
                    "the name of a secret must have 1 to 128 letters, digits and underscores, such as MAIL_API_KEY";
                faults.push(Fault::at(format!("{pointer}/secret"), message));
            }
            PresetSource::Value(value) => {
                let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
                let within = format!("/{}", pointer_token(name));
                let violations = whole.as_ref().map(|whole| whole.violations(&alone)).unwrap_or_default();
                let wrong = violations.iter().find(|violation| {
                    let rest = violation.pointer.strip_prefix(&within);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
                if let Some(wrong) = wrong {
                    // The message does not repeat the value, which may be confidential.
                    let message = format!("does not match the schema of the property (`{}`)", wrong.keyword);
                    faults.push(Fault::at(format!("{pointer}/value"), message));
                }
            }
            PresetSource::Secret(_) | PresetSource::Stored(_) => {}
        }
    }
}

/// Returns `true` if an argument of this name can have a preset.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

fn has_reference(schema: &Value) -> bool {
    let refers =
        |schema: &Value| ["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|name| schema.get(name).is_some());
    let branches = IN_PLACE.iter().filter_map(|keyword| schema.get(keyword));
    refers(schema)
        || branches.into_iter().any(|branch| match branch {
            Value::Array(branches) => branches.iter().any(has_reference),
            branch => has_reference(branch),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: Value, presets: Value) -> ToolDefinition {
        let executor = json!({"type": "external"});
        let examples = json!([{"arguments": {"key": "x", "city": "Bern"}}]);
        let tool = json!({"name": "t", "input_schema": schema, "presets": presets, "executor": executor,
            "examples": examples});
        serde_json::from_value(tool).unwrap()
    }

    fn shown(schema: Value, presets: Value) -> Value {
        let mut definition = definition(schema, presets);
        hide(&mut definition);
        definition.input_schema
    }

    #[test]
    fn hidden_preset_is_removed_from_all_subschemas() {
        let schema = json!({"type": "object", "required": ["key", "city"], "additionalProperties": false,
            "properties": {"key": {"type": "string"}, "city": {"type": "string"}},
            "anyOf": [{"required": ["key"]}, {"properties": {"key": {}, "city": {}}}],
            "dependentRequired": {"city": ["key"], "key": ["city"]}, "examples": [{"key": "k", "city": "c"}]});
        let cut = json!({"type": "object", "required": ["city"], "additionalProperties": false,
            "properties": {"city": {"type": "string"}}, "anyOf": [{}, {"properties": {"city": {}}}],
            "dependentRequired": {"city": []}, "examples": [{"city": "c"}]});
        assert_eq!(shown(schema, json!({"key": {"secret": "K"}})), cut);
    }

    #[test]
    fn overridable_preset_becomes_the_default_unless_secret() {
        let schema = json!({"type": "object", "required": ["unit"], "properties": {"unit": {"default": "F"}}});
        let of = |preset: Value| shown(schema.clone(), json!({"unit": preset}));
        assert_eq!(
            of(json!({"value": "C", "overridable": true})),
            json!({"type": "object", "properties": {"unit": {"default": "C"}}})
        );
        assert_eq!(
            of(json!({"secret": "U", "overridable": true})),
            json!({"type": "object", "properties": {"unit": {}}})
        );
    }

    #[test]
    fn fault_does_not_repeat_the_value() {
        let faults = |schema: Value, presets: Value| {
            let mut faults = Vec::new();
            check(&definition(schema, presets), &mut faults);
            faults.iter().for_each(|fault| assert!(!fault.message.contains("hidden"), "{fault:?}"));
            faults.into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
        };
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        assert_eq!(faults(schema.clone(), json!({"n": {"value": "hidden"}})), ["/presets/n/value"]);
        assert_eq!(
            faults(schema.clone(), json!({"n": {"value": 1}, "other": {"value": "hidden"}})),
            Vec::<String>::new()
        );
        assert_eq!(faults(schema.clone(), json!({"n": {"secret": "A B"}})), ["/presets/n/secret"]);
        assert_eq!(faults(schema.clone(), json!({"m": {"secret": "X", "overridable": true}})), ["/presets/m"]);
        assert_eq!(faults(schema, json!({"a\nb": {"secret": "X"}})), ["/presets/a\nb"]);
        let behind = json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}});
        assert_eq!(faults(behind, json!({"n": {"secret": "X"}})), ["/input_schema"]);
    }

    #[test]
    fn only_arguments_of_hidden_presets_are_removed() {
        let presets =
            definition(json!({}), json!({"a": {"value": 1}, "b": {"secret": "B", "overridable": true}})).presets;
        let given = Arc::new(json!({"a": 2, "b": 3, "c": 4}));
        assert_eq!(*without(&presets, &given), json!({"b": 3, "c": 4}));
        assert_eq!(named_in(&presets, &given), ["a"]);
        let nothing = Arc::new(json!({"b": 3}));
        assert!(Arc::ptr_eq(&without(&presets, &nothing), &nothing));
    }
}
