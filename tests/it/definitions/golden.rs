//! Golden tool lists for each vendor's request, in `tests/fixtures/definitions`, compared byte by byte. Lowered schemas
//! have their own tests.

use std::collections::HashMap;

use serde_json::json;
use toolpost::domain::ToolDefinition;
use toolpost::formats::definitions::{self, Format, PresentedTool, prompt};

use crate::support::fixture::same_as_file;

const HOW: &str = "UPDATE_FIXTURES=1 cargo test --test it definitions::golden";

fn tools() -> Vec<ToolDefinition> {
    let executor = json!({"type": "external"});
    let tools = json!([
        {
            "name": "get_weather", "title": "Weather", "description": "Tells the weather.\nNever the past one.",
            "category": "data", "tags": ["weather"], "executor": executor,
            "examples": [{"arguments": {"city": "北京"}, "output": "sunny"}],
            "input_schema": {
                "type": "object", "required": ["city", "unit"], "additionalProperties": false,
                "properties": {
                    "city": {"type": "string", "description": "The city, in any language."},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                },
            },
            "output_schema": {"type": "object", "properties": {"degrees": {"type": "number"}}},
            "annotations": {"read_only": true, "destructive": false, "idempotent": true, "open_world": true},
        },
        {"name": "ping", "description": "", "input_schema": {"type": "object", "properties": {}}, "executor": executor},
    ]);
    serde_json::from_value(tools).unwrap()
}

#[test]
fn tools_of_each_format_match_the_golden_file() {
    let tools = tools();
    for format in Format::ALL.into_iter().filter(|format| !matches!(format, Format::Native | Format::Prompt)) {
        let definitions = tools.iter().map(|tool| {
            let presented =
                PresentedTool { name: &tool.name, definition: tool, schema: &tool.input_schema, is_strict: true };
            serde_json::value::to_raw_value(&definitions::definition(format, &presented).0).unwrap()
        });
        let list = serde_json::to_value(definitions::tools(format, definitions.collect())).unwrap();
        let name = serde_json::to_value(format).unwrap();
        let path = format!("tests/fixtures/definitions/{}.json", name.as_str().unwrap());
        same_as_file(&path, &(serde_json::to_string_pretty(&list).unwrap() + "\n"), HOW);
    }
}

#[test]
fn prompt_matches_the_golden_file() {
    let text = prompt::render(tools().iter(), &HashMap::new());
    same_as_file("tests/fixtures/definitions/prompt.md", &text, HOW);
}
