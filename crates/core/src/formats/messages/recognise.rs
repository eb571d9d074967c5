//! Detection of the vendor of a message by its structure.

use serde_json::{Map, Value};

use super::gemini::{FINISH_REASON, FUNCTION_CALL, RESPONSE_MEMBERS};
use super::members::{has, type_of};
use crate::domain::Vendor;

/// Returns the vendor of a message; `None` for the native format and unknown formats.
#[must_use]
pub fn recognise(body: &Value) -> Option<Vendor> {
    match body {
        Value::Array(items) => of_items(items),
        Value::Object(body) => of_object(body),
        _ => None,
    }
}

/// Returns `true` if the body is a call or a batch in the native format.
#[must_use]
pub fn is_own(body: &Map<String, Value>) -> bool {
    // Fast path: most bodies are a single call.
    let is_plain = body.len() <= 3 && body.keys().all(|name| matches!(name.as_str(), "name" | "arguments" | "id"));
    is_plain && !body.is_empty() && body.keys().any(|name| name == "name")
        || body.contains_key("calls")
        || body.contains_key("name")
            // A message may have the name of its author, and an item or a block that of its tool.
            && !has(body, &["type", "role", "tool_calls", "function_call", "functionCall", "choices", "candidates"])
}

fn of_object(body: &Map<String, Value>) -> Option<Vendor> {
    if is_own(body) {
        return None;
    }
    let is_array = |name: &str| body.get(name).is_some_and(Value::is_array);
    let is_object = |name: &str| body.get(name).is_some_and(Value::is_object);
    if is_array("choices") || is_array("tool_calls") || body.get("message").is_some_and(is_message) {
        return Some(Vendor::OpenAi);
    }
    if is_array("output") {
        return Some(Vendor::OpenAiResponses);
    }
    let of_gemini = [&FINISH_REASON[..1], &RESPONSE_MEMBERS[..]].iter().any(|of| has(body, of));
    if is_array("candidates") || is_array("parts") || is_object("functionCall") || is_object("content") || of_gemini {
        return Some(Vendor::Gemini);
    }
    if let Some(vendor) = of_type(body) {
        return Some(vendor);
    }
    if let Some(call) = body.get(FUNCTION_CALL[1]).and_then(Value::as_object) {
        let is_message =
            has(body, &["role", "content"]) || !call.contains_key("args") && call.contains_key("arguments");
        return Some(if is_message { Vendor::OpenAi } else { Vendor::Gemini });
    }
    match body.get("content") {
        Some(Value::Array(_)) => Some(Vendor::Anthropic),
        _ if body.get("role").is_some_and(|role| role == "assistant") => Some(Vendor::OpenAi),
        _ if body.get("role").is_some_and(|role| role == "model") => Some(Vendor::Gemini),
        _ => None,
    }
}

/// Detects the vendor of bare items, blocks, parts or calls by the first unambiguous one.
fn of_items(items: &[Value]) -> Option<Vendor> {
    let objects = || items.iter().filter_map(Value::as_object);
    let certain = objects().find_map(|item| match type_of(item) {
        "function_call" | "custom_tool_call" | "reasoning" | "message" => Some(Vendor::OpenAiResponses),
        "tool_use" | "thinking" | "redacted_thinking" | "text" => Some(Vendor::Anthropic),
        _ if FUNCTION_CALL.iter().any(|name| item.contains_key(*name)) => Some(Vendor::Gemini),
        _ => of_type(item),
    });
    certain.or_else(|| {
        let is_of_gemini = |item: &Map<String, Value>| {
            item.get("text").is_some_and(Value::is_string) || has(item, &["candidates", "parts", "content"])
        };
        objects().any(is_of_gemini).then_some(Vendor::Gemini)
    })
}

/// Detects the vendor by the `type` of an item, block, call or message.
fn of_type(body: &Map<String, Value>) -> Option<Vendor> {
    match type_of(body) {
        "function" if has(body, &["function"]) => Some(Vendor::OpenAi),
        "custom" if has(body, &["custom"]) => Some(Vendor::OpenAi),
        "message" => {
            let first = body.get("content").and_then(|content| content.get(0)).and_then(Value::as_object);
            let is_item = first.is_some_and(|first| ["output_text", "refusal"].contains(&type_of(first)));
            Some(if is_item { Vendor::OpenAiResponses } else { Vendor::Anthropic })
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" | "mcp_tool_result" => Some(Vendor::Anthropic),
        "text" | "thinking" | "redacted_thinking" => Some(Vendor::Anthropic),
        kind if kind.ends_with("_tool_result") => Some(Vendor::Anthropic),
        "reasoning" | "mcp_list_tools" | "mcp_approval_request" | "compaction" => Some(Vendor::OpenAiResponses),
        kind if kind.ends_with("_call") || kind.ends_with("_call_output") => Some(Vendor::OpenAiResponses),
        _ => None,
    }
}

/// Returns `true` if the value is the message of a choice.
fn is_message(message: &Value) -> bool {
    message.as_object().is_some_and(|message| has(message, &["role", "content", "tool_calls", "function_call"]))
}
