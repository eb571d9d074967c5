//! The worker that claims due callbacks, posts the ended calls as signed JSON and records the outcomes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{Id, JoinError, JoinSet};

use super::slots::Slots;
use super::{Callbacks, schedule};
use toolpost_core::domain::{Time, json};
use toolpost_core::formats::native::ToolCall;
use toolpost_store::store::StoreError;
use toolpost_store::store::callbacks::{AttemptRecord, DueCallback, RecordedOutcome};
use toolpost_tool::executor::http::{DeliveryOutcome, webhook_headers};

/// Number of due callbacks that are read in one query.
const WINDOW: u32 = 500;
/// Maximum number of queries in one poll; all callbacks of the first one may lack a free slot.
const WINDOWS: usize = 4;
/// Lease of a callback, in milliseconds: longer than reading the call, the longest attempt and the rest of its response
/// take together.
const LEASE_MS: i64 = 25_000;
/// Timeout for reading the call.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Grace period for attempts in flight at shutdown.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum length of a stored error, in characters.
const ERROR_CHARS: usize = 500;

/// The attempts in flight and their unrecorded outcomes.
pub struct Worker {
    callbacks: Arc<Callbacks>,
    tries: JoinSet<Option<DeliveryOutcome>>,
    /// The callbacks of the attempts in flight, with the starts of the attempts.
    running: HashMap<Id, (DueCallback, Time)>,
    /// Outcomes that are not stored yet, each with the end of its lease.
    notes: Vec<(AttemptRecord, Time)>,
}

impl Worker {
    pub fn new(callbacks: Callbacks) -> Self {
        Self { callbacks: Arc::new(callbacks), tries: JoinSet::new(), running: HashMap::new(), notes: Vec::new() }
    }

    /// Waits until an attempt ends; forever if none is in flight.
    pub async fn attempt_ended(&mut self) {
        match self.tries.join_next_with_id().await {
            Some(ended) => self.finish(ended),
            None => std::future::pending().await,
        }
    }

    /// Records ended attempts, then starts due callbacks that have a free slot.
    pub async fn poll(&mut self) {
        // If the database is unavailable, nothing is lost: the journal reports it, and the next poll follows soon.
        if let Err(error) = self.record_outcomes().await {
            tracing::debug!(%error, "cannot record the outcomes of callbacks");
            return;
        }
        if let Err(error) = self.begin().await {
            tracing::debug!(%error, "cannot read due callbacks");
        }
    }

    /// Waits for attempts in flight during the grace period, and leaves the others to other nodes.
    pub async fn close(mut self) {
        let all = async {
            while let Some(ended) = self.tries.join_next_with_id().await {
                self.finish(ended);
            }
        };
        let _ = tokio::time::timeout(GRACE, all).await;
        self.tries.abort_all();
        while let Some(ended) = self.tries.join_next_with_id().await {
            self.finish(ended);
        }
        if let Err(error) = self.record_outcomes().await {
            tracing::debug!(%error, "cannot record the outcomes of callbacks");
        }
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        for _ in 0..WINDOWS {
            let mut slots = Slots::occupied_by(self.running.values().map(|(due, _)| due), self.notes.len());
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
                self.running.insert(task.id(), (due, now));
            }
            if !was_full {
                return Ok(());
            }
        }
        Ok(())
    }

    fn finish(&mut self, ended: Result<(Id, Option<DeliveryOutcome>), JoinError>) {
        let (id, delivered) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => (error.id(), None),
            Err(error) => (error.id(), unsent("internal error while the callback was sent")),
        };
        let Some((due, started)) = self.running.remove(&id) else { return };
        let now = self.callbacks.clock.now();
        let counts = &self.callbacks.counts;
        let (outcome, count) = match delivered {
            None => (RecordedOutcome::Interrupted, None),
            Some(DeliveryOutcome { status: Some(status), fault: None }) => {
                (RecordedOutcome::Delivered { status, at: now }, Some(&counts.delivered))
            }
            Some(DeliveryOutcome { status, fault }) => {
                let error = stored_error(&fault.unwrap_or_default());
                let next_at = schedule::next_at(due.event_id, due.step(), started, now);
                let count = if next_at.is_some() {
                    tracing::debug!(call = %due.call_id, host = %due.host, error, "callback attempt failed");
                    &counts.failed
                } else {
                    tracing::warn!(call = %due.call_id, host = %due.host, error, "callback abandoned after its last attempt");
                    &counts.given_up
                };
                (RecordedOutcome::Failed { status, error, next_at }, Some(count))
            }
        };
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let note = AttemptRecord { call_id: due.call_id, attempt: due.attempts, noted: outcome };
        self.notes.push((note, Time(started.0 + LEASE_MS * 1000)));
    }

    async fn record_outcomes(&mut self) -> Result<(), StoreError> {
        if self.notes.is_empty() {
            return Ok(());
        }
        // Sorted, so that all nodes lock the rows in the same order and cannot deadlock.
        self.notes.sort_unstable_by_key(|(note, _)| note.call_id);
        let notes: Vec<AttemptRecord> = self.notes.iter().map(|(note, _)| note.clone()).collect();
        let noted = self.callbacks.store.note_callbacks(&notes).await;
        // After the end of its lease a callback is attempted again, so its outcome is obsolete.
        let now = self.callbacks.clock.now();
        self.notes.retain(|(_, until)| noted.is_err() && *until > now);
        noted
    }
}

