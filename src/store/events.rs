//! Queries for events: of one call, or of all calls after a position.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::codec::{self, CallRow};
use super::{Store, StoreError, Stores};
use crate::domain::Call;
use crate::domain::event::{Event, EventKind, Reported, Stage};

/// A stored reported event: call, seq, position, kind, data.
type ReportedRow = (Uuid, i32, i64, String, String);

/// Maximum bytes of calls that are read together for their events. A larger commit is read on its own.
const MAX_BYTES: i64 = 4 * 1024 * 1024;

impl Stores {
    /// Returns the position of the newest event.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn last_pos(&self) -> Result<i64, StoreError> {
        let (pos,) = self.db.read("SELECT pos FROM event_clock").one().await?;
        Ok(pos)
    }
}

impl Store {
    /// Returns all events of one call so far, in order, or `None` if the call does not exist.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_of(&self, id: Uuid) -> Result<Option<Vec<Event>>, StoreError> {
        let Some(row) = self.call_row(id).await? else { return Ok(None) };
        let reported = self.reported(&[id]).await?;
        Ok(Some(events(row, reported)?))
    }

    /// Returns the tenant's events after position `after`, in order, from at most `commits` commits. Also returns the
    /// position up to which they are complete.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_after(&self, after: i64, commits: u32) -> Result<(Vec<Event>, i64), StoreError> {
        const SQL: &str = "SELECT last_pos, calls FROM commits WHERE last_pos > $1 ORDER BY last_pos LIMIT $2";
        let commits: Vec<(i64, Vec<u8>)> = self.db.read(SQL).bind(after).bind(i64::from(commits)).all().await?;
        let commits: Vec<(i64, Vec<Uuid>)> =
            commits.into_iter().map(|(until, calls)| (until, codec::split_ids(&calls))).collect();
        let fitting = self.fitting_calls(commits.iter().map(|(_, calls)| calls.clone())).await?;
        let commits = &commits[..fitting];
        let Some((until, _)) = commits.last() else { return Ok((Vec::new(), after)) };
        let until = *until;
        let mut ids: Vec<Uuid> = commits.iter().flat_map(|(_, calls)| calls).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found = self.events_of_calls(&ids).await?;
        found.retain(|event| event.pos > after && event.pos <= until);
        Ok((found, until))
    }

    /// Returns how many of these groups of calls, starting with the first, fit into memory together. The first group
    /// always counts.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn fitting_calls(&self, groups: impl ExactSizeIterator<Item = Vec<Uuid>>) -> Result<usize, StoreError> {
        if groups.len() < 2 {
            return Ok(groups.len());
        }
        let groups: Vec<Vec<Uuid>> = groups.collect();
        let ids: Vec<Uuid> = groups.iter().flatten().copied().collect();
        let sizes = self.db.read(
            "SELECT id, CAST(octet_length(record) + octet_length(arguments) AS BIGINT) FROM tool_calls WHERE id IN ",
        );
        let mut sizes: HashMap<Uuid, i64> = sizes.push_list(&ids).all().await?.into_iter().collect();
        let mut bytes = 0;
        let fits = |calls: &&Vec<Uuid>| {
            // Each call is counted once.
            bytes += calls.iter().filter_map(|id| sizes.remove(id)).sum::<i64>();
            bytes <= MAX_BYTES
        };
        Ok(groups.iter().take_while(fits).count().max(1))
    }

    /// Returns all events of these calls so far, in order.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn events_of_calls(&self, ids: &[Uuid]) -> Result<Vec<Event>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.rows_of(ids).await?;
        let own: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut reported: HashMap<Uuid, Vec<ReportedRow>> = HashMap::new();
        for event in self.reported(&own).await? {
            reported.entry(event.0).or_default().push(event);
        }
        let mut found = Vec::with_capacity(rows.len() * 5);
        for row in rows {
            let own = reported.remove(&row.id).unwrap_or_default();
            found.extend(events(row, own)?);
        }
        found.sort_unstable_by_key(|event| event.pos);
        Ok(found)
    }

    async fn reported(&self, ids: &[Uuid]) -> Result<Vec<ReportedRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = self.db.read("SELECT call_id, seq, pos, kind, data FROM call_events WHERE call_id IN ");
        query.push_list(ids).all().await
    }
}

/// Builds all events of a call: the status changes from its row, and the reported events.
fn events(row: CallRow, reported: Vec<ReportedRow>) -> Result<Vec<Event>, StoreError> {
    let (accepted, started, settled) = (row.accepted_pos, row.started_pos, row.settled_pos);
    let call: Arc<Call> = Arc::new(row.decode()?);
    let mut stages = vec![(accepted, Stage::Accepted), (accepted + 1, Stage::Waiting)];
    stages.extend(started.map(|pos| (pos, Stage::Started)));
    stages.extend(settled.into_iter().flat_map(|pos| [(pos, Stage::Settled), (pos + 1, Stage::Result)]));
    for (_, seq, pos, kind, data) in reported {
        let kinds = [EventKind::Progress, EventKind::HookError];
        let kind = kinds.into_iter().find(|known| kind == known.as_str()).unwrap_or(EventKind::Status);
        let seq = u32::try_from(seq).unwrap_or(0);
        stages.push((pos, Stage::Reported(Arc::new(Reported { seq, kind, data }))));
    }
    stages.sort_unstable_by_key(|(pos, _)| *pos);
    let numbered = (1..).zip(stages);
    Ok(numbered.map(|(seq, (pos, stage))| Event { pos, seq, call: call.clone(), stage }).collect())
}
