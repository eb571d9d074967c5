//! The memory that the calls of one request hold.

use std::sync::Arc;

use super::call::state::Planned;
use super::memory_budget::{self, Footprint, MemoryPermit};
use crate::domain::call::Counted;

/// Gives back what turns out not to be needed, and has the rest counted for as long as there is any image of a large
/// request's calls. `texts` is what arguments take that came as texts.
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

/// What a request holds. That of a small one is nowhere else.
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
