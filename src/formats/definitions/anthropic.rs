//! Tools for Anthropic's Messages.

use serde_json::{Value, json};

use super::{PresentedTool, description};

/// Converts a definition.
pub(super) fn tool(told: &PresentedTool<'_>) -> Value {
    json!({ "name": told.name, "description": description(told.definition), "input_schema": told.schema })
}
