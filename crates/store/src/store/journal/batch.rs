//! The content of one commit: one image per row, the statistics, and the events in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Change, CommittedChange, CommittedEvents, Tally, WriteUnit};
use crate::store::callbacks::CallbackRow;
use crate::store::workers::Offer;
use toolpost_core::domain::event::Reported;
use toolpost_core::domain::{Call, KeyClaim, Tenant, Time};

/// Bytes of a row above which a connection shrinks its buffers after the commit.
const LARGE_ROW_BYTES: usize = 256 * 1024;

/// The final state of one row in the commit. Offsets are relative to the first position of the commit.
#[derive(Debug)]
pub(super) struct RowImage<'a> {
    pub call: &'a Arc<Call>,
    pub record: &'a str,
    /// Arguments that replace the stored ones.
    pub arguments: Option<&'a str>,
    pub accepted: Option<i32>,
    pub started: Option<i32>,
    pub settled: Option<i32>,
}

/// A reported event that the commit stores.
#[derive(Debug)]
pub(super) struct ReportedRow {
    pub call: Uuid,
    pub offset: i32,
    pub reported: Arc<Reported>,
}

/// Everything that one commit writes.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub id: Uuid,
    pub at: Time,
    pub rows: Vec<RowImage<'a>>,
    pub reported: Vec<ReportedRow>,
    pub stats: Tally,
    /// Indexes of units with a change that follows the end of its call in the same commit; these units are not written.
    /// The guard of the row rejects a second end only after the first is committed.
    pub fenced: Vec<usize>,
    /// Indexes of units whose idempotency key is claimed by another unit of the same commit; these units are not
    /// written.
    pub claimed: Vec<usize>,
    pub claims: Vec<(&'a Tenant, &'a KeyClaim)>,
    pub callbacks: Vec<CallbackRow>,
    /// The claims of workers.
    pub offers: Vec<&'a Offer>,
    changes: Vec<CommittedChange>,
    positions: i32,
}

impl<'a> Batch<'a> {
    pub fn of(id: Uuid, at: Time, units: &'a [WriteUnit]) -> Self {
        let mut batch = Self {
            id,
            at,
            rows: Vec::with_capacity(units.len()),
            reported: Vec::new(),
            stats: Tally::default(),
            fenced: Vec::new(),
            claimed: Vec::new(),
            claims: Vec::new(),
            callbacks: Vec::new(),
            offers: Vec::new(),
            changes: Vec::with_capacity(units.len()),
            positions: 0,
        };
        let mut indexes: HashMap<Uuid, usize> = HashMap::with_capacity(units.len());
        for (index, unit) in units.iter().enumerate() {
            let mut claims = unit.changes().iter().flat_map(Change::claims);
            let key = |(tenant, claim): &(&Tenant, &KeyClaim)| ((*tenant).clone(), claim.once.key);
            if claims.any(|claim| batch.claims.iter().any(|other| key(other) == key(&claim))) {
                batch.claimed.push(index);
                continue;
            }
            let has_ended = |change: &Change| {
                indexes.get(&change.call.id).is_some_and(|index| batch.rows[*index].settled.is_some())
            };
            if unit.changes().iter().any(has_ended) {
                batch.fenced.push(index);
                continue;
            }
            for change in unit.changes() {
                batch.add(change, &mut indexes);
            }
        }
        batch
    }

    /// Returns the number of event positions of the commit.
    pub fn positions(&self) -> i64 {
        self.positions.into()
    }

    /// Returns the node that writes.
    pub fn node(&self) -> &str {
        self.rows.first().map_or("", |row| &row.call.node)
    }

    /// Returns `true` if a row is large enough to shrink the buffers of the connection afterwards.
    pub fn is_large(&self) -> bool {
        self.rows.iter().any(|row| row.record.len() + row.call.arguments_text.get().len() > LARGE_ROW_BYTES)
    }

