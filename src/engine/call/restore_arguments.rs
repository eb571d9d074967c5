//! Arguments that a model wrote for the schema that its vendor was shown, back in the tool's own.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::Vendor;
use crate::registry::Entry;
use crate::schema::lower::{Lowered, Target};

/// What a vendor's models may have been shown, the narrower first: which of them it was is not told.
fn targets(vendor: Vendor) -> &'static [Target] {
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiResponses => &[Target::OpenAiStrict, Target::OpenAi],
        Vendor::Anthropic => &[Target::Anthropic],
        Vendor::Gemini => &[Target::Gemini],
    }
}

/// What the arguments may have meant to be, the likeliest first. Nothing, where there is no way back.
///
/// A way back is taken before the arguments are as they are, even if they are valid: an object that is open takes almost
/// anything, also what has another name in a vendor's schema.
pub(super) fn meant(entry: &Entry, arguments: &Arc<Value>, vendor: Option<Vendor>) -> Vec<Arc<Value>> {
    let Some(vendor) = vendor else { return Vec::new() };
    let is_valid = entry.input.is_valid(arguments);
    let lowered = targets(vendor).iter().filter_map(|target| Some((*target, entry.lowered(*target).ok()?)));
    let ways = lowered.filter(|(_, lowered)| !lowered.restorer.is_identity());
    let likely = ways.filter(|(target, lowered)| !is_valid || may_have_been_shown(*target, lowered, arguments));
    let mut meant: Vec<Arc<Value>> =
        likely.filter_map(|(_, lowered)| lowered.restorer.apply(arguments)).map(Arc::new).collect();
    if is_valid {
        meant.retain(|arguments| entry.input.is_valid(arguments));
    } else {
        meant.sort_by_key(|arguments| !entry.input.is_valid(arguments));
    }
    meant
}

/// Whether a model wrote these for this schema. In strict mode it writes every property of it; of other lowerings each
/// vendor has one.
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
