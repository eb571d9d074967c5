//! Arguments that a model wrote for the schema that its vendor was shown, back in the tool's own.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::Vendor;
use crate::registry::Entry;
use crate::schema::lower::Target;

/// What a vendor's models may have been shown, the narrower first: which of them it was is not told.
fn targets(vendor: Vendor) -> &'static [Target] {
    match vendor {
        Vendor::OpenAi | Vendor::OpenAiResponses => &[Target::OpenAiStrict, Target::OpenAi],
        Vendor::Anthropic => &[Target::Anthropic],
        Vendor::Gemini => &[Target::Gemini],
    }
}

/// What the arguments may have meant to be, those that are valid first. Nothing, where they are valid as they are or there
/// is no way back.
pub(super) fn meant(entry: &Entry, arguments: &Value, vendor: Option<Vendor>) -> Vec<Arc<Value>> {
    let Some(vendor) = vendor.filter(|_| !entry.input.is_valid(arguments)) else { return Vec::new() };
    let lowered = targets(vendor).iter().filter_map(|target| entry.lowered(*target).ok());
    let ways = lowered.map(|lowered| &lowered.way_back).filter(|way| !way.is_identity());
    let mut meant: Vec<Arc<Value>> = ways.filter_map(|way| way.apply(arguments)).map(Arc::new).collect();
    meant.sort_by_key(|arguments| !entry.input.is_valid(arguments));
    meant
}
