//! Restoration of arguments that a model wrote for a vendor's lowered schema to the tool's own schema.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::Vendor;
use crate::registry::Entry;
use crate::schema::lower::{Lowered, Target};

/// Returns the lowerings that a vendor's models may have seen, the strictest first. The request does not name the
/// lowering.
fn targets(vendor: Vendor) -> &'static [Target] {
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiResponses => &[Target::OpenAiStrict, Target::OpenAi],
        Vendor::Anthropic => &[Target::Anthropic],
        Vendor::Gemini => &[Target::Gemini],
    }
}

/// Returns the possible meanings of the arguments, the most likely first. Empty if no lowering changes the schema.
///
/// A restored form is tried before the arguments themselves, even if those are valid: an open object accepts almost any
/// property, including a property that has a different name in a vendor's schema.
pub(super) fn candidates(entry: &Entry, arguments: &Arc<Value>, vendor: Option<Vendor>) -> Vec<Arc<Value>> {
    let Some(vendor) = vendor else { return Vec::new() };
    let is_valid = entry.input.is_valid(arguments);
    let lowered = targets(vendor).iter().filter_map(|target| Some((*target, entry.lowered(*target).ok()?)));
    let ways = lowered.filter(|(_, lowered)| !lowered.restorer.is_identity());
    let likely = ways.filter(|(target, lowered)| !is_valid || may_have_been_shown(*target, lowered, arguments));
    let mut candidates: Vec<Arc<Value>> =
        likely.filter_map(|(_, lowered)| lowered.restorer.apply(arguments)).map(Arc::new).collect();
    if is_valid {
        candidates.retain(|arguments| entry.input.is_valid(arguments));
    } else {
        candidates.sort_by_key(|arguments| !entry.input.is_valid(arguments));
    }
    candidates
}

/// Returns `true` if the arguments may have been written for this lowering. In strict mode a model writes every
/// property; the other vendors have one lowering each.
fn may_have_been_shown(target: Target, lowered: &Lowered, arguments: &Value) -> bool {
    match target {
        Target::OpenAi => false,
        Target::Anthropic | Target::Gemini => true,
        Target::OpenAiStrict => {
            let required = lowered.schema.get("required").and_then(Value::as_array);
            let mut names = required.into_iter().flatten().filter_map(Value::as_str);
            names.all(|name| arguments.get(name).is_some())
        }
    }
}