/// Makes one attempt, which `due` already counts. Returns `None` if it was not started and does not count.
async fn attempt(callbacks: &Callbacks, due: &DueCallback) -> Option<DeliveryOutcome> {
    let body = match due.has_body {
        true => {
            tokio::time::timeout(READ_TIMEOUT, callbacks.store.body_of_notification(due.call_id)).await.ok()?.ok()?
        }
        false => None,
    };
    let body = match body {
        Some(body) => Bytes::from(body),
        None => match body_of_call(callbacks, due).await {
            Ok(body) => body,
            Err(end) => return end,
        },
    };
    let headers = webhook_headers(&callbacks.key, &due.event_id.to_string(), callbacks.clock.now(), &body);
    let timeout = schedule::nth(due.step()).timeout;
    Some(callbacks.client.deliver(&due.url, headers, body, timeout).await)
}

/// Returns the JSON of an ended call.
///
/// # Errors
/// Returns the end of an attempt that was not made.
async fn body_of_call(callbacks: &Callbacks, due: &DueCallback) -> Result<Bytes, Option<DeliveryOutcome>> {
    let call = match tokio::time::timeout(READ_TIMEOUT, callbacks.store.call_of_callback(due.call_id)).await {
        Ok(Ok(Some(call))) => call,
        Ok(Ok(None)) => return Err(unsent("the stored call was deleted")),
        Ok(Err(StoreError::Corrupt(_))) => return Err(unsent("the stored call cannot be read")),
        // The database is unavailable.
        Ok(Err(_)) | Err(_) => return Err(None),
    };
    let body = serde_json::to_vec(&ToolCall::from(&call));
    body.map(Bytes::from).map_err(|_| unsent("the call cannot be serialized"))
}

/// Creates the result of an attempt that failed before anything was sent.
fn unsent(fault: &str) -> Option<DeliveryOutcome> {
    Some(DeliveryOutcome { status: None, fault: Some(fault.to_owned()) })
}

/// Shortens an error to one line without U+0000, which Postgres rejects.
fn stored_error(error: &str) -> String {
    json::shorten(error, ERROR_CHARS).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use toolpost_core::domain::Clock;
    use toolpost_store::store::Store;
    use toolpost_tool::executor::signing_key::SigningKey;
    use toolpost_tool::executor::{Egress, HttpClient, Reporting, Secrets};

    #[test]
    fn lease_is_longer_than_every_attempt() {
        let longest = schedule::TRIES.iter().map(|one| one.timeout).max().unwrap();
        let with_answer = READ_TIMEOUT + longest + Duration::from_secs(1);
        assert!(with_answer.as_millis() + 2_000 <= LEASE_MS as u128, "{with_answer:?}");
    }

    #[test]
    fn stored_error_is_one_short_line() {
        assert_eq!(stored_error("a\u{0}b\nc"), "a b c");
        assert!(stored_error(&"é".repeat(1000)).chars().count() <= ERROR_CHARS + 1);
    }

    #[tokio::test]
    async fn unrecorded_outcome_is_retried_until_its_lease_ends() {
        let clock = Clock::manual(Time(0));
        let store = Store::open("sqlite::memory:").await.unwrap();
        let reporting = Reporting::new(SigningKey::parse(&SigningKey::text_of(&[1; 32])).unwrap());
        let client = HttpClient::new(Egress::default(), Secrets::new(|_| None), clock.clone(), reporting).unwrap();
        let key = SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap();
        let mut worker = Worker::new(Callbacks::new(store.stores().clone(), client, key, clock.clone()));
        let note = AttemptRecord { call_id: Uuid::nil(), attempt: 1, noted: RecordedOutcome::Interrupted };
        worker.notes.push((note.clone(), Time(LEASE_MS * 1000)));
        store.close().await;
        clock.advance_ms(LEASE_MS - 1);
        worker.poll().await;
        assert_eq!(worker.notes, [(note, Time(LEASE_MS * 1000))]);
        clock.advance_ms(1);
        worker.poll().await;
        assert_eq!(worker.notes, []);
    }
}
