//! The schemas of the bodies of `POST /tool-calls` in the OpenAPI document.

use serde_json::Value;

use super::options::{CallOptions, Options};
use crate::domain::schemas::described_as;

/// The schemas of bodies without a Rust type, by name.
const SCHEMAS: &str = include_str!("documented.json");

fn schema(name: &str) -> Value {
    // Tests of the OpenAPI document fail if this is not valid JSON or a schema is missing.
    serde_json::from_str(SCHEMAS).map(|mut all: Value| all[name].take()).unwrap_or_default()
}

/// One call.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
pub(crate) struct CallItem {
    /// The name of the tool.
    #[schema(max_length = 512)]
    name: String,
    /// The id that the caller gives the call, up to 512 characters.
    #[schema(max_length = 512)]
    id: Option<String>,
    /// An object, or the JSON text that the model wrote. A missing, blank or `null` value is `{}`.
    #[schema(value_type = Option<Value>)]
    arguments: Option<Value>,
}

/// One call of a batch.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
pub(crate) struct BatchItem {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: CallOptions,
}

pub(crate) enum SingleCall {}
described_as!(SingleCall as "SingleCall", [CallItem, Options], schema("SingleCall"));

pub(crate) enum BatchOfCalls {}
described_as!(BatchOfCalls as "BatchOfCalls", [BatchItem, Options], schema("BatchOfCalls"));

pub(crate) enum OpenAiChatMessage {}
described_as!(OpenAiChatMessage as "OpenAiChatMessage", [OpenAiMessage, OpenAiToolCall], schema("OpenAiChatMessage"));

pub(crate) enum OpenAiMessage {}
described_as!(OpenAiMessage as "OpenAiMessage", [], schema("OpenAiMessage"));

pub(crate) enum OpenAiToolCall {}
described_as!(OpenAiToolCall as "OpenAiToolCall", [], schema("OpenAiToolCall"));

pub(crate) enum OpenAiResponse {}
described_as!(OpenAiResponse as "OpenAiResponse", [OpenAiResponseItem], schema("OpenAiResponse"));

pub(crate) enum OpenAiResponseItem {}
described_as!(OpenAiResponseItem as "OpenAiResponseItem", [], schema("OpenAiResponseItem"));

pub(crate) enum AnthropicMessage {}
described_as!(AnthropicMessage as "AnthropicMessage", [AnthropicBlock], schema("AnthropicMessage"));

pub(crate) enum AnthropicBlock {}
described_as!(AnthropicBlock as "AnthropicBlock", [], schema("AnthropicBlock"));

pub(crate) enum GeminiAnswer {}
described_as!(GeminiAnswer as "GeminiAnswer", [GeminiContent, GeminiPart, GeminiFunctionCall], schema("GeminiAnswer"));

pub(crate) enum GeminiContent {}
described_as!(GeminiContent as "GeminiContent", [], schema("GeminiContent"));

pub(crate) enum GeminiPart {}
described_as!(GeminiPart as "GeminiPart", [], schema("GeminiPart"));

pub(crate) enum GeminiFunctionCall {}
described_as!(GeminiFunctionCall as "GeminiFunctionCall", [], schema("GeminiFunctionCall"));

pub(crate) enum MessageFragments {}
described_as!(MessageFragments as "PiecesOfMessage", [GeminiFunctionCall], schema("PiecesOfMessage"));

/// The body of `POST /tool-calls`. Its members or `format` determine the format.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
pub(crate) enum CallBody {
    One(Box<SingleCall>),
    Batch(Box<BatchOfCalls>),
    OpenAi(OpenAiChatMessage),
    OpenAiResponses(OpenAiResponse),
    Anthropic(AnthropicMessage),
    Gemini(GeminiAnswer),
    Pieces(MessageFragments),
}
