//! Converts a `discriminator`, which selects one of several schemas, to a constant in each alternative.

use serde_json::{Map, Value, json};

use super::Bundler;
use crate::import::reference;

impl Bundler<'_> {
    /// Adds the values of the discriminator's mapping to each alternative. Without a mapping, only the alternatives'
    /// own constants apply: documents disagree on the meaning of schema names.
    pub(super) fn discriminate(&self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        let Some(Value::Object(discriminator)) = object.get("discriminator") else { return };
        let (Some(property), Some(mapping)) =
            (reference::text(discriminator, "propertyName"), discriminator.get("mapping").and_then(Value::as_object))
        else {
            return;
        };
        for keyword in ["oneOf", "anyOf"] {
            let sources = object.get(keyword).and_then(Value::as_array).into_iter().flatten();
            let branches = made.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten();
            for (source, branch) in sources.zip(branches) {
                let Some(pointer) = source.get("$ref").and_then(Value::as_str).and_then(|text| self.pointer(text))
                else {
                    continue;
                };
                let values: Vec<&String> = mapping
                    .iter()
                    .filter(|(_, target)| {
                        target.as_str().and_then(|target| self.pointer(target)).as_ref() == Some(&pointer)
                    })
                    .map(|(value, _)| value)
                    .collect();
                let constant = match values.as_slice() {
                    [] => continue,
                    [one] => json!({"const": one}),
                    many => json!({"enum": many}),
                };
                if let Some(branch) = branch.as_object_mut() {
                    branch.insert("properties".to_owned(), json!({property: constant}));
                    branch.insert("required".to_owned(), json!([property]));
                }
            }
        }
    }

    /// Returns the pointer of a reference, or of a schema name, which a mapping may contain instead.
    fn pointer(&self, text: &str) -> Option<String> {
        let by_name = || reference::target(self.document, &format!("#/components/schemas/{text}")).ok();
        let found = if text.starts_with('#') { reference::target(self.document, text).ok() } else { by_name() };
        found.map(|(pointer, _)| pointer)
    }
}
