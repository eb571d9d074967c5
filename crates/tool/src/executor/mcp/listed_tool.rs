//! Tools as servers list them: conversion to definitions, and comparison with earlier lists.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::annotations;
use toolpost_core::domain::idempotency::fingerprint;
use toolpost_core::domain::tool::{Annotations, OutputCheck, UpstreamMetadata};
use toolpost_core::domain::{ExecutorSpec, ToolDefinition};
use toolpost_core::schema::{self, Role};

/// One item of a server's `tools/list`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// The tool's name at the server.
    pub name: String,
    /// The tool's name in Toolpost, without the name of the server.
    pub shown: String,
    /// The complete item.
    pub tool: Value,
    /// SHA-256 of the members that a pin covers, independent of their order.
    pub fingerprint: [u8; 32],
}

/// The members that a pin covers.
const MEMBERS: [&str; 6] = ["title", "description", "inputSchema", "outputSchema", "annotations", "icons"];

impl ListedTool {
    /// Reads one item.
    ///
    /// # Errors
    /// Returns the position (`#N`) and a message if the item has no name or a blank one.
    pub fn read(index: usize, tool: Value) -> Result<Self, (String, String)> {
        let name = tool.get("name").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        let Some(name) = name.map(str::to_owned) else {
            return Err((format!("#{index}"), "it has no name".to_owned()));
        };
        let pinned_members: Map<String, Value> = MEMBERS
            .iter()
            .filter_map(|member| Some(((*member).to_owned(), pinned(member, tool.get(*member)?))))
            .collect();
        Ok(Self { shown: name.clone(), name, fingerprint: fingerprint(&Value::Object(pinned_members)), tool })
    }

    /// Returns the names of the members that differ.
    #[must_use]
    pub fn differs(&self, before: &Self) -> Vec<&'static str> {
        let of = |listed: &Self, member: &str| listed.tool.get(member).map(|value| pinned(member, value));
        let differs = |member: &&&str| of(self, member) != of(before, member);
        MEMBERS.iter().filter(differs).copied().collect()
    }
}

/// Returns the part of a member that a pin covers. Annotations that rmcp drops are excluded: changes of them require no
/// new acceptance, and older pins, made without them, remain valid.
fn pinned(member: &str, value: &Value) -> Value {
    if member == "annotations" { annotations::known(value) } else { value.clone() }
}

/// Converts a listed tool to a definition. Its schemas are corrected as far as their meaning is plain, and an output
/// schema that cannot be used is left out. This compiles the schemas, which can take long.
///
/// # Errors
/// Returns a message if `inputSchema` cannot be used.
pub fn definition(server: &str, listed: &ListedTool, output_check: OutputCheck) -> Result<ToolDefinition, String> {
    let ListedTool { name, shown, tool, .. } = listed;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let (input_schema, output_schema, corrected) = schemas(tool)?;
    let hints = tool.get("annotations").and_then(Value::as_object);
    let hint =
        |name: &str, default: bool| hints.and_then(|hints| hints.get(name)).and_then(Value::as_bool).unwrap_or(default);
    let usual = Annotations::default();
    let title = text(tool.get("title"));
    let upstream = UpstreamMetadata {
        title: title.clone(),
        icons: tool.get("icons").filter(|icons| icons.is_array()).cloned(),
        annotations: hints.cloned(),
        meta: tool.get("_meta").and_then(Value::as_object).cloned(),
        corrected: Some(corrected).filter(|notes| !notes.is_empty()),
    };
    let executor = ExecutorSpec::Mcp { server: server.to_owned(), tool: name.clone() };
    Ok(ToolDefinition {
        title: title.or_else(|| text(hints.and_then(|hints| hints.get("title")))),
        description: text(tool.get("description")).unwrap_or_default(),
        output_schema,
        output_check,
        annotations: Annotations {
            read_only: hint("readOnlyHint", usual.read_only),
            destructive: hint("destructiveHint", usual.destructive),
            idempotent: hint("idempotentHint", usual.idempotent),
            open_world: hint("openWorldHint", usual.open_world),
        },
        upstream: Some(Arc::new(upstream)),
        ..ToolDefinition::plain(format!("{server}.{shown}"), input_schema, executor)
    })
}

/// Returns the schemas of a tool, and what was corrected in them.
fn schemas(tool: &Value) -> Result<(Value, Option<Value>, Vec<String>), String> {
    let input = tool.get("inputSchema").unwrap_or(&Value::Null);
    let input = schema::correct(input, Role::Input).map_err(|error| format!("its inputSchema: {error}"))?;
    let mut notes: Vec<String> = input.notes.into_iter().map(|note| format!("inputSchema {note}")).collect();
    let output = match tool.get("outputSchema").filter(|schema| !schema.is_null()) {
        None => None,
        Some(output) => match schema::correct(output, Role::Output) {
            Ok(output) => {
                notes.extend(output.notes.into_iter().map(|note| format!("outputSchema {note}")));
                Some(output.schema)
            }
            Err(error) => {
                notes.push(format!("outputSchema is left out: {error}"));
                None
            }
        },
    };
    Ok((input.schema, output, notes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(tool: Value) -> ListedTool {
        ListedTool::read(0, tool).unwrap()
    }

    #[test]
    fn listed_tool_becomes_a_definition() {
        let tool = json!({"name": "read", "title": "Read", "description": "Reads.", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "openWorldHint": false}});
        let definition = definition("files", &listed(tool), OutputCheck::Strict).unwrap();
        assert_eq!((definition.name.as_str(), definition.title.as_deref()), ("files.read", Some("Read")));
        let Annotations { read_only, destructive, idempotent, open_world } = definition.annotations;
        assert_eq!([read_only, destructive, idempotent, open_world], [true, true, false, false]);
        assert_eq!(definition.executor, ExecutorSpec::Mcp { server: "files".into(), tool: "read".into() });
        let upstream = definition.upstream.unwrap();
        assert_eq!(json!(upstream.annotations), json!({"readOnlyHint": true, "openWorldHint": false}));
    }

    #[test]
    fn changes_are_independent_of_the_order_of_members() {
        let one = listed(json!({"name": "t", "inputSchema": {"type": "object", "title": "A"}}));
        let same = listed(json!({"inputSchema": {"title": "A", "type": "object"}, "name": "t", "_meta": {"x": 1}}));
        let other = listed(json!({"name": "t", "inputSchema": {"type": "object"}, "description": "now"}));
        assert_eq!(one.fingerprint, same.fingerprint);
        let hinted =
            |hints: Value| listed(json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": hints}));
        let (plain, more) = (hinted(json!({"readOnlyHint": true})), hinted(json!({"readOnlyHint": true, "own": 1})));
        assert_eq!((plain.fingerprint, plain.differs(&more)), (more.fingerprint, Vec::new()));
        assert_ne!(plain.fingerprint, hinted(json!({"readOnlyHint": false})).fingerprint);
        assert_ne!(one.fingerprint, other.fingerprint);
        assert_eq!(other.differs(&one), ["description", "inputSchema"]);
        assert_eq!(ListedTool::read(3, json!({"inputSchema": {}})).unwrap_err().0, "#3");
    }
}
