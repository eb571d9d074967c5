//! Cancellation of all unfinished calls that match a filter.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::Engine;
use crate::access::Access;
use toolpost_store::store::StoreError;
use toolpost_store::store::calls::PendingFilter;

/// Number of calls read and cancelled at a time.
const PAGE: u32 = 256;
/// Maximum time to wait for the ends of the calls, so that the next request usually shows them.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks of the calls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The conditions for calls to cancel. A call must match all that are given.
#[derive(Debug, Clone, Default)]
pub struct CancelFilter {
    /// The session of the calls.
    pub session: Option<String>,
    /// The batch of the calls.
    pub batch_id: Option<Uuid>,
    /// The tool of the calls.
    pub name: Option<String>,
    /// The ids of the calls.
    pub ids: Option<Vec<Uuid>>,
}

impl Engine {
    /// Cancels the unfinished calls that match and that the caller may reach, on every node. Returns their number.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. Some calls may be cancelled already; a repetition cancels the
    /// rest.
    pub async fn cancel_matching(&self, access: &Access, filter: &CancelFilter) -> Result<u64, StoreError> {
        let CancelFilter { session, batch_id, name, ids } = filter;
        let mut cancelled = self.cancel_unrecorded(access, filter);
        let (session, name) = (session.clone(), name.clone());
        let base = PendingFilter { session, batch_id: *batch_id, name, limit: PAGE, ..PendingFilter::default() };
        match ids {
            None => cancelled.extend(self.cancel_pages(access, base).await?),
            Some(ids) => {
                for ids in ids.chunks(PAGE as usize) {
                    let filter = PendingFilter { ids: Some(ids.to_vec()), ..base.clone() };
                    cancelled.extend(self.cancel_pages(access, filter).await?);
                }
            }
        }
        let count = cancelled.len() as u64;
        self.wait_ended(access, cancelled.into_iter().collect()).await?;
        Ok(count)
    }

    /// Waits until these calls have ended, but not for long: a tool may take its time to stop.
    async fn wait_ended(&self, access: &Access, mut left: Vec<Uuid>) -> Result<(), StoreError> {
        let until = Instant::now() + SETTLE_TIMEOUT;
        while let Some(first) = left.len().checked_sub(PAGE as usize).or(Some(0)).filter(|_| !left.is_empty()) {
            let filter = PendingFilter { ids: Some(left.split_off(first)), limit: PAGE, ..PendingFilter::default() };
            let pending = access.store().pending_calls(&filter).await?;
            let is_late = Instant::now() >= until;
            if is_late {
                break;
            }
            if !pending.is_empty() {
                left.extend(pending.into_iter().map(|(id, _)| id));
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Cancels the matching calls of the database, page by page. Returns their ids.
    async fn cancel_pages(&self, access: &Access, mut filter: PendingFilter) -> Result<Vec<Uuid>, StoreError> {
        let mut cancelled = Vec::new();
        loop {
            let page = access.store().pending_calls(&filter).await?;
            let Some((last, _)) = page.last() else { return Ok(cancelled) };
            filter.after = *last;
            let allowed = |tool: &str| access.allowed().is_none_or(|allowed| allowed.has(tool));
            let ids: Vec<Uuid> = page.iter().filter(|(_, tool)| allowed(tool)).map(|(id, _)| *id).collect();
            if !ids.is_empty() {
                self.control().cancel_each(&ids).await?;
            }
            cancelled.extend(ids);
            if page.len() < PAGE as usize {
                return Ok(cancelled);
            }
        }
    }

    /// Cancels the calls of the filter's session that run on this node and may not be recorded yet. Returns their ids.
    fn cancel_unrecorded(&self, access: &Access, filter: &CancelFilter) -> HashSet<Uuid> {
        let CancelFilter { session, batch_id, name, ids } = filter;
        // Calls whose batch or id a client knows are recorded, or about to be.
        let (Some(session), None, None) = (session, batch_id, ids) else { return HashSet::new() };
        let key = (access.tenant().clone(), session.as_str().into());
        let matching = self.sessions.with_ids_of(&key).into_iter().filter(|(_, call)| {
            name.as_deref().is_none_or(|name| *call.tool == *name)
                && access.allowed().is_none_or(|allowed| allowed.has(&call.tool))
        });
        let cancelled = matching.map(|(id, call)| {
            call.cancel.cancel();
            id
        });
        cancelled.collect()
    }
}
