//! The part of one budget that this node holds.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use toolpost_core::domain::Time;
use toolpost_core::domain::budget::Amount;

/// The number of further calls for which a node is prepared at first. It doubles while it is used up quickly.
const FIRST_FURTHER: i64 = 16;
/// Maximum number of further calls for which a node is prepared.
const MAX_FURTHER: i64 = 4096;
/// A grant that is used up within this time was too small.
const BUSY: Duration = Duration::from_secs(1);
/// Time without a reservation after which the node returns what it does not need.
const IDLE: Duration = Duration::from_secs(1);

/// The part of one budget that this node holds.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<PoolState>,
    /// Held while the database is asked for more, so that concurrent calls share one grant.
    pub refill: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct PoolState {
    /// The allotment in the database. Replaced when the node has lost its lease.
    allotment: Uuid,
    /// The number of lost leases when the allotment began.
    epoch: u64,
    /// What calls may still reserve.
    spare: Amount,
    /// Number of calls that have reserved of the allotment and are not released.
    open: usize,
    /// Allotments whose amount in the database is unknown, with the calls that have reserved of them. Each is given up after
    /// the last of these calls.
    abandoned: Vec<(Uuid, usize)>,
    /// Whether the node keeps only what its calls need.
    is_lean: bool,
    /// The number of the last request of other nodes that was answered.
    wanted: i64,
    further: i64,
    granted_at: Option<Instant>,
    reserved_at: Instant,
    /// The last refusal of the database, and until when it is repeated without asking again.
    refused: Option<Refusal>,
}

/// A refusal of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What the refused call needed.
    pub call: Amount,
    /// When the call fits again, if only time is missing.
    pub refills_at: Option<Time>,
    /// Until when the refusal is repeated.
    pub until: Time,
}

/// The amount that an allotment must return.
pub(super) type Spare = (Uuid, Amount);

