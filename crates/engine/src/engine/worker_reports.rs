//! Reports and results of workers. They count only while the worker has the call.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::control::DECISION_TIMEOUT;
use super::control::{ControlOutcome, ControlPlane};
use super::control_message::ControlMessage;
use super::posted_results::Pauses;
use toolpost_core::domain::ToolOutput;
use toolpost_core::fault::{self, Point};
use toolpost_store::store::StoreError;
use toolpost_store::store::workers::OfferState;
use toolpost_tool::executor::report::Report;
use toolpost_tool::executor::{PostedResult, RecordedPost};

/// Maximum time until a call is committed whose result is accepted.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

impl ControlPlane<'_> {
    /// Delivers a report of a worker about its attempt of a call.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn report_of_worker(
        &self,
        (id, attempt): (Uuid, u32),
        report: Report,
        value: Value,
    ) -> Result<ControlOutcome, StoreError> {
        if self.offers.is_running(id, attempt) || self.stores.is_claimed(id, attempt).await? {
            return self.report(id, report, value).await;
        }
        let is_known = self.owner_of(id).await?.is_some();
        Ok(if is_known { ControlOutcome::TooLate } else { ControlOutcome::NoSuchCall })
    }

    /// Delivers the result of a worker for its attempt of a call. It counts only if the worker still has the call.
    ///
    /// If this node owns the call and watches the lease, the result is accepted in memory. Otherwise it is stored for the
    /// node that owns the call. In both cases the end of the call says whether it ended with this result.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn answer_of_worker(
        &self,
        (id, attempt): (Uuid, u32),
        answer: ToolOutput,
    ) -> Result<ControlOutcome, StoreError> {
        fault::pass(Point::BeforeAnswer);
        let result = PostedResult::from(answer);
        let digest = result.digest;
        let result = match self.accept_here((id, attempt), result) {
            // A run that has ended stays known for a moment.
            Ok(post) if post.has_ended() => return Ok(ControlOutcome::TooLate),
            Ok(post) => {
                fault::pass(Point::AfterAnswer);
                return match tokio::time::timeout(RECORD_TIMEOUT, post.end()).await {
                    Ok(Some(end)) if end.digest == digest => Ok(ControlOutcome::Ended(end.status)),
                    Ok(Some(_)) => Ok(ControlOutcome::TooLate),
                    // The call did not end here, so the rows decide.
                    _ => self.wait_attempt_decided((id, attempt), Some(digest), false, Duration::ZERO).await,
                };
            }
            Err(result) => result,
        };
        let message = ControlMessage::result(result).message(id)?;
        let mut is_stored = self.stores.answer_offer(attempt, self.ids.next(), &message).await?;
        fault::pass(Point::AfterAnswer);
        if is_stored {
            self.inbox.process_messages_of(id).await;
            self.offers.wake(id);
            self.signal(id);
        } else {
            // An earlier request may have stored it.
            is_stored = self.stores.posted_result(id).await?.as_ref() == Some(&message.body);
        }
        // The node that owns the call may have accepted another result in memory, and its commit decides.
        let digest = is_stored.then_some(digest);
        self.wait_attempt_decided((id, attempt), digest, is_stored, DECISION_TIMEOUT).await
    }

    /// Waits until it is known whether the call ends with the result of this digest, which this attempt has posted. `None`
    /// is a result that was neither accepted nor stored, so that it only waits until the call no longer accepts one.
    async fn wait_attempt_decided(
        &self,
        (id, attempt): (Uuid, u32),
        digest: Option<i64>,
        is_stored: bool,
        timeout: Duration,
    ) -> Result<ControlOutcome, StoreError> {
        let until = Instant::now() + timeout;
        let mut pauses = Pauses::default();
        loop {
            // Read before the call: the offer of a call that has ended with a result is deleted after its end.
            let offer = if is_stored { None } else { Some(self.stores.offer_of(id).await?) };
            let Some(call) = self.stores.calls_of_any_tenant(&[id]).await?.pop() else {
                return Ok(ControlOutcome::NoSuchCall);
            };
            if call.status.is_terminal() {
                let is_of_call = call.attempts == attempt && digest.is_some_and(|digest| call.has_ended_with(digest));
                return Ok(if is_of_call { ControlOutcome::Ended(call.status) } else { ControlOutcome::TooLate });
            }
            match offer {
                // The call is about to end: with the stored result of another request, or otherwise.
                Some(Some(offer)) if offer.attempt == attempt && offer.state != OfferState::Waiting => {}
                Some(_) => return Ok(ControlOutcome::TooLate),
                None => {}
            }
            if Instant::now() >= until {
                return Ok(ControlOutcome::Busy);
            }
            pauses.next().await;
        }
    }

    /// Accepts a result for a call of this node. Returns it if this node cannot accept it.
    fn accept_here(&self, (id, attempt): (Uuid, u32), result: PostedResult) -> Result<RecordedPost, PostedResult> {
        let Some(signals) = self.live.get(id) else { return Err(result) };
        self.offers.accept((id, attempt), result, |result| signals.posted.post_to_record(result))
    }
}
