//! The bodies of `POST /tool-calls` as the OpenAPI document shows them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::options::{CallOptions, Options};

/// One call.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct CallItem {
    /// The tool.
    name: String,
    /// The caller's own id, up to 512 characters.
    #[schema(max_length = 512)]
    id: Option<String>,
    /// An object, or the JSON text that the model wrote. Absent, blank or `null` is `{}`.
    #[schema(value_type = Option<Value>)]
    arguments: Option<Value>,
}

/// One call of a batch.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct BatchItem {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: CallOptions,
}

/// One call with its options.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct SingleCall {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: Options,
}

/// A batch with its options.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct BatchOfCalls {
    /// The calls; no id twice. The operator bounds how many there may be (`server.max_batch_calls`, 1024 by default).
    #[schema(min_items = 1)]
    calls: Vec<BatchItem>,
    #[serde(flatten)]
    options: Options,
}

/// OpenAI Chat: the whole answer, a choice of it, or its message. Any of the options of a batch may stand beside it.
#[derive(Debug, utoipa::ToSchema)]
#[schema(example = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_4XzlGB", "type": "function",
    "function": {"name": "echo", "arguments": "{\"city\":\"Paris\"}"}}]}))]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct OpenAiChatMessage {
    /// Of the whole answer; the first counts.
    #[schema(value_type = Option<Vec<Object>>)]
    choices: Option<Vec<Value>>,
    /// Of the message.
    #[schema(value_type = Option<Vec<Object>>)]
    tool_calls: Option<Vec<Value>>,
    /// Of an older message.
    #[schema(value_type = Option<Object>)]
    function_call: Option<Value>,
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// OpenAI Responses: the whole answer, or one item of it. `function_call` and `custom_tool_call` run. Any of the options of
/// a batch may stand beside it.
#[derive(Debug, utoipa::ToSchema)]
#[schema(example = json!({"id": "resp_1", "status": "completed", "output": [{"type": "function_call", "id": "fc_1",
    "call_id": "call_1", "name": "echo", "arguments": "{\"city\":\"Paris\"}"}]}))]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct OpenAiResponse {
    /// The items.
    #[schema(value_type = Option<Vec<Object>>)]
    output: Option<Vec<Value>>,
    /// Of one item.
    r#type: Option<String>,
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// Anthropic: the message. Its `tool_use` blocks run. Any of the options of a batch may stand beside it.
#[derive(Debug, utoipa::ToSchema)]
#[schema(example = json!({"role": "assistant", "stop_reason": "tool_use", "content": [{"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "toolu_01A09q", "name": "echo", "input": {"city": "Paris"}}]}))]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct AnthropicMessage {
    /// The blocks, or a text.
    content: Value,
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// Gemini: the whole answer, a candidate of it, its content, or one part. Its `functionCall`s run. Any of the options of a
/// batch may stand beside it.
#[derive(Debug, utoipa::ToSchema)]
#[schema(example = json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
    {"functionCall": {"name": "echo", "args": {"city": "Paris"}}}]}}]}))]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) struct GeminiAnswer {
    /// The first counts.
    #[schema(value_type = Option<Vec<Object>>)]
    candidates: Option<Vec<Value>>,
    /// Of a candidate.
    #[schema(value_type = Option<Object>)]
    content: Option<Value>,
    /// Of a content.
    #[schema(value_type = Option<Vec<Object>>)]
    parts: Option<Vec<Value>>,
    /// Of a part.
    #[schema(value_type = Option<Object>)]
    function_call: Option<Value>,
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// What stands in a model's message, without anything around it: items of OpenAI Responses, blocks of Anthropic, or parts of
/// Gemini.
#[derive(Debug, utoipa::ToSchema)]
#[schema(example = json!([{"type": "tool_use", "id": "toolu_01A09q", "name": "echo", "input": {}}]))]
#[expect(dead_code, reason = "only the document reads it")]
#[schema(as = PiecesOfMessage)]
pub(crate) struct MessageFragments(Vec<Map<String, Value>>);

/// The body of `POST /tool-calls`. Whose shape it has is told by its members, or by `format`.
#[derive(Debug, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the document reads it")]
pub(crate) enum CallBody {
    One(Box<SingleCall>),
    Batch(Box<BatchOfCalls>),
    OpenAi(OpenAiChatMessage),
    OpenAiResponses(OpenAiResponse),
    Anthropic(AnthropicMessage),
    Gemini(GeminiAnswer),
    Pieces(MessageFragments),
}
