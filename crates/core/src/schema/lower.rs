//! Lowering: converts a schema to the subset that a vendor supports, lists the losses, and restores the arguments.
//!
//! Arguments that are valid for the lowered schema are, once restored, valid for the original, as far as the subset can
//! express it; in doubt, the lowered schema is narrower. All other constraints are in the description and are listed as
//! losses ([`Loss`]).

use serde::Serialize;
use serde_json::Value;

use lowering::{LowerError, Lowering, UNROLLED};
use restore::Restore;

use super::document::Document;

mod compare;
mod conjunction;
mod describe;
mod exclusive;
mod fold;
mod full;
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

/// A vendor's subset of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Function tools of OpenAI's Chat and Responses APIs.
    OpenAi,
    /// Function tools of OpenAI with `strict: true`.
    OpenAiStrict,
    /// `input_schema` of Anthropic's Messages API.
    Anthropic,
    /// `parameters` of a Gemini `FunctionDeclaration`.
    Gemini,
}

/// A part of a definition that the format cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Loss {
    /// JSON Pointer (RFC 6901) into the definition: `/input_schema/properties/n/default`.
    // In the result of lowering, it points into the schema.
    pub pointer: String,
    /// The affected JSON Schema keyword or member of the definition.
    pub keyword: String,
    /// Description of the loss.
    pub message: String,
    /// `true` if a model may now send arguments that the tool rejects.
    pub widens: bool,
}

/// The error for a schema that cannot be lowered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct Unlowerable {
    /// The location in the original schema, as an RFC 6901 pointer.
    pub pointer: String,
    /// The reason.
    pub message: String,
}

/// A schema in a vendor's subset, with its losses.
#[derive(Debug, Clone)]
pub struct LoweredSchema {
    /// The schema for the vendor.
    pub schema: Value,
    /// The constraints that the lowered schema no longer expresses.
    pub losses: Vec<Loss>,
    /// Converts arguments back to the original schema.
    pub restorer: Restorer,
}

/// Returns `true` if the schema has names of properties that a vendor rejects.
#[must_use]
pub(super) fn has_aliases(schema: &Value, target: Target) -> bool {
    !names::Aliases::of(schema, target).is_empty()
}

/// Converts an input schema that [`compile`](super::compile) accepts to the subset of a vendor. The result is
/// deterministic.
///
/// # Errors
/// Returns [`Unlowerable`] if the schema exceeds the limits of the subset, or if no arguments are valid.
pub fn lower(schema: &Value, target: Target) -> Result<LoweredSchema, Unlowerable> {
    // `compile` has rejected unknown drafts.
    let draft = super::drafts::read_draft(schema).unwrap_or(jsonschema::Draft::Draft202012);
    // `compile` has rejected references without a target.
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
    let message = "the schema becomes too large or too deep when its references are expanded: use fewer or smaller \
                   shared definitions";
    Err(Unlowerable { pointer: String::new(), message: message.to_owned() })
}
