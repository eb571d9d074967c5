//! Which arguments a tool can have, so that a misspelt placeholder is found at registration and not by the first call.

use serde_json::Value;

/// Keywords beside `properties` that can bring further arguments in (JSON Schema 2020-12, core, section 10).
const OPENING: [&str; 13] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
];

/// The names of the arguments of a tool, or that they cannot be known.
#[derive(Debug)]
pub struct ArgumentNames<'s>(Option<Vec<&'s str>>);

impl<'s> ArgumentNames<'s> {
    /// The properties of an input schema. They are all that there are unless the schema says otherwise: by leaving
    /// `properties` out, by an `additionalProperties` that allows any, or by a keyword that adds some.
    #[must_use]
    pub fn of(schema: &'s Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
        let open = additional || OPENING.iter().any(|keyword| schema.get(keyword).is_some());
        let closed_without = schema.get("additionalProperties") == Some(&Value::Bool(false));
        match properties {
            Some(properties) if !open => Self(Some(properties.keys().map(String::as_str).collect())),
            None if closed_without && !open => Self(Some(Vec::new())),
            _ => Self(None),
        }
    }

    /// What is wrong with a placeholder of that name, if anything.
    #[must_use]
    pub fn fault(&self, name: &str) -> Option<String> {
        let names = self.0.as_ref().filter(|names| !names.contains(&name))?;
        let nearest = names
            .iter()
            .map(|known| (strsim::damerau_levenshtein(known, name), known))
            .filter(|(distance, _)| *distance <= 2.max(name.chars().count() / 3))
            .min();
        let hint = nearest.map(|(_, known)| format!("; did you mean {{{known}}}?")).unwrap_or_default();
        Some(format!("the placeholder {{{name}}} names no property of input_schema{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_no_call_can_have_is_a_fault_with_a_hint() {
        let schema = json!({"type": "object", "properties": {"city": {}, "unit": {}}});
        assert_eq!(ArgumentNames::of(&schema).fault("city"), None);
        assert_eq!(
            ArgumentNames::of(&schema).fault("ctiy").unwrap(),
            "the placeholder {ctiy} names no property of input_schema; did you mean {city}?"
        );
        assert!(!ArgumentNames::of(&schema).fault("somewhere").unwrap().contains("did you mean"));
        assert!(ArgumentNames::of(&json!({"additionalProperties": false})).fault("x").is_some());
    }

    #[test]
    fn an_open_schema_knows_no_end_of_names() {
        for schema in [
            json!(null),
            json!({"type": "object"}),
            json!({"properties": {}, "additionalProperties": true}),
            json!({"properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"properties": {}, "allOf": [{"properties": {"x": {}}}]}),
        ] {
            assert_eq!(ArgumentNames::of(&schema).fault("x"), None, "{schema}");
        }
    }
}
