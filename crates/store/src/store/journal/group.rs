//! The changes that share one commit.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Change, Entry};

/// Maximum number of units in one commit.
pub(super) const MAX_GROUP: usize = 512;
/// Maximum bytes of records, arguments and reports before a commit is full. The databases hold several copies of each
/// during a commit.
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Maximum scheduler turns that a commit waits for as many changes as the previous commit had.
const MAX_YIELDS: usize = 32;

/// Returns the number of entries that fit into one commit. Idempotency keys and claims of workers are not in one commit: on PostgreSQL,
/// each of them has a function of its own.
pub(super) fn count_fitting(group: &[Entry]) -> usize {
    let (mut bytes, mut has_keys, mut has_workers) = (0, false, false);
    let fits = |entry: &&Entry| {
        let before = bytes;
        let changes = entry.unit.changes();
        bytes += changes.iter().map(Change::size).sum::<usize>();
        has_keys |= changes.iter().any(|change| !change.claims.is_empty());
        has_workers |= changes.iter().any(|change| change.worker_claim.is_some());
        before < MAX_GROUP_BYTES && !(has_keys && has_workers)
    };
    group.iter().take_while(fits).count()
}

/// Waits a few scheduler turns for the usual number of changes. Callers that were just notified are about to send their
/// next changes. Without this wait, a single leftover change would be committed alone while they gather behind it, and
/// so on, which doubles the number of commits. If no task sends changes, the turns end immediately.
pub(super) async fn fill_group(group: &mut Vec<Entry>, entries: &mut mpsc::Receiver<Entry>, expected: usize) {
    for _ in 0..MAX_YIELDS {
        if group.len() >= expected.min(MAX_GROUP) {
            return;
        }
        tokio::task::yield_now().await;
        while group.len() < MAX_GROUP
            && let Ok(entry) = entries.try_recv()
        {
            group.push(entry);
        }
    }
}

/// Waits until the group has `expected` changes, but not longer than `wait`. A slow commit is worth it: a change that
/// misses it waits for a whole further one.
pub(super) async fn gather(
    group: &mut Vec<Entry>,
    entries: &mut mpsc::Receiver<Entry>,
    expected: usize,
    wait: Duration,
) {
    let end = Instant::now() + wait;
    while group.len() < expected.min(MAX_GROUP)
        && let Ok(Some(entry)) = tokio::time::timeout_at(end, entries.recv()).await
    {
        group.push(entry);
    }
}
