//! The tries under way: what is due is taken and begun, what has ended is noted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};

use super::attempt::{AttemptOutcome, attempt};
use super::slots::Slots;
use super::{Callbacks, schedule};
use crate::domain::{Time, json};
use crate::executor::http::Delivered;
use crate::store::StoreError;
use crate::store::callbacks::{AttemptRecord, DueCallback, RecordedOutcome};

/// Due callbacks that are read at once.
const WINDOW: u32 = 500;
/// Windows that one look reads at most: the first may be full of what has no place.
const WINDOWS: usize = 4;
/// How long a callback is this node's: longer than reading the call, the longest try and its answer's rest take together.
const LEASE_MS: i64 = 25_000;
/// How long tries under way may go on when the service stops.
const GRACE: Duration = Duration::from_secs(2);
/// Longest error that is kept, in characters.
const ERROR_CHARS: usize = 500;

/// A try under way.
#[derive(Debug)]
struct InFlightAttempt {
    due: DueCallback,
    started: Time,
}

/// See the module.
pub struct Worker {
    callbacks: Arc<Callbacks>,
    tries: JoinSet<AttemptOutcome>,
    running: HashMap<Id, InFlightAttempt>,
    /// What became of tries and is not on disk yet, and until when that is worth saying.
    notes: Vec<(AttemptRecord, Time)>,
}

impl Worker {
    pub fn new(callbacks: Callbacks) -> Self {
        Self { callbacks: Arc::new(callbacks), tries: JoinSet::new(), running: HashMap::new(), notes: Vec::new() }
    }

    /// Waits for the end of a try; for ever if there is none.
    pub async fn one_ended(&mut self) {
        match self.tries.join_next_with_id().await {
            Some(ended) => self.take(ended),
            None => std::future::pending().await,
        }
    }

    /// Notes what has ended, then begins what is due and finds a place.
    pub async fn poll(&mut self) {
        // While the database is away nothing is lost: the journal says so, and the next look comes soon.
        if let Err(error) = self.record_outcomes().await {
            tracing::debug!(%error, "ends of callbacks cannot be noted");
            return;
        }
        if let Err(error) = self.begin().await {
            tracing::debug!(%error, "due callbacks cannot be read");
        }
    }

    /// Gives tries under way a moment; those that do not end in it are left to others.
    pub async fn close(mut self) {
        let all = async {
            while let Some(ended) = self.tries.join_next_with_id().await {
                self.take(ended);
            }
        };
        let _ = tokio::time::timeout(GRACE, all).await;
        self.tries.abort_all();
        while let Some(ended) = self.tries.join_next_with_id().await {
            self.take(ended);
        }
        if let Err(error) = self.record_outcomes().await {
            tracing::debug!(%error, "ends of callbacks cannot be noted");
        }
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        for _ in 0..WINDOWS {
            let mut slots = Slots::beside(self.running.values().map(|running| &running.due), self.notes.len());
            if slots.are_full() {
                return Ok(());
            }
            let store = &self.callbacks.store;
            let now = self.callbacks.clock.now();
            let due = store.due_callbacks(now, &slots.busy(), WINDOW).await?;
            let was_full = due.len() == WINDOW as usize;
            let chosen = slots.choose(due);
            if chosen.is_empty() {
                return Ok(());
            }
            for due in store.claim_callbacks(chosen, now, Time(now.0 + LEASE_MS * 1000)).await? {
                let (callbacks, own) = (self.callbacks.clone(), due.clone());
                let task = self.tries.spawn(async move { attempt(&callbacks, &own).await });
                self.running.insert(task.id(), InFlightAttempt { due, started: now });
            }
            if !was_full {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, ended: Result<(Id, AttemptOutcome), JoinError>) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => (error.id(), AttemptOutcome::Interrupted),
            Err(error) => {
                let fault = Some("the service failed while it sent the callback".to_owned());
                (error.id(), AttemptOutcome::Completed(Delivered { status: None, fault }))
            }
        };
        let Some(InFlightAttempt { due, started }) = self.running.remove(&id) else { return };
        let now = self.callbacks.clock.now();
        let noted = match ended {
            AttemptOutcome::Interrupted => RecordedOutcome::Interrupted,
            AttemptOutcome::Completed(Delivered { status: Some(status), fault: None }) => {
                self.callbacks.counts.note_delivered();
                RecordedOutcome::Delivered { status, at: now }
            }
            AttemptOutcome::Completed(Delivered { status, fault }) => {
                let error = shown(&fault.unwrap_or_default());
                let next_at = schedule::next_at(due.event_id, due.step(), started, now);
                self.callbacks.counts.note_failed(next_at.is_none());
                match next_at {
                    Some(_) => tracing::debug!(call = %due.call_id, host = %due.host, error, "a callback failed"),
                    None => tracing::warn!(call = %due.call_id, host = %due.host, error, "a callback is given up"),
                }
                RecordedOutcome::Failed { status, error, next_at }
            }
        };
        let note = AttemptRecord { call_id: due.call_id, attempt: due.attempts, noted };
        self.notes.push((note, Time(started.0 + LEASE_MS * 1000)));
    }

