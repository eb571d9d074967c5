//! The tools of the suite. All are registered like any other tool; tools that query their client use only their
//! definition.

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock as Block};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::data::{AUDIO, IMAGE};
use toolpost::domain::{ContentBlock, ExecutorSpec, Time, ToolDefinition};
use toolpost::registry::Registry;
use toolpost::tool::{BuiltinTool, DefinitionBuilder, NoArgs, Run, ToolError, async_tool_fn, tool_fn};

/// The tool that changes the list of tools.
pub const CHANGE: &str = "test_trigger_tool_change";
/// The tool that [`CHANGE`] adds and removes.
const CHANGING: &str = "test_changing_tool";
/// Delay between two progress reports, as the suite requires.
const PAUSE: Duration = Duration::from_millis(50);
/// Tools that query their client, which [`super::server::ConformanceServer`] handles.
const ASKING: [(&str, Option<&str>); 16] = [
    (CHANGE, None),
    ("test_tool_with_logging", None),
    ("test_logging_tool", None),
    ("test_sampling", Some("prompt")),
    ("test_elicitation", Some("message")),
    ("test_elicitation_sep1034_defaults", None),
    ("test_elicitation_sep1330_enums", None),
    ("test_missing_capability", None),
    ("test_streaming_elicitation", None),
    ("test_input_required_result_elicitation", None),
    ("test_input_required_result_sampling", None),
    ("test_input_required_result_list_roots", None),
    ("test_input_required_result_request_state", None),
    ("test_input_required_result_multiple_inputs", None),
    ("test_input_required_result_multi_round", None),
    ("test_input_required_result_tampered_state", None),
];
/// The tool that requests only input that its client supports.
const CAPABILITIES: &str = "test_input_required_result_capabilities";

/// The name of the person to greet.
#[derive(Deserialize, JsonSchema)]
struct Greeted {
    name: String,
}

/// Duration of the computation.
#[derive(Deserialize, JsonSchema)]
struct Slow {
    seconds: f64,
    #[serde(default)]
    label: String,
}

/// Returns all tools.
#[must_use]
pub fn tools() -> Vec<BuiltinTool> {
    let mut all = vec![
        tool_fn("test_simple_text", "Answers with a text.", |_: NoArgs| {
            Ok("This is a simple text response for testing.")
        }),
        tool_fn("test_image_content", "Answers with an image.", |_: NoArgs| Ok(vec![image()])),
        tool_fn("test_audio_content", "Answers with a sound.", |_: NoArgs| {
            Ok(blocks(json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}])))
        }),
        tool_fn("test_embedded_resource", "Answers with a resource.", |_: NoArgs| {
            Ok(blocks(json!([{"type": "resource", "resource": {"uri": "test://embedded-resource",
                "mimeType": "text/plain", "text": "This is an embedded resource content."}}])))
        }),
        tool_fn("test_multiple_content_types", "Answers with blocks of several types.", |_: NoArgs| {
            let resource = blocks(json!([{"type": "resource", "resource": {"uri": "test://mixed-content-resource",
                "mimeType": "application/json", "text": r#"{"test":"data","value":123}"#}}]));
            let text = ContentBlock::Text("Multiple content types test:".into());
            Ok([vec![text, image()], resource].concat())
        }),
        tool_fn("test_error_handling", "Fails.", |_: NoArgs| -> Result<(), ToolError> {
            Err("This tool intentionally returns an error for testing".into())
        }),
        async_tool_fn("test_tool_with_progress", "Reports progress.", progress),
        with_schema(),
        with_header(),
        tool_fn("greet", "Greets somebody.", |args: Greeted| Ok(format!("Hello, {}!", args.name))),
        async_tool_fn("slow_compute", "Takes its time.", slow).with_definition(DefinitionBuilder::asynchronous),
        async_tool_fn("failing_job", "Takes its time and fails.", failing)
            .with_definition(DefinitionBuilder::asynchronous),
    ];
    all.extend(ASKING.into_iter().chain([(CAPABILITIES, None)]).map(|(name, argument)| asking(name, argument)));
    all
}

/// Returns `true` for a tool that [`super::server::ConformanceServer`] handles.
pub fn is_asking(name: &str) -> bool {
    name == CAPABILITIES || ASKING.iter().any(|(asking, _)| *asking == name)
}

fn image() -> ContentBlock {
    ContentBlock::Image { data: IMAGE.to_owned(), mime_type: "image/png".to_owned() }
}

fn blocks(blocks: Value) -> Vec<ContentBlock> {
    let Value::Array(blocks) = blocks else { return Vec::new() };
    blocks.into_iter().filter_map(ContentBlock::from_value).collect()
}

async fn progress(_: NoArgs, run: Run) -> Result<&'static str, ToolError> {
    for done in [0, 50, 100] {
        run.progress(done, 100, format!("Completed step {done} of 100"));
        tokio::time::sleep(PAUSE).await;
    }
    Ok("All steps are done.")
}

async fn slow(Slow { seconds, label }: Slow, _: Run) -> Result<String, ToolError> {
    tokio::time::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
    Ok(format!("Computed {label} in {seconds} s"))
}

async fn failing(_: NoArgs, _: Run) -> Result<(), ToolError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err("This job always fails".into())
}

/// Builds a tool whose schema has keywords that conversions often drop.
fn with_schema() -> BuiltinTool {
    let mut tool = tool_fn("json_schema_2020_12_tool", "Has a schema of JSON Schema 2020-12.", |args: Value| {
        Ok(format!("Called with {args}"))
    });
    tool.definition.input_schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"}, "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    tool
}

/// Builds a tool with an argument that is also sent in a header (SEP-2243).
fn with_header() -> BuiltinTool {
    let mut tool = tool_fn("test_header_argument", "Has an argument for gateways.", |args: Value| {
        Ok(format!("Called with {args}"))
    });
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    tool.definition.input_schema = json!({"type": "object", "properties": {"region": region}});
    tool
}

fn asking(name: &str, argument: Option<&str>) -> BuiltinTool {
    let mut tool = tool_fn(name, "Asks its client.", |_: Value| -> Result<(), ToolError> {
        Err("this fixture answers clients of MCP only".into())
    });
    let properties = argument.map(|argument| (argument.to_owned(), json!({"type": "string"})));
    let required: Vec<&str> = argument.into_iter().collect();
    let properties: serde_json::Map<String, Value> = properties.into_iter().collect();
    tool.definition.input_schema = json!({"type": "object", "properties": properties, "required": required});
    tool
}

/// Adds or removes the changing tool.
pub fn change(registry: &Registry) -> CallToolResult {
    let is_there = registry.default_catalog().snapshot().get(CHANGING).is_some();
    let shown = if is_there { Vec::new() } else { vec![(changing(), Time(0))] };
    match registry.show_files(shown) {
        Ok(()) => CallToolResult::success(vec![Block::text("The list of tools is another one now.")]),
        Err((name, _)) => CallToolResult::error(vec![Block::text(format!("{name} is refused"))]),
    }
}

fn changing() -> ToolDefinition {
    let about = DefinitionBuilder::with_schema(CHANGING, json!({"type": "object"})).description("Comes and goes.");
    let mut definition = about.into_definition();
    definition.executor = ExecutorSpec::Builtin { name: "echo".to_owned() };
    definition
}
