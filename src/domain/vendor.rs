//! Vendors of models.

use serde::{Deserialize, Serialize};

/// A vendor's format of messages and streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Vendor {
    /// OpenAI Chat Completions, and compatible APIs.
    #[serde(rename = "openai", alias = "openai-strict")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// Google `generateContent`.
    #[serde(rename = "gemini")]
    Gemini,
}

impl Vendor {
    /// Returns the name of the `format`.
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
