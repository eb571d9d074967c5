//! Tools for clients of the Model Context Protocol, with unchanged or portable schemas.

use serde_json::{Value, json};

use super::{PresentedTool, description};
use crate::domain::ToolDefinition;
use crate::domain::tool::{Annotations, UpstreamMetadata};
use crate::schema::lower::Loss;
use crate::schema::portable;

/// Returns `true` if clients can receive this output schema. They validate `structuredContent` against it, which must
/// be an object.
#[must_use]
pub fn is_publishable(output_schema: &Value) -> bool {
    output_schema.get("type").is_some_and(|root| root == "object")
}

/// Shows the schemas of a listed tool as all known clients take them.
pub fn make_portable(tool: &mut Value) {
    let Value::Object(members) = tool else { return };
    if let Some(schema) = members.get("inputSchema").and_then(portable::input) {
        members.insert("inputSchema".to_owned(), schema);
    }
    match members.get("outputSchema").map(portable::output) {
        Some(Some(schema)) => drop(members.insert("outputSchema".to_owned(), schema)),
        Some(None) => drop(members.shift_remove("outputSchema")),
        None => {}
    }
}

/// Converts a definition.
pub(super) fn tool(presented: &PresentedTool<'_>) -> (Value, Vec<Loss>) {
    let definition = presented.definition;
    let Annotations { read_only, destructive, idempotent, open_world } = definition.annotations;
    let mut tool = json!({
        "name": presented.name,
        "title": definition.display_name(),
        "description": description(definition),
        "inputSchema": presented.schema,
    });
    let mut losses = Vec::new();
    match &definition.output_schema {
        Some(schema) if is_publishable(schema) => {
            tool["outputSchema"] = schema.clone();
        }
        Some(_) => losses.push(Loss {
            pointer: "/output_schema".to_owned(),
            keyword: "type".to_owned(),
            message: "the output schema is omitted: its root must be of type \"object\"".to_owned(),
            widens: false,
        }),
        None => {}
    }
    tool["annotations"] = json!({
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": open_world,
    });
    if let Some(upstream) = &definition.upstream {
        restore_metadata(&mut tool, upstream, definition);
        return (tool, losses);
    }
    // Older clients read the title from here.
    if definition.display_name() != definition.name {
        tool["annotations"]["title"] = definition.display_name().into();
    }
    (tool, losses)
}

/// Restores the metadata that an upstream server sent with its tool, except for the name.
fn restore_metadata(tool: &mut Value, upstream: &UpstreamMetadata, definition: &ToolDefinition) {
    let Value::Object(members) = tool else { return };
    let mut put = |name: &str, value: Option<Value>| match value {
        Some(value) => drop(members.insert(name.to_owned(), value)),
        None => drop(members.shift_remove(name)),
    };
    put("title", upstream.title.clone().map(Value::String));
    put("description", (!definition.description.is_empty()).then(|| definition.description.clone().into()));
    put("annotations", upstream.annotations.clone().map(Value::Object));
    put("_meta", upstream.meta.clone().map(Value::Object));
    if upstream.icons.is_some() {
        put("icons", upstream.icons.clone());
    }
}