impl Pool {
    pub fn new(allotment: Uuid) -> Self {
        let state = PoolState {
            allotment,
            epoch: 0,
            spare: Amount::default(),
            open: 0,
            abandoned: Vec::new(),
            is_lean: true,
            wanted: 0,
            further: FIRST_FURTHER,
            granted_at: None,
            reserved_at: Instant::now(),
            refused: None,
        };
        Self { state: Mutex::new(state), refill: tokio::sync::Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a call of what the node holds. Returns the allotment, or `None` if it holds too little, or if its lease was
    /// lost since.
    pub fn try_reserve(&self, call: Amount, epoch: u64) -> Option<Uuid> {
        let mut state = self.state();
        let fits = call.calls <= state.spare.calls && call.cost <= state.spare.cost;
        if state.epoch != epoch || !fits {
            return None;
        }
        state.spare -= call;
        state.open += 1;
        state.reserved_at = Instant::now();
        Some(state.allotment)
    }

    /// Returns the allotment that can grow, and the number of further calls to be prepared for.
    pub fn growing(&self, epoch: u64, new_allotment: impl FnOnce() -> Uuid) -> (Uuid, i64) {
        let mut state = self.state();
        if state.epoch != epoch {
            state.epoch = epoch;
            state.begin(new_allotment());
        }
        let is_busy = state.granted_at.is_some_and(|at| at.elapsed() < BUSY);
        state.further = if is_busy { (state.further * 2).min(MAX_FURTHER) } else { FIRST_FURTHER };
        (state.allotment, state.further)
    }

    /// Adds a granted amount.
    pub fn add(&self, allotment: Uuid, amount: Amount, (wanted, is_lean): (i64, bool)) {
        let mut state = self.state();
        if state.allotment == allotment {
            state.spare += amount;
            (state.wanted, state.is_lean, state.refused) = (wanted, is_lean, None);
            state.granted_at = Some(Instant::now());
        }
    }

    /// Records a refusal.
    pub fn refuse(&self, refusal: Refusal) {
        self.state().refused = Some(refusal);
    }

    /// Returns the refusal that is still repeated for a call that needs at least as much.
    pub fn refused(&self, call: Amount, now: Time) -> Option<Refusal> {
        let covers = |refusal: &Refusal| refusal.call.min(call) == refusal.call && now < refusal.until;
        self.state().refused.filter(covers)
    }

    /// Releases a call and takes back what it has not used. Returns what the node must return to the budget at once.
    pub fn release(&self, allotment: Uuid, amount: Amount) -> Option<Spare> {
        let mut state = self.state();
        state.close(allotment);
        if state.allotment != allotment || amount.is_zero() {
            return None;
        }
        state.spare += amount;
        state.refused = None;
        state.is_lean.then(|| state.take_spare()).flatten()
    }

    /// Releases a call that has not run, for other calls of this node.
    pub fn cancel(&self, allotment: Uuid, amount: Amount) {
        let mut state = self.state();
        state.close(allotment);
        if state.allotment == allotment {
            state.spare += amount;
            (state.is_lean, state.refused) = (false, None);
        }
    }

    /// Abandons an allotment, because a change of its amount in the database has an unknown result.
    pub fn abandon(&self, allotment: Uuid, next: Uuid) {
        let mut state = self.state();
        if state.allotment == allotment {
            let open = state.open;
            state.abandoned.push((allotment, open));
            state.begin(next);
        }
    }

    /// Returns the abandoned allotments that no call needs.
    pub fn abandoned(&self) -> Vec<Uuid> {
        let state = self.state();
        state.abandoned.iter().filter(|(_, open)| *open == 0).map(|(allotment, _)| *allotment).collect()
    }

    /// Forgets an abandoned allotment that was given up.
    pub fn forget(&self, allotment: Uuid) {
        self.state().abandoned.retain(|(other, _)| *other != allotment);
    }

    /// Forgets a refusal, because the budget has changed.
    pub fn forget_refusal(&self) {
        self.state().refused = None;
    }

    /// Returns `true` if the allotment is that of this pool.
    pub fn owns(&self, allotment: Uuid) -> bool {
        self.state().allotment == allotment
    }

    /// Returns what calls may still reserve.
    pub fn spare(&self) -> Amount {
        self.state().spare
    }

    /// Returns `true` if the node holds more than its calls need.
    pub fn has_spare(&self) -> bool {
        let state = self.state();
        !state.is_lean && !state.spare.is_zero()
    }

    /// Takes what calls do not need if other nodes have asked for it since, or if the pool is idle.
    pub fn take_if_wanted(&self, wanted: Option<i64>) -> Option<Spare> {
        let mut state = self.state();
        let is_wanted = wanted.is_some_and(|wanted| wanted > state.wanted);
        state.wanted = wanted.map_or(state.wanted, |wanted| wanted.max(state.wanted));
        (is_wanted || state.reserved_at.elapsed() >= IDLE).then(|| state.take_spare()).flatten()
    }

    /// Takes what calls do not need.
    pub fn take_spare(&self) -> Option<Spare> {
        self.state().take_spare()
    }
}

impl PoolState {
    /// Begins with an empty allotment.
    fn begin(&mut self, allotment: Uuid) {
        (self.allotment, self.spare, self.open) = (allotment, Amount::default(), 0);
        (self.is_lean, self.refused) = (true, None);
    }

    /// Counts a call as released.
    fn close(&mut self, allotment: Uuid) {
        if self.allotment == allotment {
            self.open = self.open.saturating_sub(1);
        } else if let Some((_, open)) = self.abandoned.iter_mut().find(|(other, _)| *other == allotment) {
            *open = open.saturating_sub(1);
        }
    }

    fn take_spare(&mut self) -> Option<Spare> {
        self.is_lean = true;
        let spare = std::mem::take(&mut self.spare);
        (!spare.is_zero()).then_some((self.allotment, spare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Amount = Amount { calls: 1, cost: 10 };

    fn pool_with(calls: i64) -> (Pool, Uuid) {
        let pool = Pool::new(Uuid::from_u128(1));
        let (allotment, _) = pool.growing(0, Uuid::nil);
        pool.add(allotment, CALL.times(calls), (0, false));
        (pool, allotment)
    }

    #[tokio::test]
    async fn calls_reserve_what_the_node_holds() {
        let (pool, allotment) = pool_with(2);
        assert_eq!([(); 3].map(|()| pool.try_reserve(CALL, 0)), [Some(allotment), Some(allotment), None]);
        assert_eq!(pool.release(allotment, CALL), None);
        assert_eq!(pool.try_reserve(CALL, 0), Some(allotment));
    }

    #[tokio::test]
    async fn lost_lease_ends_the_allotment() {
        let (pool, allotment) = pool_with(2);
        assert_eq!(pool.try_reserve(CALL, 1), None);
        let (other, _) = pool.growing(1, || Uuid::from_u128(2));
        assert_ne!(other, allotment);
        assert_eq!((pool.spare(), pool.release(allotment, CALL)), (Amount::default(), None));
    }

    #[tokio::test]
    async fn spare_is_returned_when_other_nodes_want_it() {
        let (pool, allotment) = pool_with(3);
        assert_eq!(pool.take_if_wanted(Some(0)), None);
        assert_eq!(pool.take_if_wanted(Some(1)), Some((allotment, CALL.times(3))));
        // The node now keeps nothing that a call gives back.
        assert_eq!(pool.release(allotment, CALL), Some((allotment, CALL)));
    }

    #[tokio::test]
    async fn abandoned_allotment_is_released_after_its_last_call() {
        let (pool, allotment) = pool_with(2);
        pool.try_reserve(CALL, 0).unwrap();
        pool.abandon(allotment, Uuid::from_u128(2));
        assert_eq!((pool.abandoned(), pool.spare()), (Vec::new(), Amount::default()));
        assert_eq!(pool.release(allotment, CALL), None);
        assert_eq!(pool.abandoned(), [allotment]);
        pool.forget(allotment);
        assert!(pool.abandoned().is_empty());
    }

    #[tokio::test]
    async fn refusal_is_repeated_for_equal_and_larger_calls() {
        let (pool, _) = pool_with(0);
        let refusal = Refusal { call: CALL, refills_at: None, until: Time(10) };
        pool.refuse(refusal);
        assert_eq!(pool.refused(CALL.times(2), Time(9)), Some(refusal));
        assert_eq!(pool.refused(Amount { calls: 1, cost: 0 }, Time(9)), None);
        assert_eq!(pool.refused(CALL, Time(10)), None);
    }
}
