//! Calls of this node that workers may fetch or have fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::Engine;
use super::live::{CallEntry, CallTable};
use crate::store::StoreError;
use crate::store::signals::Hint;
use uuid::Uuid;

/// The offered calls of this node. Cheap to clone.
pub(super) type Offers = CallTable<Arc<OfferWatch>>;

/// Wakes a call when its offer may have changed.
#[derive(Debug, Default)]
pub(super) struct OfferWatch {
    changed: Notify,
    /// Whether no worker has the call, as far as this node knows.
    is_waiting: AtomicBool,
}

impl OfferWatch {
    /// Enters a call until the returned guard is dropped.
    pub fn enter(offers: &Offers, call: Uuid) -> (Arc<Self>, CallEntry<Arc<Self>>) {
        let watch = Arc::new(Self::default());
        (watch.clone(), offers.enter(call, watch))
    }

    /// Says whether a worker is awaited.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Waits until the offer may have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Offers {
    /// Wakes a call of this node.
    pub fn wake(&self, call: Uuid) {
        let watch = self.calls().get(&call).cloned();
        watch.iter().for_each(|watch| watch.changed.notify_one());
    }

    fn has_waiting(&self) -> bool {
        self.calls().values().any(|watch| watch.is_waiting.load(Ordering::Relaxed))
    }
}

/// Wakes the calls about whose offers another node has sent a signal.
pub(super) async fn follow(engine: &Engine, hint: &Hint<Uuid>) -> Result<(), StoreError> {
    match hint {
        Hint::Of(call) => {
            engine.offers.wake(*call);
            Ok(())
        }
        Hint::Any => look(engine).await,
    }
}

/// Wakes the waiting calls that a worker has claimed meanwhile. One statement serves all of them, and none is sent if no
/// call waits.
pub(super) async fn look(engine: &Engine) -> Result<(), StoreError> {
    if !engine.offers.has_waiting() {
        return Ok(());
    }
    for call in engine.stores.claimed_of(engine.node()).await? {
        let watch = engine.offers.calls().get(&call).cloned();
        if let Some(watch) = watch.filter(|watch| watch.is_waiting.load(Ordering::Relaxed)) {
            watch.changed.notify_one();
        }
    }
    Ok(())
}
