//! Naming schemes for the tools that callers see.

use std::sync::Arc;

use serde::Deserialize;

use super::Vendor;

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

/// The replacement for each dot of a tool name in lists over MCP: 1 to 8 letters, digits, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
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
}
