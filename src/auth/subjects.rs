//! How much the subjects of an issuer's tokens ask. A subject is one of its tenant, whatever token it shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::limits::{Bounds, Limits};
use crate::domain::Tenant;

/// Subjects whose counts are kept at least; beyond that those go that have asked nothing for long.
const FEW: usize = 10_000;
/// After so long without a request every count is as it was at first.
const OVER: Duration = Duration::from_secs(60);

/// The bounds of all subjects that have asked something.
#[derive(Debug)]
pub(super) struct Subjects {
    streams: usize,
    known: Mutex<SubjectTable>,
}

#[derive(Debug)]
struct SubjectTable {
    /// By what tells them apart. A subject may be long, and is not kept.
    subjects: HashMap<[u8; 32], (Arc<Limits>, Instant)>,
    /// How many there may be before it is looked which can go.
    look_at: usize,
}

impl Subjects {
    /// Each of them may read so many event streams; 0 is no bound.
    pub fn new(streams: usize) -> Self {
        Self { streams, known: Mutex::new(SubjectTable { subjects: HashMap::new(), look_at: FEW }) }
    }

    /// Those of a subject. A token that says other bounds than another one of the same subject has counts of its own: so
    /// nobody starts anew by showing them in turns.
    pub fn of(&self, tenant: &Tenant, subject: &str, bounds: Bounds) -> Arc<Limits> {
        let mut hash = Sha256::new();
        hash.update(bounds.0.to_le_bytes());
        hash.update(bounds.1.to_le_bytes());
        // No name of a tenant has U+0000.
        hash.update(tenant.as_str());
        hash.update([0]);
        hash.update(subject);
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.subjects.len() >= known.look_at {
            known.subjects.retain(|_, (limits, at)| limits.is_in_use() || now.duration_since(*at) < OVER);
            known.look_at = FEW.max(2 * known.subjects.len());
        }
        let fresh = || (Arc::new(Limits::new(bounds, self.streams)), now);
        let (limits, at) = known.subjects.entry(hash.finalize().into()).or_insert_with(fresh);
        *at = now;
        limits.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_subject_is_counted_in_its_tenant_and_forgotten_when_that_changes_nothing() {
        let subjects = Subjects::new(0);
        let (one, other) = (Tenant::stored("one"), Tenant::stored("other"));
        let mine = subjects.of(&one, "me", (1, 0));
        assert!(mine.admit().is_ok());
        assert!(subjects.of(&one, "me", (1, 0)).admit().is_err());
        assert!(subjects.of(&one, "you", (1, 0)).admit().is_ok());
        assert!(subjects.of(&other, "me", (1, 0)).admit().is_ok());
        assert!(subjects.of(&one, "me", (2, 0)).admit().is_ok(), "its token says so");
        for n in 0..FEW {
            subjects.of(&one, &n.to_string(), (1, 0));
        }
        assert!(subjects.of(&one, "me", (1, 0)).admit().is_err(), "it asked just now");
        tokio::time::advance(OVER).await;
        for n in 0..=2 * FEW {
            subjects.of(&other, &n.to_string(), (1, 0));
        }
        let known = subjects.known.lock().unwrap();
        assert!(known.subjects.len() <= 2 * FEW + 2, "{}", known.subjects.len());
        drop(known);
        assert!(Arc::ptr_eq(&subjects.of(&one, "me", (1, 0)), &mine), "somebody holds it");
    }
}
