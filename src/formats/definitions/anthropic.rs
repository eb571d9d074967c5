//! Tools for Anthropic's Messages.

use serde_json::{Value, json};

use super::{Told, description};

/// One tool.
pub(super) fn tool(told: &Told<'_>) -> Value {
    json!({ "name": told.name, "description": description(told.definition), "input_schema": told.schema })
}
