//! `discriminator`: which of several schemas a value is for. JSON Schema says it with a constant in each of them.

use serde_json::{Map, Value, json};

use super::Bundler;
use crate::import::reference;

impl Bundler<'_> {
    /// Ties each alternative to the values that the discriminator's mapping has for it. Without a mapping the alternatives'
    /// own constants have to do: documents differ too much in what they mean by the names of schemas.
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

    /// Where a reference leads, or the name of a schema, which a mapping may have instead.
    fn pointer(&self, text: &str) -> Option<String> {
        let by_name = || reference::target(self.document, &format!("#/components/schemas/{text}")).ok();
        let found = if text.starts_with('#') { reference::target(self.document, text).ok() } else { by_name() };
        found.map(|(pointer, _)| pointer)
    }
}