    /// Returns the row if it is all that the commit writes.
    pub fn only_row(&self) -> Option<&RowImage<'a>> {
        let [row] = self.rows.as_slice() else { return None };
        let has_no_more =
            self.reported.is_empty() && self.claims.is_empty() && self.callbacks.is_empty() && self.offers.is_empty();
        has_no_more.then_some(row)
    }

    /// Returns the rows of new calls.
    pub fn inserts(&self) -> impl Iterator<Item = &RowImage<'a>> {
        self.rows.iter().filter(|row| row.accepted.is_some())
    }

    /// Returns the rows of stored calls.
    pub fn updates(&self) -> impl Iterator<Item = &RowImage<'a>> {
        self.rows.iter().filter(|row| row.accepted.is_none())
    }

    /// Returns `true` if stored arguments are replaced.
    pub fn replaces_arguments(&self) -> bool {
        self.updates().any(|row| row.arguments.is_some())
    }

    /// Returns the ids by whose time rows are stored: of the commit and of its calls.
    pub fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.rows.iter().map(|row| row.call.id).chain([self.id])
    }

    /// Returns the concatenated ids of the calls, 16 bytes each.
    pub fn call_ids(&self) -> Vec<u8> {
        self.rows.iter().flat_map(|row| *row.call.id.as_bytes()).collect()
    }

    /// Returns the tenant of all rows, or `None` if the rows belong to several tenants.
    pub fn tenant(&self) -> Option<&'a Tenant> {
        let mut tenants = self.rows.iter().map(|row| &row.call.tenant);
        let first = tenants.next()?;
        tenants.all(|tenant| tenant == first).then_some(first)
    }

    fn add(&mut self, change: &'a Change, indexes: &mut HashMap<Uuid, usize>) {
        let Change { call, live_image, record, transitions, reported, callback, .. } = change;
        let index = *indexes.entry(call.id).or_insert_with(|| {
            self.rows.push(RowImage { call, record, arguments: None, accepted: None, started: None, settled: None });
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        (row.call, row.record, row.arguments) = (call, record, change.replaced_arguments());
        let mut allocate = |positions: i32| {
            self.positions += positions;
            self.positions - positions
        };
        if transitions.accepted {
            row.accepted = Some(allocate(2));
        }
        if transitions.started {
            row.started = Some(allocate(1));
        }
        if let Some(reported) = reported {
            self.reported.push(ReportedRow { call: call.id, offset: allocate(1), reported: reported.clone() });
        }
        if transitions.settled {
            row.settled = Some(allocate(2));
            self.stats.count(call);
        }
        self.offers.extend(&change.worker_claim);
        self.claims.extend(change.claims());
        self.callbacks.extend(callback.and_then(|event| CallbackRow::of(call, event)));
        let live = live_image.as_ref().unwrap_or(call).clone();
        self.changes.push(CommittedChange { call: live, transitions: *transitions, reported: reported.clone() });
    }

    /// Converts the batch to its events, after its commit at the positions that follow `base`.
    pub fn committed(self, base: i64, took: Duration) -> CommittedEvents {
        CommittedEvents { first_pos: base + 1, last_pos: base + self.positions(), took, changes: self.changes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transitions;
    use super::*;
    use toolpost_core::domain::call::CallRecord;
    use toolpost_core::domain::{IdGenerator, Outcome};

    fn call(ids: &IdGenerator) -> Call {
        Call::from(CallRecord::accepted(ids.next(), "echo".into(), None, Arc::default(), Time(0), "n".into()))
    }

    #[test]
    fn changes_of_one_call_share_a_row_and_keep_their_events() {
        let ids = IdGenerator::counted();
        let mut one = call(&ids);
        one.start(Time(1)).unwrap();
        let started = Change::new(Arc::new(one.clone()), Transitions { accepted: true, started: true, settled: false });
        one.settle(Outcome::text("x"), Time(2)).unwrap();
        let settled = Change::new(Arc::new(one), Transitions { settled: true, ..Transitions::default() });
        let units = [WriteUnit::Single(started), WriteUnit::Single(settled)];
        let batch = Batch::of(ids.next(), Time(3), &units);
        assert_eq!(batch.rows.len(), 1);
        let row = &batch.rows[0];
        assert_eq!((row.accepted, row.started, row.settled), (Some(0), Some(2), Some(3)));
        assert!(row.call.status.is_terminal());
        let committed = batch.committed(10, Duration::ZERO);
        assert_eq!((committed.first_pos, committed.last_pos), (11, 15));
        assert_eq!(committed.events().iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }
}
