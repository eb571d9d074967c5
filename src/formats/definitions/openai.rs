//! Tools for OpenAI: Chat Completions, with and without `strict`, and Responses.

use serde_json::{Value, json};

use super::{DefinitionLoss, PresentedTool, bounded};

/// Maximum length of a description, in characters.
const LONGEST_DESCRIPTION: usize = 1024;

/// Converts a definition for Chat Completions.
pub(super) fn chat(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(told.definition, LONGEST_DESCRIPTION);
    let function = json!({ "name": told.name, "description": description, "parameters": told.schema });
    (json!({ "type": "function", "function": function }), losses)
}

/// Converts a definition for Chat Completions in strict mode.
pub(super) fn strict(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (mut tool, losses) = chat(told);
    tool["function"]["strict"] = true.into();
    (tool, losses)
}

/// Converts a definition for Responses, which are strict by default.
pub(super) fn responses(told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(told.definition, LONGEST_DESCRIPTION);
    let tool = json!({
        "type": "function", "name": told.name, "description": description, "parameters": told.schema, "strict": false,
    });
    (tool, losses)
}
