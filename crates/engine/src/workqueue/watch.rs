//! Calls of this node that workers may fetch or have fetched.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::WorkQueue;
use crate::call_table::{CallEntry, CallTable};
use toolpost_core::domain::Call;
use toolpost_store::store::StoreError;
use toolpost_store::store::signals::Hint;

/// The offered calls of this node. Cheap to clone.
pub(crate) type Offers = CallTable<Arc<OfferWatch>>;

/// Wakes a call when its offer may have changed, and knows what this node knows of its worker.
#[derive(Debug, Default)]
pub(crate) struct OfferWatch {
    changed: Notify,
    holder: Mutex<Holder>,
    content: OnceLock<OfferedCall>,
}

/// The parts of an offered call that its worker gets.
#[derive(Debug, Clone)]
pub(crate) struct OfferedCall {
    /// The call.
    pub call: Arc<Call>,
    /// The arguments including presets.
    pub arguments: Arc<Value>,
}

/// The worker of a call, as far as this node knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Holder {
    /// Only the row says it.
    #[default]
    Unknown,
    /// No worker has the call.
    NoWorker,
    /// A worker has claimed this attempt at this node. This node may accept its result.
    Claimed(u32),
    /// A worker runs this attempt, and its lease is watched. This node may accept its result.
    Running(u32),
    /// A result of this attempt came before this node knew of the claim, so the row decides.
    ByRow(u32),
}

impl Holder {
    fn may_answer(self, attempt: u32) -> bool {
        self == Self::Claimed(attempt) || self == Self::Running(attempt)
    }

    /// Replaces the holder, unless the row decides about the attempt.
    fn become_of(&mut self, attempt: u32, next: Self) {
        if *self != Self::ByRow(attempt) {
            *self = next;
        }
    }
}

impl OfferWatch {
    /// Enters a call until the returned entry is dropped.
    pub fn enter(offers: &Offers, call: Uuid) -> (Arc<Self>, CallEntry<Arc<Self>>) {
        let watch = Arc::new(Self::default());
        (watch.clone(), offers.enter(call, watch))
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a worker is awaited, and what it gets. What was known of earlier attempts is forgotten.
    pub fn await_worker(&self, content: impl FnOnce() -> OfferedCall) {
        *self.holder() = Holder::NoWorker;
        self.content.get_or_init(content);
    }

    /// Returns `true` if a worker has claimed this attempt at this node, and its lease is not watched yet.
    pub fn is_claimed_here(&self, attempt: u32) -> bool {
        *self.holder() == Holder::Claimed(attempt)
    }

    /// Records that the lease of the worker that runs this attempt is watched.
    pub fn watch_lease(&self, attempt: u32) {
        self.holder().become_of(attempt, Holder::Running(attempt));
    }

    /// Records that this node may not accept a result, because the lease may expire or the attempt has ended, unless a
    /// result was accepted before. Returns `true` if none was.
    pub fn refuse_results(&self, has_result: impl FnOnce() -> bool) -> bool {
        let mut holder = self.holder();
        let may_refuse = !has_result();
        if may_refuse {
            *holder = Holder::Unknown;
        }
        may_refuse
    }

    /// Records that a worker has claimed this attempt at this node, and wakes the call.
    pub fn note_claim(&self, attempt: u32) {
        self.holder().become_of(attempt, Holder::Claimed(attempt));
        self.changed.notify_one();
    }

    /// Waits until the offer may have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.holder(), Holder::NoWorker | Holder::ByRow(_))
    }
}

impl Offers {
    fn watch(&self, call: Uuid) -> Option<Arc<OfferWatch>> {
        self.calls().get(&call).cloned()
    }

    /// Wakes a call of this node.
    pub fn wake(&self, call: Uuid) {
        self.watch(call).iter().for_each(|watch| watch.changed.notify_one());
    }

    /// Returns what the worker of a call of this node gets, if it is known without the database.
    pub fn content(&self, call: Uuid) -> Option<OfferedCall> {
        self.watch(call)?.content.get().cloned()
    }

    /// Records that a worker has claimed an attempt of a call of this node, and wakes the call. Returns `false` for a call of
    /// another node.
    pub fn note_claim(&self, call: Uuid, attempt: u32) -> bool {
        self.watch(call).inspect(|watch| watch.note_claim(attempt)).is_some()
    }

