//! Tools that send messages to their client while they run: log messages and, before 2026-07-28, questions.
#![expect(deprecated, reason = "sampling and logging are of the revisions before 2026-07-28")]

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult, ContentBlock as Block,
    CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, LoggingLevel, LoggingMessageNotificationParam,
    ServerRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::resources::read;
use super::rounds::{ask, elicitation};
use crate::support::LIMIT;

type Answer = Result<CallToolResponse, ErrorData>;

/// Delay between two messages, as the suite requires.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the answer of a tool that queries its client, or `None` for any other tool.
pub async fn call(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Option<Answer> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)?.as_str()).unwrap_or_default()
    };
    Some(match &*request.name {
        "test_tool_with_logging" => log(context).await,
        "test_logging_tool" => match context.meta.log_level() {
            Some(_) => log(context).await,
            None => text_answer("Nobody asked for log messages."),
        },
        "test_missing_capability" => match context.client_capabilities() {
            Some(client) if client.sampling.is_some() => text_answer("The client can sample."),
            _ => Err(ErrorData::missing_required_client_capability(
                ClientCapabilities::builder().enable_sampling().build(),
            )),
        },
        "test_streaming_elicitation" => {
            let question = elicitation("What is your name?", "name", "string");
            match &request.input_responses {
                Some(_) => text_answer("Answered."),
                None => ask([("user_name", question)], None).map(CallToolResponse::from),
            }
        }
        "test_sampling" => sample(argument("prompt"), context).await,
        "test_elicitation" => {
            let field = |about: &str| json!({"type": "string", "description": about});
            let properties = json!({"username": field("User's response"), "email": field("User's email address")});
            let schema = json!({"type": "object", "properties": properties, "required": ["username", "email"]});
            elicit("User response", argument("message"), schema, context).await
        }
        "test_elicitation_sep1034_defaults" => {
            elicit("Elicitation completed", "Please review the fields", defaults(), context).await
        }
        "test_elicitation_sep1330_enums" => {
            elicit("Elicitation completed", "Please select options", enums(), context).await
        }
        _ => return None,
    })
}

fn text_answer(text: impl Into<String>) -> Answer {
    Ok(CallToolResult::success(vec![Block::text(text)]).into())
}

fn failed(text: impl Into<String>) -> Answer {
    Ok(CallToolResult::error(vec![Block::text(text)]).into())
}

async fn log(context: &RequestContext<RoleServer>) -> Answer {
    for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
        // The client may be disconnected.
        let _ = context.peer.notify_logging_message(message).await;
        tokio::time::sleep(PAUSE).await;
    }
    text_answer("Three messages were logged.")
}

/// Requests a completion from the client's model.
async fn sample(prompt: &str, context: &RequestContext<RoleServer>) -> Answer {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    let params: CreateMessageRequestParams = read(json!({"messages": [message], "maxTokens": 100}))?;
    match tokio::time::timeout(LIMIT, context.peer.create_message(params)).await {
        Ok(Ok(answer)) => {
            let answer = serde_json::to_value(answer).unwrap_or_default();
            let content = &answer["content"];
            let text = content.get(0).unwrap_or(content)["text"].as_str().unwrap_or("No response");
            text_answer(format!("LLM response: {text}"))
        }
        Ok(Err(error)) => failed(format!("Sampling error: {error}")),
        Err(_) => failed("Sampling error: no answer in time"),
    }
}

/// Requests input from the client's user.
async fn elicit(what: &str, message: &str, schema: Value, context: &RequestContext<RoleServer>) -> Answer {
    let params: ElicitRequestParams = read(json!({"mode": "form", "message": message, "requestedSchema": schema}))?;
    let request = context.peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(params)));
    match tokio::time::timeout(LIMIT, request).await {
        Ok(Ok(ClientResult::ElicitResult(answer))) => {
            let answer = serde_json::to_value(answer).unwrap_or_default();
            let (action, content) = (answer["action"].as_str().unwrap_or_default(), answer.get("content"));
            text_answer(format!("{what}: action={action}, content={}", content.unwrap_or(&json!({}))))
        }
        Ok(Ok(_)) => failed("Elicitation error: the client answered something else"),
        Ok(Err(error)) => failed(format!("Elicitation error: {error}")),
        Err(_) => failed("Elicitation error: no answer in time"),
    }
}

/// Returns a schema with defaults of every primitive type (SEP-1034).
fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {"type": "string", "description": "User status", "enum": ["active", "inactive", "pending"],
            "default": "active"},
        "verified": {"type": "boolean", "description": "Verification status", "default": true},
    }, "required": []})
}

/// Returns a schema with every form of an enumeration (SEP-1330).
fn enums() -> Value {
    let titled = |title: &str| {
        json!([{"const": "value1", "title": format!("First {title}")},
            {"const": "value2", "title": format!("Second {title}")},
            {"const": "value3", "title": format!("Third {title}")}])
    };
    let options = ["option1", "option2", "option3"];
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": titled("Choice")}},
    }, "required": []})
}
