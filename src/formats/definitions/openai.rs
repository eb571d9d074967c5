//! Tools for OpenAI: Chat Completions, with `strict` or without, and Responses.

use serde_json::{Value, json};

use super::{DefinitionLoss, PresentedTool, bounded};

/// Longest description, in characters.
const LONGEST_DESCRIPTION: usize = 1024;

/// For Chat Completions.
pub(super) fn chat(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(told.definition, LONGEST_DESCRIPTION);
    let function = json!({ "name": told.name, "description": description, "parameters": told.schema });
    (json!({ "type": "function", "function": function }), losses)
}

/// For Chat Completions, held to the schema.
pub(super) fn strict(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (mut tool, losses) = chat(told);
    tool["function"]["strict"] = true.into();
    (tool, losses)
}

/// For Responses. They are strict unless told otherwise.
pub(super) fn responses(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(told.definition, LONGEST_DESCRIPTION);
    let tool = json!({
        "type": "function", "name": told.name, "description": description, "parameters": told.schema, "strict": false,
    });
    (tool, losses)
}
