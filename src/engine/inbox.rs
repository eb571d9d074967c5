//! Hearing what was left for calls of this node. A cancel and a result stay until their call has ended, so that the node that
//! takes the call over hears them, too; hearing them again changes nothing. A report stays until it is recorded.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::oneshot::error::TryRecvError;
use uuid::Uuid;

use super::control_message::ControlMessage;
use super::live::{CallHandle, LiveCalls};
use crate::executor::emitter::Recorded;
use crate::executor::report::Report;
use crate::store::inbox::Message;
use crate::store::{StoreError, Stores};

/// Reports that were handed to their calls and are not forgotten on disk yet: none is handed over twice.
#[derive(Debug, Default)]
struct InHand(Mutex<HashMap<Uuid, State>>);

#[derive(Debug)]
enum State {
    /// It is being handed over.
    Taken,
    /// Its call has it.
    HandedOver(Recorded),
    /// It is recorded.
    Recorded,
}

impl InHand {
    fn reports(&self) -> MutexGuard<'_, HashMap<Uuid, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a report to hand it over; `false` if that was done before.
    fn take(&self, id: Uuid) -> bool {
        let mut reports = self.reports();
        let is_new = !reports.contains_key(&id);
        if is_new {
            reports.insert(id, State::Taken);
        }
        is_new
    }

    fn handed_over(&self, id: Uuid, recorded: Recorded) {
        self.reports().insert(id, State::HandedOver(recorded));
    }

    fn forget(&self, id: Uuid) {
        self.reports().remove(&id);
    }

    /// Those that are recorded. One that its call has not recorded is given back, to be handed over again.
    fn recorded(&self) -> Vec<Uuid> {
        let mut recorded = Vec::new();
        self.reports().retain(|id, state| {
            if let State::HandedOver(recording) = state {
                match recording.try_recv() {
                    Ok(()) => *state = State::Recorded,
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Closed) => return false,
                }
            }
            if matches!(state, State::Recorded) {
                recorded.push(*id);
            }
            true
        });
        recorded
    }
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    /// It stays on disk, for the node that goes on with the call.
    Kept,
    /// It cannot be read.
    Unreadable,
    /// There is no room for it now.
    Later,
}

/// The messages that were left for the calls of this node.
#[derive(Debug)]
pub(super) struct Inbox {
    stores: Stores,
    node: Arc<str>,
    live: LiveCalls,
    in_hand: InHand,
}

impl Inbox {
    /// Creates the inbox of a node.
    pub fn new(stores: Stores, node: Arc<str>, live: LiveCalls) -> Self {
        Self { stores, node, live, in_hand: InHand::default() }
    }

    /// Hears what was left for all calls of this node. It never waits for a call: this node has to say meanwhile that it
    /// lives.
    pub async fn process_inbox(&self) -> Result<(), StoreError> {
        for id in self.in_hand.recorded() {
            self.stores.forget_message(id).await?;
            self.in_hand.forget(id);
        }
        if !self.stores.has_messages().await? {
            return Ok(());
        }
        self.stores.forget_messages_of_ended().await?;
        let (mut after, mut full) = (Uuid::nil(), HashSet::new());
        loop {
            let page = self.stores.messages(&self.node, after).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            self.process_page(page, &mut full).await?;
        }
    }

    /// Hears what was left for one call, if this node has it. Where that fails, it is heard with all the others.
    pub async fn process_messages_of(&self, call: Uuid) {
        let heard = async {
            let (mut after, mut full) = (Uuid::nil(), HashSet::new());
            loop {
                let page = self.stores.messages_of(&self.node, call, after).await?;
                let Some((last, _)) = page.last() else { return Ok::<_, StoreError>(()) };
                after = *last;
                self.process_page(page, &mut full).await?;
            }
        };
        if let Err(error) = heard.await {
            tracing::debug!(%call, %error, "messages of a call cannot be read now");
        }
    }

    /// `full` are the calls that have no room for a report now: later ones wait for their turn.
    async fn process_page(&self, page: Vec<(Uuid, Message)>, full: &mut HashSet<Uuid>) -> Result<(), StoreError> {
        for (id, Message { call, body, .. }) in page {
            // A call that this node has left stays where it is, with what was said to it.
            let Some(handle) = self.live.get(call) else { continue };
            let heard = match serde_json::from_str(&body) {
                Ok(ControlMessage::Progress { .. }) if full.contains(&call) => DeliveryOutcome::Later,
                Ok(said) => self.deliver(&handle, id, said),
                Err(error) => {
                    tracing::error!(%call, %error, "a message about a call cannot be read");
                    DeliveryOutcome::Unreadable
                }
            };
            match heard {
                DeliveryOutcome::Kept => {}
                DeliveryOutcome::Unreadable => self.stores.forget_message(id).await?,
                DeliveryOutcome::Later => {
                    full.insert(call);
                }
            }
        }
        Ok(())
    }

    fn deliver(&self, handle: &CallHandle, id: Uuid, said: ControlMessage) -> DeliveryOutcome {
        match said {
            ControlMessage::Cancel => handle.cancel.cancel(),
            // Of several results only the first is here: the same one was heard before, or the call has its end.
            ControlMessage::Result { answer } => drop(handle.outside.post(answer.into())),
            ControlMessage::Progress { report } => {
                // It was read once already, where it came in.
                let Ok(report) = Report::read(report) else { return DeliveryOutcome::Unreadable };
                if !self.in_hand.take(id) {
                    return DeliveryOutcome::Kept;
                }
                let Some(recorded) = tokio::task::unconstrained(report.tell(&handle.emitter)).now_or_never() else {
                    self.in_hand.forget(id);
                    return DeliveryOutcome::Later;
                };
                self.in_hand.handed_over(id, recorded);
            }
        }
        DeliveryOutcome::Kept
    }
}
