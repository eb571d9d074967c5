//! The prompts of the suite.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, Prompt};
use serde_json::{Value, json};

use super::data::IMAGE;
use super::resources::read;
use super::rounds::{ask, elicitation};
use super::server::ConformanceServer;

impl ConformanceServer {
    pub fn prompts(&self) -> Result<ListPromptsResult, ErrorData> {
        let argument = |name: &str| json!({"name": name, "description": "An argument.", "required": true});
        let all = json!([
            {"name": "test_simple_prompt", "description": "Without arguments."},
            {"name": "test_prompt_with_arguments", "description": "With arguments.",
                "arguments": [argument("arg1"), argument("arg2")]},
            {"name": "test_prompt_with_embedded_resource", "description": "With a resource.",
                "arguments": [argument("resourceUri")]},
            {"name": "test_prompt_with_image", "description": "With an image."},
            {"name": "test_input_required_result_prompt", "description": "Asks before it answers."},
        ]);
        Ok(ListPromptsResult::with_all_items(read::<Vec<Prompt>>(all)?))
    }

    pub fn prompt(&self, request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        let contents = match request.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments" => {
                let (one, two) = (argument("arg1"), argument("arg2"));
                vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
            }
            "test_prompt_with_embedded_resource" => vec![
                json!({"type": "resource", "resource": {"uri": argument("resourceUri"), "mimeType": "text/plain",
                    "text": "Embedded resource content for testing."}}),
                text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => vec![
                json!({"type": "image", "data": IMAGE, "mimeType": "image/png"}),
                text("Please analyze the image above."),
            ],
            "test_input_required_result_prompt" => {
                let answers = request.input_responses.as_ref();
                let answer = answers.and_then(|answers| answers.get("user_context")?["content"]["context"].as_str());
                let Some(context) = answer else {
                    let question = elicitation("What context should the prompt use?", "context", "string");
                    return Ok(ask([("user_context", question)], None)?.into());
                };
                vec![text(&format!("Prompt with context: {context}"))]
            }
            name => return Err(ErrorData::invalid_params(format!("there is no prompt {name}"), None)),
        };
        let messages: Vec<Value> =
            contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
        Ok(read::<GetPromptResult>(json!({"messages": messages, "resultType": "complete"}))?.into())
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
