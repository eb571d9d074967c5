//! Lowering: a schema in the subset that a vendor takes, with what was lost, and the way back for the arguments.

use serde::Serialize;
use serde_json::Value;

/// Whose subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// OpenAI's functions.
    OpenAi,
    /// The same with `strict`.
    OpenAiStrict,
    /// Anthropic's tools.
    Anthropic,
    /// Google's function declarations.
    Gemini,
}

/// Something that the lowered schema does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Loss {
    /// Where (RFC 6901), in the original schema.
    pub pointer: String,
    /// The keyword.
    pub keyword: String,
    /// What.
    pub message: String,
    /// Whether the lowered schema allows more.
    pub widens: bool,
}

/// Why a schema cannot be lowered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Unlowerable {
    /// Where (RFC 6901), in the original schema.
    pub pointer: String,
    /// Why.
    pub message: String,
}

/// A lowered schema.
#[derive(Debug)]
pub struct Lowered {
    /// The schema.
    pub schema: Value,
    /// What it does not say.
    pub losses: Vec<Loss>,
    /// From arguments for it to arguments for the original.
    pub way_back: WayBack,
}

/// From arguments for a lowered schema to arguments for the original.
#[derive(Debug)]
pub struct WayBack {}

/// Lowers a schema.
///
/// # Errors
/// If the target cannot say it.
pub fn lower(schema: &Value, _: Target) -> Result<Lowered, Unlowerable> {
    Ok(Lowered { schema: schema.clone(), losses: Vec::new(), way_back: WayBack {} })
}

impl WayBack {
    /// Whether there is nothing to change.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        true
    }

    /// The arguments for the original; `None`: nothing to change.
    #[must_use]
    pub fn apply(&self, _: &Value) -> Option<Value> {
        None
    }
}
