//! Tools for Anthropic's Messages.

use serde_json::{Value, json};

use super::{PresentedTool, description};

/// Converts a definition.
pub(super) fn tool(presented: &PresentedTool<'_>) -> Value {
    json!({ "name": presented.name, "description": description(presented.definition), "input_schema": presented.schema })
}
