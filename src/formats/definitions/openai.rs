//! Tools for OpenAI: Chat Completions, with and without `strict`, and Responses.

use serde_json::{Value, json};

use super::{DefinitionLoss, PresentedTool, bounded};

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Converts a definition for Chat Completions.
pub(super) fn chat(presented: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(presented.definition, MAX_DESCRIPTION_CHARS);
    let function = json!({ "name": presented.name, "description": description, "parameters": presented.schema });
    (json!({ "type": "function", "function": function }), losses)
}

/// Converts a definition for Chat Completions in strict mode.
pub(super) fn strict(presented: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (mut tool, losses) = chat(presented);
    tool["function"]["strict"] = true.into();
    (tool, losses)
}

/// Converts a definition for Responses, which are strict by default.
pub(super) fn responses(presented: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    let (description, losses) = bounded(presented.definition, MAX_DESCRIPTION_CHARS);
    let tool = json!({
        "type": "function", "name": presented.name, "description": description, "parameters": presented.schema, "strict": false,
    });
    (tool, losses)
}
