//! The possible argument names of a tool, which find misspelt placeholders at registration.

use serde_json::{Map, Value};

/// Keywords that can add arguments to those in `properties` (JSON Schema 2020-12, core, section 10).
const OPEN_KEYWORDS: [&str; 13] = [
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

/// The argument names of a tool; `None` if the schema allows any name.
#[derive(Debug)]
pub struct ArgumentNames<'s>(Option<Vec<&'s str>>);

impl<'s> ArgumentNames<'s> {
    /// Collects the properties of an input schema. A schema allows any name if it has neither `properties` nor
    /// `additionalProperties`, if its `additionalProperties` is not `false`, or if it has a keyword that can add
    /// arguments.
    #[must_use]
    pub fn of(schema: &'s Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties");
        let is_open = additional.is_some_and(|more| *more != false)
            || properties.is_none() && additional.is_none()
            || OPEN_KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some());
        Self((!is_open).then(|| properties.into_iter().flat_map(Map::keys).map(String::as_str).collect()))
    }

    /// Returns the error for a placeholder of this name; `None` if the name is valid.
    #[must_use]
    pub fn fault(&self, name: &str) -> Option<String> {
        let names = self.0.as_ref().filter(|names| !names.contains(&name))?;
        let distances = names.iter().map(|known| (strsim::damerau_levenshtein(known, name), known));
        let nearest = distances.filter(|(distance, _)| *distance <= 2.max(name.chars().count() / 3)).min();
        let hint = nearest.map(|(_, known)| format!("; did you mean {{{known}}}?")).unwrap_or_default();
        Some(format!("the placeholder {{{name}}} is not a property of input_schema{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_name_is_a_fault_with_a_hint() {
        let schema = json!({"type": "object", "properties": {"city": {}, "unit": {}}});
        assert_eq!(ArgumentNames::of(&schema).fault("city"), None);
        assert_eq!(
            ArgumentNames::of(&schema).fault("ctiy").unwrap(),
            "the placeholder {ctiy} is not a property of input_schema; did you mean {city}?"
        );
        assert!(!ArgumentNames::of(&schema).fault("somewhere").unwrap().contains("did you mean"));
        assert!(ArgumentNames::of(&json!({"additionalProperties": false})).fault("x").is_some());
    }

    #[test]
    fn open_schema_allows_any_name() {
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
