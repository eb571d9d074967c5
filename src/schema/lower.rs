//! Lowering: a schema in the subset that a vendor takes, with what was lost, and the way back for the arguments.
//!
//! What is valid for a lowered schema is, after the way back, valid for the original, wherever the subset can say it: in
//! doubt it is narrower. What it cannot say goes into the description and is a named [`Loss`].

use serde::Serialize;
use serde_json::Value;

use document::Document;
use lowering::{LowerError, Lowering, UNROLLED};
use restore::Restore;

mod conjunction;
mod describe;
mod document;
mod exclusive;
mod fold;
mod full;
mod kinds;
mod limits;
mod lowering;
mod merge;
mod names;
mod null;
mod restore;
mod shape;
mod subset;
#[cfg(test)]
mod tests;
mod valid;

pub use restore::Restorer;

/// Whose subset of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Function tools of OpenAI's Chat and Responses APIs.
    OpenAi,
    /// The same with `strict: true`.
    OpenAiStrict,
    /// `input_schema` of Anthropic's Messages API.
    Anthropic,
    /// `parameters` of a Gemini `FunctionDeclaration`.
    Gemini,
}

/// Something that a vendor's subset cannot say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Loss {
    /// The subschema that it concerns (RFC 6901, in the original).
    pub pointer: String,
    /// The keyword of the original that could not be kept.
    pub keyword: String,
    /// What is different for the model.
    pub message: String,
    /// Whether the model may now be led to arguments that the original refuses; else it only has fewer possibilities.
    pub widens: bool,
}

/// Why a schema cannot be lowered at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Unlowerable {
    /// RFC 6901, in the original schema.
    pub pointer: String,
    /// What is in the way.
    pub message: String,
}

/// A schema in a vendor's subset.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// For the vendor.
    pub schema: Value,
    /// What it does not say any more.
    pub losses: Vec<Loss>,
    /// For arguments that are not valid for the original as they are.
    pub restorer: Restorer,
}

/// Puts an input schema that [`compile`](super::compile) takes into the subset of a vendor. The same schema always gives
/// the same answer.
///
/// # Errors
/// A schema that the subset has no room for, or that no arguments satisfy.
pub fn lower(schema: &Value, target: Target) -> Result<Lowered, Unlowerable> {
    // An unknown draft was refused when the schema was compiled.
    let draft = super::drafts::of(schema).unwrap_or(jsonschema::Draft::Draft202012);
    // A reference that leads to nothing was refused then, too.
    let local = super::references::localize(schema, draft).ok().flatten();
    let document = Document::new(local.as_ref().map_or(schema, |local| &local.schema), draft);
    let attempts = if target == Target::Gemini { &UNROLLED[..] } else { &UNROLLED[..1] };
    for unrolled in attempts {
        match Lowering::new(&document, target, *unrolled).run() {
            Ok(lowered) => return Ok(lowered),
            Err(LowerError::Cannot(reason)) => return Err(reason),
            Err(LowerError::TooLarge { recursive: true }) => {}
            Err(LowerError::TooLarge { recursive: false }) => break,
        }
    }
    let message = "the schema grows too large or too deep once its references are written out: use fewer or smaller \
                   shared definitions";
    Err(Unlowerable { pointer: String::new(), message: message.to_owned() })
}
