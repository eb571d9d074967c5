//! The task that applies changes of other nodes to this one when their signals arrive: messages to its calls, ended
//! sessions, and paused tools.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Engine;
use super::sessions::SessionKey;
use toolpost_core::domain::SessionState;
use toolpost_store::store::StoreError;
use toolpost_store::store::signals::{Hint, HintReceiver, Wakeup};

/// Interval at which offers are looked for that the database has lost.
const LOST_INTERVAL: Duration = Duration::from_secs(10);

/// The signals that the engine follows.
#[derive(Debug)]
pub(super) struct Followed {
    inbox: HintReceiver<Uuid>,
    sessions: HintReceiver<SessionKey>,
    pauses: Wakeup,
}

impl Followed {
    /// Begins to receive signals.
    pub fn new(engine: &Engine) -> Self {
        let signals = engine.stores.signals();
        Self { inbox: signals.inbox(), sessions: signals.sessions(), pauses: signals.pauses() }
    }

    /// Applies changes until `stop` fires. `poll` is the interval at which pauses are read without a signal; messages
    /// are polled by the loop of the heartbeat.
    pub async fn run(mut self, engine: Arc<Engine>, poll: Duration, stop: CancellationToken) {
        let mut poll = tokio::time::interval(poll);
        let mut lost = tokio::time::interval(LOST_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        lost.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                () = stop.cancelled() => return,
                hint = self.inbox.recv() => read_messages(&engine, hint).await,
                hint = self.sessions.recv() => end_sessions(&engine, hint).await,
                () = self.pauses.woken() => engine.shared_pauses().sync().await,
                () = engine.pauses.unsaved() => engine.shared_pauses().sync().await,
                _ = poll.tick() => look(&engine).await,
                _ = lost.tick() => engine.workqueue.wake_lost().await,
            };
            if let Err(error) = done {
                // The next poll repeats it.
                tracing::debug!(%error, "cannot read the changes of other nodes");
            }
        }
    }
}

/// Reads what the other nodes have changed without a signal.
async fn look(engine: &Engine) -> Result<(), StoreError> {
    engine.shared_pauses().sync().await?;
    engine.workqueue.wake_claimed().await
}

/// Delivers messages that another node has stored.
async fn read_messages(engine: &Engine, hint: Hint<Uuid>) -> Result<(), StoreError> {
    match hint {
        Hint::Of(call) if engine.live.get(call).is_some() => engine.inbox.process_messages_of(call).await,
        Hint::Of(_) => {}
        Hint::Any => engine.inbox.process_inbox().await?,
    }
    engine.workqueue.follow(&hint).await
}

/// Cancels the calls of this node whose session was aborted. Stored calls are also cancelled by a message, which does not
/// reach a call that is not stored yet.
async fn end_sessions(engine: &Engine, hint: Hint<SessionKey>) -> Result<(), StoreError> {
    let is_named = matches!(hint, Hint::Of(_));
    let changed: HashSet<SessionKey> = match hint {
        Hint::Of(key) => HashSet::from([key]),
        Hint::Any => engine.sessions.keys(),
    };
    for key in changed {
        let calls = engine.sessions.of(&key);
        if calls.is_empty() {
            continue;
        }
        let session = engine.stores.for_tenant(&key.0).session(&key.1).await?;
        // A session is aborted before it is deleted.
        let is_over = session.map_or(is_named, |session| session.state == SessionState::Aborted);
        if is_over {
            calls.iter().for_each(|call| call.cancel.cancel());
        }
    }
    Ok(())
}
