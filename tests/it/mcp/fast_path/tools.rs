//! Tools with every kind of result.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolpost::domain::ContentBlock;
use toolpost::tool::{BuiltinTool, Json, ToolError, tool_fn};

/// The result of the tool.
#[derive(Deserialize, JsonSchema)]
struct ValueArgs {
    value: Value,
}

/// Returns the tools:
///
/// - `blocks {value}`: returns the blocks.
/// - `fails {value}`: fails with this text.
/// - `job {value}`: is `async`.
/// - `regional {region}`: repeats an argument in a header.
/// - `long {value}`: its output is truncated, and it has an output schema.
/// - `cut {value}`: its output is truncated.
pub fn tools() -> Vec<BuiltinTool> {
    let blocks = tool_fn("blocks", "Returns blocks.", |wanted: ValueArgs| {
        let blocks = wanted.value.as_array().cloned().unwrap_or_default();
        Ok(blocks.into_iter().filter_map(ContentBlock::from_value).collect::<Vec<ContentBlock>>())
    });
    let fails = tool_fn("fails", "Fails.", |wanted: ValueArgs| -> Result<(), ToolError> {
        Err(wanted.value.as_str().unwrap_or_default().into())
    });
    let mut job = tool_fn("job", "Is async.", |_: ValueArgs| Ok(()));
    job.definition.asynchronous = true;
    let mut regional = tool_fn("regional", "Has a header.", |_: ValueArgs| Ok(()));
    regional.definition.input_schema = json!({"type": "object", "properties": {
        "where": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}}});
    let of_value = |name: &str| {
        let mut tool = tool_fn(name, "Returns the value as data.", |wanted: ValueArgs| Ok(Json(wanted.value)));
        tool.definition.limits.max_output_bytes = Some(100);
        tool
    };
    let (mut long, cut) = (of_value("long"), of_value("cut"));
    long.definition.output_schema = Some(json!({"type": "object"}));
    vec![blocks, fails, job, regional, long, cut]
}
