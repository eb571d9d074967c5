//! Names of tools: the naming schemes that callers see, and globs over names.

use std::sync::Arc;

use globset::Glob;
use serde::{Deserialize, Serialize};

/// The naming scheme of listed tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// The tool's own name.
    #[default]
    Own,
    /// Names that models of this vendor accept.
    Vendor(Vendor),
    /// Names that clients of the Model Context Protocol can pass to any vendor.
    Mcp,
}

impl From<Option<Vendor>> for Naming {
    fn from(vendor: Option<Vendor>) -> Self {
        vendor.map_or(Self::Own, Self::Vendor)
    }
}

/// The form of schemas in lists over MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpLowering {
    /// As all known clients take them.
    #[default]
    Portable,
    /// As they are.
    Exact,
}

/// The replacement for each dot of a tool name in lists over MCP: 1 to 8 letters, digits, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NameSeparator(Arc<str>);

impl NameSeparator {
    /// The separator as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for NameSeparator {
    fn default() -> Self {
        Self("__".into())
    }
}

impl From<NameSeparator> for String {
    fn from(separator: NameSeparator) -> Self {
        separator.as_str().to_owned()
    }
}

impl TryFrom<String> for NameSeparator {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=8).contains(&text.len()) && text.bytes().all(is_plain) {
            return Ok(Self(text.into()));
        }
        Err(format!("a name separator must match ^[A-Za-z0-9_-]{{1,8}}$, got {text:?}"))
    }
}

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

/// Maximum length of a glob, in characters.
const MAX_CHARS: usize = 256;

/// Parses a glob. A character that no tool name contains is rejected, because the glob would never match.
///
/// # Errors
/// Returns the reason if the glob is invalid.
pub fn glob(text: &str) -> Result<Glob, String> {
    if !(1..=MAX_CHARS).contains(&text.chars().count()) {
        return Err(format!("a glob must have 1 to {MAX_CHARS} characters"));
    }
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_.-*?[]!^{},".contains(letter);
    if let Some(other) = text.chars().find(|letter| !is_known(*letter)) {
        return Err(format!("is not a valid glob: tool names cannot contain {other:?}"));
    }
    Glob::new(text).map_err(|error| format!("is not a valid glob: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separator_is_legal_in_names() {
        for legal in ["_", "__", "-", "_via-1_", "12345678"] {
            assert_eq!(NameSeparator::try_from(legal.to_owned()).unwrap().as_str(), legal);
        }
        for illegal in ["", ".", "a b", "é", "123456789"] {
            assert!(NameSeparator::try_from(illegal.to_owned()).is_err(), "{illegal}");
        }
    }

    #[test]
    fn glob_accepts_only_characters_of_names() {
        for good in ["*", "mail_*", "a?c", "[a-z]x", "[!a]", "{mail,post}.*", "get-weather"] {
            assert!(glob(good).is_ok(), "{good}");
        }
        for bad in ["", "mail *", "a\\*", "[", "ä", &"a".repeat(257)] {
            assert!(glob(bad).is_err(), "{bad}");
        }
    }
}
