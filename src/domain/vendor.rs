//! Whose model speaks.

use serde::{Deserialize, Serialize};

/// A vendor's shape of messages and of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Vendor {
    /// OpenAI's Chat Completions, and the many that speak like it.
    #[serde(rename = "openai", alias = "openai-strict")]
    OpenAi,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic's Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// Google's `generateContent`.
    #[serde(rename = "gemini")]
    Gemini,
}

impl Vendor {
    /// As `format` names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }
}
