//! Limits of the subjects of an issuer's tokens. A subject belongs to a tenant and may have several tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::limits::{Bounds, Limits};
use crate::domain::Tenant;

/// Number of subjects above which idle subjects are removed.
const SWEEP_ABOVE: usize = 10_000;
/// Time without requests after which all counts are back at their initial value.
const IDLE: Duration = Duration::from_secs(60);

/// The limits of all subjects that have sent a request.
#[derive(Debug)]
pub(super) struct Subjects {
    streams: usize,
    known: Mutex<SubjectTable>,
}

#[derive(Debug)]
struct SubjectTable {
    /// Keyed by a hash of tenant, subject and limits, because a subject can be long.
    subjects: HashMap<[u8; 32], (Arc<Limits>, Instant)>,
    /// The number of subjects at which idle subjects are removed next.
    sweep_at: usize,
}

impl Subjects {
    /// Creates an empty table, with this maximum number of event streams for each subject; 0 means unlimited.
    pub fn new(streams: usize) -> Self {
        Self { streams, known: Mutex::new(SubjectTable { subjects: HashMap::new(), sweep_at: SWEEP_ABOVE }) }
    }

    /// Returns the limits of a subject. Tokens of one subject with different limits are counted separately, so that
    /// alternating between them resets no count.
    pub fn of(&self, tenant: &Tenant, subject: &str, bounds: Bounds) -> Arc<Limits> {
        let mut hash = Sha256::new();
        hash.update(bounds.0.to_le_bytes());
        hash.update(bounds.1.to_le_bytes());
        // Names of tenants cannot contain U+0000.
        hash.update(tenant.as_str());
        hash.update([0]);
        hash.update(subject);
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.subjects.len() >= known.sweep_at {
            known.subjects.retain(|_, (limits, at)| limits.is_in_use() || now.duration_since(*at) < IDLE);
            known.sweep_at = SWEEP_ABOVE.max(2 * known.subjects.len());
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
    async fn subject_is_counted_per_tenant_and_removed_when_idle() {
        let subjects = Subjects::new(0);
        let (one, other) = (Tenant::stored("one"), Tenant::stored("other"));
        let mine = subjects.of(&one, "me", (1, 0));
        assert!(mine.admit().is_ok());
        assert!(subjects.of(&one, "me", (1, 0)).admit().is_err());
        assert!(subjects.of(&one, "you", (1, 0)).admit().is_ok());
        assert!(subjects.of(&other, "me", (1, 0)).admit().is_ok());
        assert!(subjects.of(&one, "me", (2, 0)).admit().is_ok(), "the token sets other limits");
        for n in 0..SWEEP_ABOVE {
            subjects.of(&one, &n.to_string(), (1, 0));
        }
        assert!(subjects.of(&one, "me", (1, 0)).admit().is_err(), "the subject has sent a request recently");
        tokio::time::advance(IDLE).await;
        for n in 0..=2 * SWEEP_ABOVE {
            subjects.of(&other, &n.to_string(), (1, 0));
        }
        let known = subjects.known.lock().unwrap();
        assert!(known.subjects.len() <= 2 * SWEEP_ABOVE + 2, "{}", known.subjects.len());
        drop(known);
        assert!(Arc::ptr_eq(&subjects.of(&one, "me", (1, 0)), &mine), "the limits are in use");
    }
}
