//! The response of a definition's URL: its members, their application to the definition, and their storage.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use toolpost_core::domain::tool::DefinitionError;
use toolpost_core::domain::{Time, ToolDefinition, json};

/// The member of a stored definition that contains the fetched document.
const STORED: &str = "definition_fetched";

/// The document at a definition's URL. Its members take precedence over the members of the definition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DefinitionOverlay {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
}

/// The state of a definition's URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FetchedDefinition {
    /// The last valid document.
    pub overlay: Option<Arc<DefinitionOverlay>>,
    /// Why the last request did not return a valid document.
    pub error: Option<DefinitionError>,
    /// The time of the last request.
    pub at: Option<Time>,
}

impl DefinitionOverlay {
    /// Decodes a response. Unknown members are ignored, because the server may serve other clients too.
    ///
    /// # Errors
    /// Returns a message if the response is not an object, a member has the wrong type, or no known member is present.
    pub fn read(value: Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err(format!("the response must be an object, not {}", json::type_name(&value)));
        }
        let overlay: Self =
            serde_json::from_value(value).map_err(|error| format!("the response is invalid: {error}"))?;
        if overlay == Self::default() {
            return Err(
                "the response must have at least one of title, description, input_schema and output_schema".to_owned()
            );
        }
        Ok(overlay)
    }

    /// Replaces the members of the definition that the document has.
    pub fn apply(&self, definition: &mut ToolDefinition) {
        let overlay = self.clone();
        definition.title = overlay.title.or(definition.title.take());
        definition.description = overlay.description.unwrap_or(std::mem::take(&mut definition.description));
        definition.input_schema = overlay.input_schema.unwrap_or(std::mem::take(&mut definition.input_schema));
        definition.output_schema = overlay.output_schema.or(definition.output_schema.take());
    }
}

/// Serializes a definition together with its fetched document, which other nodes and the next start use immediately.
///
/// # Errors
/// Returns an error if the definition cannot be serialized.
pub(super) fn to_store(definition: &ToolDefinition, fetched: &FetchedDefinition) -> Result<String, serde_json::Error> {
    let kept = definition.to_stored()?;
    if *fetched == FetchedDefinition::default() {
        return Ok(kept);
    }
    let mut value: Value = serde_json::from_str(&kept)?;
    value[STORED] = serde_json::to_value(fetched)?;
    serde_json::to_string(&value)
}

/// Parses the output of [`to_store`].
///
/// # Errors
/// Returns a message if the text is not a valid definition.
pub(super) fn read_stored(text: &str) -> Result<(ToolDefinition, FetchedDefinition), String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let fetched = value.as_object_mut().and_then(|members| members.shift_remove(STORED));
    // An unreadable document is fetched again.
    let fetched = fetched.and_then(|fetched| serde_json::from_value(fetched).ok()).unwrap_or_default();
    Ok((serde_json::from_value(value).map_err(|error| error.to_string())?, fetched))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn response_must_be_an_object_with_a_known_member() {
        for value in [json!([]), json!("x"), json!({}), json!({"name": "x"}), json!({"description": 5})] {
            assert!(DefinitionOverlay::read(value.clone()).is_err(), "{value}");
        }
        let overlay =
            DefinitionOverlay::read(json!({"description": "d", "name": "other", "input_schema": {"type": "object"}}));
        let overlay = overlay.unwrap();
        let mut definition =
            toolpost_tool::tool::DefinitionBuilder::with_schema("t", Value::Null).title("own").into_definition();
        overlay.apply(&mut definition);
        assert_eq!((definition.name.as_str(), definition.title.as_deref()), ("t", Some("own")));
        assert_eq!((definition.description.as_str(), definition.input_schema), ("d", json!({"type": "object"})));
    }

    #[test]
    fn fetched_document_is_stored_with_the_definition() {
        let definition =
            toolpost_tool::tool::DefinitionBuilder::with_schema("t", json!({"type": "object"})).into_definition();
        let plain = to_store(&definition, &FetchedDefinition::default()).unwrap();
        assert_eq!(serde_json::from_str::<ToolDefinition>(&plain).unwrap(), definition);
        let overlay = DefinitionOverlay { title: Some("T".into()), ..DefinitionOverlay::default() };
        let error = DefinitionError { message: "m".into(), at: Time(1_000_000) };
        let fetched =
            FetchedDefinition { overlay: Some(Arc::new(overlay)), error: Some(error), at: Some(Time(2_000_000)) };
        let text = to_store(&definition, &fetched).unwrap();
        assert_eq!(read_stored(&text).unwrap(), (definition.clone(), fetched));
        assert_eq!(read_stored(&plain).unwrap(), (definition, FetchedDefinition::default()));
    }
}
