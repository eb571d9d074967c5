//! The memory held by the calls of one request.

use std::sync::Arc;

use super::call::state::Planned;
use super::memory_budget::{self, Footprint, MemoryPermit};
use crate::domain::call::Counted;

/// Releases memory that is not needed after planning, and attaches the rest to all copies of the calls of a large
/// request. `texts` is the memory of arguments that were parsed from text.
pub(super) fn hold(jobs: &mut [Planned], request: Footprint, texts: Option<MemoryPermit>) -> Option<Holding> {
    let is_large = request.is_large() || texts.is_some();
    let has_copies = || jobs.iter().any(|job| job.has_copies());
    let least = (request.is_large() && !request.is_kept && !has_copies()).then(|| request.least_kib_with(jobs.len()));
    let mut held = request.held;
    if let Some(least) = least {
        memory_budget::shrink(&mut held, least);
    }
    if let (Some(held), Some(texts)) = (&mut held, texts) {
        held.merge(texts);
    }
    if !is_large {
        return held.map(Holding::OfSmall);
    }
    let held = Arc::new(held?);
    jobs.iter_mut().for_each(|job| job.ongoing.call.keep_counted(Counted(Some(held.clone()))));
    Some(Holding::OfLarge(held))
}

/// The memory of a request. The memory of a large request is shared with its calls.
pub(super) enum Holding {
    OfSmall(MemoryPermit),
    OfLarge(Arc<MemoryPermit>),
}

impl Holding {
    pub fn shared(self) -> Arc<MemoryPermit> {
        match self {
            Self::OfSmall(held) => Arc::new(held),
            Self::OfLarge(held) => held,
        }
    }
}
