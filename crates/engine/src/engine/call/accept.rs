//! Step 2, accept: claims idempotency keys and commits calls that must be durable before they run.
//!
//! The caller can then disconnect, or repeat the request and receive the same calls. [`KeyLookup`] finds the calls of
//! earlier requests before new calls are planned.

use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use uuid::Uuid;

use super::state::{Next, Planned};
use crate::access::Access;
use crate::engine::submission::{KeyedError, Submission};
use toolpost_core::domain::{Clock, Failure, IdGenerator, IdempotencyKey, KeyClaim};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::Journal;
use toolpost_store::store::journal::{Change, JournalError};

/// An error returned when calls could not be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptError {
    /// Another request has claimed one of the idempotency keys.
    Claimed,
    /// The calls could not be recorded in time.
    NotRecorded,
}

/// The channel on which the caller learns whether its calls are committed.
pub(in crate::engine) type AcceptedSender = oneshot::Sender<Result<(), AcceptError>>;

/// The second step of a call.
pub(in crate::engine) struct Acceptor<'a> {
    pub journal: &'a Journal,
    pub clock: &'a Clock,
    pub ids: &'a IdGenerator,
    pub timeout: Duration,
    pub callbacks_due: &'a Notify,
}

impl Acceptor<'_> {
    /// Accepts all calls or none, and sends the result on `sender`. Returns the calls to run; calls that `plan`
    /// rejected have ended with the commit.
    pub async fn accept(&self, mut batch: Vec<Planned>, sender: AcceptedSender) -> Vec<Planned> {
        let changes: Vec<Change> = batch.iter_mut().map(|planned| self.acceptance(planned)).collect();
        let is_keyed = batch.iter().any(|planned| !planned.claims.is_empty());
        fault::pass(Point::BeforeAccept);
        let awaiting = self.journal.register_waiters(changes.len());
        let mut writing = std::pin::pin!(self.journal.write_atomic(changes));
        let mut sender = Some(sender);
        let mut reply = |result| {
            if let Some(sender) = sender.take() {
                // The caller may have disconnected, which closes the channel.
                let _ = sender.send(result);
            }
        };
        let (written, is_late) = match tokio::time::timeout(self.timeout, &mut writing).await {
            Ok(written) => (written, false),
            Err(_) => {
                drop(awaiting);
                reply(Err(AcceptError::NotRecorded));
                (writing.await, true)
            }
        };
        if let Err(error) = written {
            // The ids must be free before the caller learns the result, so that it can use them again.
            drop(batch);
            reply(Err(if error == JournalError::Claimed {
                AcceptError::Claimed
            } else {
                tracing::error!(%error, "calls were not accepted");
                AcceptError::NotRecorded
            }));
            return Vec::new();
        }
        fault::pass(Point::AfterAccept);
        let mut going = Vec::with_capacity(batch.len());
        for mut planned in batch {
            if planned.run.call().status.is_terminal() {
                if planned.run.call().callback_url.is_some() {
                    self.callbacks_due.notify_one();
                }
                planned.run.reply_with_rejection();
                continue;
            }
            if is_late && !is_keyed {
                // The caller was informed that the call was not accepted, and may repeat it. No more arguments will
                // arrive.
                planned.streamed.take().iter().for_each(|streamed| streamed.stream.close());
                let failure = Failure::overloaded("The call could not be recorded in time and was not run");
                planned.next = Next::End(failure.into(), None);
            }
            going.push(planned);
        }
        reply(Ok(()));
        going
    }

    /// Builds the first change of a call. A rejected call ends with it.
    fn acceptance(&self, planned: &mut Planned) -> Change {
        match &mut planned.next {
            Next::End(failure, _) if planned.streamed.is_none() => {
                planned.run.reject(failure.taken(), self.clock.moment())
            }
            _ => planned.run.accept_first(),
        }
        let mut change = planned.run.acceptance();
        if !planned.claims.is_empty() {
            change = change.with_claims(planned.claims.clone());
        }
        if planned.run.call().callback_url.is_some() {
            change = change.with_callback(self.ids.next());
        }
        change
    }
}

/// The existing calls to which the idempotency keys of a submission belong.
pub(in crate::engine) enum KnownCalls {
    /// All calls of the submission exist; their ids are in request order.
    All { batch_id: Option<Uuid>, calls: Vec<Uuid> },
    /// Some calls exist, each with its index in the request. The others are new.
    Some(Vec<(usize, Uuid)>),
}

/// A lookup of idempotency keys (docs/reference/contract.md, section 3).
pub(in crate::engine) struct KeyLookup<'a> {
    pub access: &'a Access,
    pub clock: &'a Clock,
}

impl KeyLookup<'_> {
    /// Finds the existing calls that belong to the keys of a submission.
    ///
    /// # Errors
    /// Returns [`KeyedError::Reused`] if a key belongs to a different request, and [`KeyedError::Refused`] if the
    /// database fails.
    pub async fn find(&self, submission: &Submission) -> Result<KnownCalls, KeyedError> {
        if let Some(once) = submission.idempotency_key
            && let Some(KeyClaim { batch_id, calls, .. }) = self.claim_of(once, None).await?
        {
            return Ok(KnownCalls::All { batch_id, calls });
        }
        let mut known = Vec::new();
        for (index, request) in submission.calls.iter().enumerate() {
            let Some(once) = request.idempotency_key else { continue };
            let claim = self.claim_of(once, Some(index)).await?;
            known.extend(claim.and_then(|claim| claim.calls.first().copied()).map(|id| (index, id)));
        }
        if known.len() == submission.calls.len() {
            let calls = known.into_iter().map(|(_, id)| id).collect();
            return Ok(KnownCalls::All { batch_id: None, calls });
        }
        Ok(KnownCalls::Some(known))
    }

    /// Returns the claim of a key, if the key is claimed.
    async fn claim_of(&self, once: IdempotencyKey, call: Option<usize>) -> Result<Option<KeyClaim>, KeyedError> {
        match self.access.store().claim(&once.key, self.clock.now()).await? {
            Some(claim) if claim.once.fingerprint != once.fingerprint || !self.may_replay(&claim).await? => {
                Err(KeyedError::Reused { call })
            }
            claim => Ok(claim),
        }
    }

    /// Returns `true` if the caller may see the outcomes of these calls. A caller with an allow-list does not receive
    /// the outcome of a tool outside it.
    async fn may_replay(&self, claim: &KeyClaim) -> Result<bool, KeyedError> {
        if self.access.allowed().is_none() {
            return Ok(true);
        }
        let calls = self.access.store().calls_of(&claim.calls).await?;
        Ok(calls.iter().all(|call| self.access.may_reach(call)))
    }
}
