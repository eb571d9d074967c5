use std::collections::HashMap;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::domain::stats::ToolStats;

fn tool(more: Value) -> ToolDefinition {
    let mut definition = json!({
        "name": "get_weather", "description": "Returns the weather.", "executor": {"type": "external"},
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(definition).unwrap()
}

fn render_definition(format: Format, tool: &ToolDefinition) -> (Value, Vec<Loss>) {
    definition(
        format,
        &PresentedTool { name: "shown_as", definition: tool, schema: &tool.input_schema, is_strict: true },
    )
}

fn prompt_of(tool: &ToolDefinition, stats: Option<ToolStats>) -> String {
    let stats: HashMap<String, ToolStats> = stats.into_iter().map(|stats| (tool.name.clone(), stats)).collect();
    prompt::render([tool].into_iter(), &stats)
}

#[test]
fn formats_are_called_the_same_everywhere() {
    for format in Format::ALL {
        assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        assert_eq!(Format::named(format.name()), Some(format));
    }
    assert_eq!(Format::named("other"), None);
}

#[test]
fn responses_are_not_strict_and_strict_is() {
    let tool = tool(json!({}));
    assert_eq!(render_definition(Format::OpenAiResponses, &tool).0["strict"], false);
    assert_eq!(render_definition(Format::OpenAiStrict, &tool).0["function"]["strict"], true);
    assert_eq!(render_definition(Format::OpenAi, &tool).0["function"].get("strict"), None);
}

#[test]
fn long_description_for_openai_is_truncated_with_a_loss() {
    let (fits, too_long) = ("é".repeat(1024), "é".repeat(1025));
    for format in [Format::OpenAi, Format::OpenAiStrict, Format::OpenAiResponses] {
        let shown = |description: &str| {
            let (value, losses) = render_definition(format, &tool(json!({ "description": description })));
            let text = value.pointer("/function/description").unwrap_or(&value["description"]).clone();
            (text.as_str().unwrap().to_owned(), losses)
        };
        assert_eq!(shown(&fits), (fits.clone(), Vec::new()));
        let (text, losses) = shown(&too_long);
        assert_eq!((text.chars().count(), text.chars().last()), (1024, Some('…')));
        assert_eq!((losses.len(), losses[0].pointer.as_str()), (1, "/description"));
    }
    assert_eq!(
        render_definition(Format::Anthropic, &tool(json!({ "description": too_long }))).0["description"],
        too_long
    );
}

#[test]
fn tool_without_a_description_is_described_by_its_title() {
    for (more, expected) in
        [(json!({"description": " ", "title": "Weather"}), "Weather"), (json!({"description": ""}), "get_weather")]
    {
        for format in [Format::Anthropic, Format::Gemini, Format::Mcp] {
            assert_eq!(render_definition(format, &tool(more.clone())).0["description"], expected);
        }
    }
}

#[test]
fn tool_without_arguments_has_no_parameters_for_gemini() {
    for schema in [json!({"type": "object"}), json!({"type": "object", "properties": {}})] {
        assert_eq!(
            render_definition(Format::Gemini, &tool(json!({ "input_schema": schema }))).0.get("parameters"),
            None
        );
    }
    assert!(render_definition(Format::Gemini, &tool(json!({}))).0["parameters"].is_object());
    let wrapped = |definitions: &[Value]| {
        let definitions = definitions.iter().map(|definition| to_raw_value(definition).unwrap()).collect();
        serde_json::to_value(tools(Format::Gemini, definitions)).unwrap()
    };
    assert_eq!(wrapped(&[]), json!([]));
    assert_eq!(wrapped(&[json!(1), json!(2)]), json!([{"functionDeclarations": [1, 2]}]));
}

#[test]
fn non_object_result_has_no_output_schema_for_mcp() {
    let (listed, losses) = render_definition(Format::Mcp, &tool(json!({"output_schema": {"type": "object"}})));
    assert_eq!((&listed["outputSchema"], losses), (&json!({"type": "object"}), Vec::new()));
    let (listed, losses) = render_definition(Format::Mcp, &tool(json!({"output_schema": {"type": "string"}})));
    assert_eq!((listed.get("outputSchema"), losses[0].pointer.as_str()), (None, "/output_schema"));
}

#[test]
fn prompt_without_tools_is_empty() {
    assert_eq!(prompt::render(std::iter::empty::<ToolDefinition>(), &HashMap::new()), "");
}

#[test]
fn prompt_omits_missing_parts() {
    let schema = json!({"type": "object"});
    let least = tool(json!({"description": "", "input_schema": schema}));
    let head = "# Available Tools\n\nYou have access to the following 1 tool(s):\n\n## get_weather\n";
    assert_eq!(prompt_of(&least, None), head);
    let full_tool = tool(json!({
        "title": "Weather", "category": "data", "description": "Returns the weather.\n\n## Not a heading",
        "input_schema": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "The\n city", "examples": ["Rome", "Paris"]},
            "unit": {"enum": ["c", "f"], "default": "c"},
        }},
        "examples": [{"arguments": {"city": "Rome"}, "output": "sunny\nand warm"}, {"arguments": {}}],
    }));
    let expected = "Display Name: Weather\nDescription: Returns the weather.\n\n  ## Not a heading\nCategory: \
        data\nParameters:\n  - city: string (required) - The city\n    Examples: Rome, Paris\n  - unit: string \
        (optional)\n    Allowed values: c, f\n    Default: c\nExamples:\n  - {\"city\":\"Rome\"} → sunny and warm\n  - \
        {}\n";
    assert_eq!(prompt_of(&full_tool, None), format!("{head}{expected}"));
}