    async fn record_outcomes(&mut self) -> Result<(), StoreError> {
        if self.notes.is_empty() {
            return Ok(());
        }
        // In one order on all nodes, so that none waits for another in a circle.
        self.notes.sort_unstable_by_key(|(note, _)| note.call_id);
        let notes: Vec<AttemptRecord> = self.notes.iter().map(|(note, _)| note.clone()).collect();
        let noted = self.callbacks.store.note_callbacks(&notes).await;
        // Once the lease is over, the callback is tried again whatever became of this try.
        let now = self.callbacks.clock.now();
        self.notes.retain(|(_, until)| noted.is_err() && *until > now);
        noted
    }
}

/// An error as it is kept: short, on one line, and without U+0000, which Postgres refuses.
fn shown(error: &str) -> String {
    json::shorten(error, ERROR_CHARS).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::attempt;
    use super::*;
    use crate::domain::Clock;
    use crate::executor::signing_key::SigningKey;
    use crate::executor::{Egress, HttpClient, Reporting, Secrets};
    use crate::store::Store;

    #[test]
    fn a_lease_outlasts_every_try() {
        let longest = schedule::TRIES.iter().map(|one| one.timeout).max().unwrap();
        let with_answer = attempt::READ + longest + Duration::from_secs(1);
        assert!(with_answer.as_millis() + 2_000 <= LEASE_MS as u128, "{with_answer:?}");
    }

    #[test]
    fn what_is_kept_of_an_error_is_one_short_line() {
        assert_eq!(shown("a\u{0}b\nc"), "a b c");
        assert!(shown(&"é".repeat(1000)).chars().count() <= ERROR_CHARS + 1);
    }

    #[tokio::test]
    async fn an_end_that_cannot_be_noted_is_kept_as_long_as_its_lease() {
        let clock = Clock::manual(Time(0));
        let store = Store::open("sqlite::memory:").await.unwrap();
        let reporting = Reporting::new(SigningKey::parse(&SigningKey::text_of(&[1; 32])).unwrap());
        let client = HttpClient::new(Egress::default(), Secrets::new(|_| None), clock.clone(), reporting).unwrap();
        let key = SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap();
        let mut desk = Worker::new(Callbacks::new(store.stores().clone(), client, key, clock.clone()));
        let note = AttemptRecord { call_id: Uuid::nil(), attempt: 1, noted: RecordedOutcome::Interrupted };
        desk.notes.push((note.clone(), Time(LEASE_MS * 1000)));
        store.close().await;
        clock.advance_ms(LEASE_MS - 1);
        desk.poll().await;
        assert_eq!(desk.notes, [(note, Time(LEASE_MS * 1000))]);
        clock.advance_ms(1);
        desk.poll().await;
        assert_eq!(desk.notes, []);
    }
}