    /// Returns `true` if a worker runs this attempt of a call of this node.
    pub fn is_running(&self, call: Uuid, attempt: u32) -> bool {
        self.watch(call).is_some_and(|watch| watch.holder().may_answer(attempt))
    }

    /// Passes a result to `accept` if a worker runs this attempt of a call of this node. The lease does not expire
    /// meanwhile. If this node does not know of the worker, the row decides about this attempt from now on.
    ///
    /// # Errors
    /// Returns the result if this node may not accept it, or `accept` refuses it.
    pub fn accept<T, R>(
        &self,
        (call, attempt): (Uuid, u32),
        result: R,
        accept: impl FnOnce(R) -> Result<T, R>,
    ) -> Result<T, R> {
        let Some(watch) = self.watch(call) else { return Err(result) };
        let mut holder = watch.holder();
        if holder.may_answer(attempt) {
            return accept(result);
        }
        if matches!(*holder, Holder::Unknown | Holder::NoWorker) {
            *holder = Holder::ByRow(attempt);
        }
        Err(result)
    }

    /// Wakes those waiting calls for which `is_meant` returns `true`.
    fn wake_waiting(&self, is_meant: impl Fn(&Uuid) -> bool) {
        let calls = self.calls();
        let meant = calls.iter().filter(|(call, watch)| watch.is_waiting() && is_meant(call));
        meant.for_each(|(_, watch)| watch.changed.notify_one());
    }

    fn has_waiting(&self) -> bool {
        self.calls().values().any(|watch| watch.is_waiting())
    }
}

impl WorkQueue {
    /// Wakes the calls about whose offers another node has sent a signal.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn follow(&self, hint: &Hint<Uuid>) -> Result<(), StoreError> {
        match hint {
            Hint::Of(call) => {
                self.offers.wake(*call);
                Ok(())
            }
            Hint::Any => self.wake_claimed().await,
        }
    }

    /// Wakes the waiting calls that a worker has claimed meanwhile. One statement serves all of them, and none is sent if no
    /// call waits.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn wake_claimed(&self) -> Result<(), StoreError> {
        if self.offers.has_waiting() {
            let claimed = self.stores.claimed_of(&self.node).await?;
            self.offers.wake_waiting(|call| claimed.contains(call));
        }
        Ok(())
    }

    /// Wakes the waiting calls without a waiting row. The database may have lost it in a crash.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn wake_lost(&self) -> Result<(), StoreError> {
        if self.offers.has_waiting() {
            let waiting = self.stores.waiting_of(&self.node).await?;
            self.offers.wake_waiting(|call| !waiting.contains(call));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(offers: &Offers, attempt: u32) -> bool {
        offers.accept((Uuid::nil(), attempt), (), Ok::<(), ()>).is_ok()
    }

    #[test]
    fn results_are_accepted_only_of_the_attempt_that_a_worker_is_known_to_have() {
        let offers = Offers::default();
        assert!(!accepted(&offers, 1), "the call is not here");
        let (watch, _entry) = OfferWatch::enter(&offers, Uuid::nil());
        offers.note_claim(Uuid::nil(), 1);
        assert!(watch.is_claimed_here(1) && !watch.is_claimed_here(2));
        assert!(accepted(&offers, 1) && !accepted(&offers, 2));
        watch.watch_lease(1);
        assert!(accepted(&offers, 1) && !accepted(&offers, 2) && offers.is_running(Uuid::nil(), 1));
        assert!(!watch.refuse_results(|| true), "a result was accepted");
        assert!(accepted(&offers, 1));
        assert!(watch.refuse_results(|| false));
        assert!(!accepted(&offers, 1) && !offers.is_running(Uuid::nil(), 1));
    }

    #[test]
    fn the_row_decides_about_an_attempt_whose_result_came_before_its_claim_was_known() {
        let offers = Offers::default();
        let (watch, _entry) = OfferWatch::enter(&offers, Uuid::nil());
        assert!(!accepted(&offers, 1));
        offers.note_claim(Uuid::nil(), 1);
        watch.watch_lease(1);
        assert!(!accepted(&offers, 1), "the first result may be stored");
        assert!(offers.has_waiting(), "a lost signal is noticed");
        offers.note_claim(Uuid::nil(), 2);
        assert!(accepted(&offers, 2), "the next attempt");
    }
}
