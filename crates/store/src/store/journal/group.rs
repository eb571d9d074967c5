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

/// Brings new calls to the front, so that new and updated rows each have consecutive positions, and removes the entries of the next
/// commit, which it returns: what does not fit, and claims of workers if there are idempotency keys, because on PostgreSQL each of
/// them has a function of its own. Changes of one call keep their order: a claim is the last one that its call has queued.
pub(super) fn split_off_later(group: &mut Vec<Entry>) -> Vec<Entry> {
    let has_any = |has: fn(&Change) -> bool| group.iter().any(|entry| entry.unit.changes().iter().any(has));
    let is_mixed = has_any(|change| !change.claims.is_empty()) && has_any(Change::has_worker_claim);
    // Stable, and `false` comes first.
    group.sort_by_key(|entry| {
        let changes = entry.unit.changes();
        let is_later = is_mixed && changes.iter().any(Change::has_worker_claim);
        (is_later, !changes.iter().any(Change::brings_acceptance))
    });
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        let (before, changes) = (bytes, entry.unit.changes());
        bytes += changes.iter().map(Change::size).sum::<usize>();
        before < MAX_GROUP_BYTES && !(is_mixed && changes.iter().any(Change::has_worker_claim))
    };
    let fitting = group.iter().take_while(fits).count();
    group.split_off(fitting)
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