#[test]
fn nested_parameters_have_dotted_keys() {
    let schema = json!({
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/place", "description": "Where"},
            "items": {"type": "array", "items": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}},
            "to": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"enum": ["a", "b, c"]}},
            "n": {"type": ["integer", "null"], "enum": [1, null]},
            "any": true,
        },
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}, "near": {"$ref": "#/$defs/place"}}}},
    });
    let text = prompt_of(&tool(json!({ "input_schema": schema })), None);
    let lines: Vec<&str> = text.lines().skip_while(|line| *line != "Parameters:").skip(1).collect();
    let expected = [
        "  - at: object (optional) - Where",
        "  - at.city: string (optional)",
        "  - at.near: object (optional)",
        "  - at.near.city: string (optional)",
        "  - at.near.near: object (optional)",
        "  - items: array of object (optional)",
        "  - items[].sku: string (required)",
        "  - to: object or null (optional)",
        "  - to.city: string (optional)",
        "  - to.near: object (optional)",
        "  - to.near.city: string (optional)",
        "  - to.near.near: object (optional)",
        "  - tags: array of string (optional)",
        "    Allowed values: a, \"b, c\"",
        "  - n: integer or null (optional)",
        "    Allowed values: 1, null",
        "  - any: any (optional)",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn recursive_schema_is_described_within_limits() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#"}, "c": {"$ref": "#/$defs/nowhere"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
    });
    assert!(parameters::names(&schema).contains(&"b"));
    assert!(prompt_of(&tool(json!({ "input_schema": schema })), None).contains("  - b.b: object (optional)"));
    let wide: serde_json::Map<String, Value> = (0..300).map(|n| (format!("p{n}"), json!({"$ref": "#"}))).collect();
    let text = prompt_of(&tool(json!({ "input_schema": {"type": "object", "properties": wide} })), None);
    assert!(text.lines().count() < 250, "{}", text.lines().count());
}

#[test]
fn prompt_warns_of_tools_that_often_fail_or_are_slow() {
    let stats = |executions: u64, failures: u64, p95: u64| ToolStats {
        execution_count: executions,
        failure_count: failures,
        p95_duration_ms: p95,
        ..ToolStats::never_called("get_weather")
    };
    let note = |stats| prompt_of(&tool(json!({})), Some(stats)).lines().last().unwrap().to_owned();
    assert_eq!(note(stats(5, 1, 0)), "Note: this tool often fails (1 of 5 calls).");
    assert_eq!(note(stats(1, 0, 10_000)), "Note: this tool is slow (95 of 100 calls take up to 10 s).");
    let both = "Note: this tool often fails (6 of 6 calls) and is slow (95 of 100 calls take up to 11 s).";
    assert_eq!(note(stats(6, 6, 10_001)), both);
    for quiet in [stats(4, 4, 9_999), stats(6, 1, 0), stats(0, 0, 0)] {
        assert!(!note(quiet.clone()).starts_with("Note:"), "{quiet:?}");
    }
}
