//! Calls on their way, as their caller sees them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::call::accept::AcceptError;
use super::call::recorder::{PendingCall, RecordError};
use super::detach::DetachOnDrop;
use super::submission::Wait;
use crate::domain::Call;

/// Calls on their way. Dropped, they go on by themselves.
#[derive(Debug)]
pub struct InFlightCalls {
    /// The batch, if it is one.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub calls: Vec<PendingCall>,
    work: DetachOnDrop,
    accepted: Option<oneshot::Receiver<Result<(), AcceptError>>>,
    /// Calls that end with their caller.
    guards: Vec<DropGuard>,
}

/// A call as its caller sees it in the end.
#[derive(Debug)]
pub enum WaitOutcome {
    /// It has ended.
    Settled(Arc<Call>),
    /// It goes on.
    Pending(Uuid),
}

impl InFlightCalls {
    pub(super) fn new(batch_id: Option<Uuid>, calls: Vec<PendingCall>, work: DetachOnDrop) -> Self {
        Self { batch_id, calls, work, accepted: None, guards: Vec::new() }
    }

    pub(super) fn accepted_first(self, accepted: oneshot::Receiver<Result<(), AcceptError>>) -> Self {
        Self { accepted: Some(accepted), ..self }
    }

    pub(super) fn cancelled_with_caller(self, calls: Vec<CancellationToken>) -> Self {
        Self { guards: calls.into_iter().map(CancellationToken::drop_guard).collect(), ..self }
    }

    /// Whether nothing has to be on disk before it runs, and its caller waits for everything.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.accepted.is_none()
    }

    /// Returns once the calls are on disk, where that comes first.
    ///
    /// # Errors
    /// If they are not, or others stand for them.
    pub async fn accepted(&mut self) -> Result<(), AcceptError> {
        let Some(accepted) = &mut self.accepted else { return Ok(()) };
        let lost = AcceptError::NotRecorded(RecordError { accepted: false });
        let accepted = tokio::select! {
            biased;
            accepted = &mut *accepted => accepted.unwrap_or(Err(lost)),
            () = &mut self.work => accepted.await.unwrap_or(Err(lost)),
        };
        self.accepted = None;
        accepted
    }

    /// All calls when they have ended and are on disk, in request order. They run here as long as this is awaited.
    ///
    /// # Errors
    /// If one could not be recorded in time; it may still be.
    pub async fn wait_all(self) -> Result<Vec<Arc<Call>>, RecordError> {
        let Self { calls, mut work, guards, .. } = self;
        // The first that is not recorded in time ends the wait: what comes after it in a batch waits for the database.
        let mut ends = std::pin::pin!(async move {
            let mut calls = calls;
            match calls.pop() {
                Some(only) if calls.is_empty() => Ok(vec![only.end().await?]),
                last => try_join_all(calls.into_iter().chain(last).map(PendingCall::end)).await,
            }
        });
        let ended = tokio::select! {
            biased;
            () = &mut work => ends.await,
            ended = &mut ends => ended,
        };
        disarm(guards);
        ended
    }

    /// The calls, in request order, after as long as the caller waits for them. What has not ended by then goes on.
    ///
    /// # Errors
    /// If one that is waited for could not be recorded in time; it may still be.
    pub async fn wait_for(self, wait: Wait) -> Result<Vec<WaitOutcome>, RecordError> {
        let Self { calls, mut work, guards, .. } = self;
        let longest = match wait {
            Wait::AsDeclared | Wait::Result => None,
            Wait::Accepted => Some(Duration::ZERO),
            Wait::For(longest) => Some(longest),
        };
        let is_awaited = |call: &PendingCall| wait != Wait::AsDeclared || call.is_awaited;
        let mut seen: Vec<Option<Arc<Call>>> = calls.iter().map(|_| None).collect();
        let mut calls: Vec<PendingCall> = calls;
        {
            let mut all = std::pin::pin!(async {
                for (call, seen) in calls.iter_mut().zip(&mut seen).filter(|(call, _)| is_awaited(call)) {
                    *seen = Some((&mut call.end).await.unwrap_or(Err(RecordError { accepted: true }))?);
                }
                Ok(())
            });
            let mut too_long = std::pin::pin!(async {
                match longest {
                    Some(longest) => tokio::time::sleep(longest).await,
                    None => std::future::pending().await,
                }
            });
            let mut is_done = false;
            loop {
                tokio::select! {
                    biased;
                    ended = &mut all => break ended?,
                    () = &mut too_long => break,
                    () = &mut work, if !is_done => is_done = true,
                }
            }
        }
        let views = calls.into_iter().zip(seen).map(|(mut call, seen)| {
            let seen = seen.or_else(|| call.end.try_recv().ok()?.ok());
            seen.map_or(WaitOutcome::Pending(call.id), WaitOutcome::Settled)
        });
        let views = views.collect();
        disarm(guards);
        // What is left of the work goes on by itself.
        drop(work);
        Ok(views)
    }

    /// Lets the calls run by themselves.
    #[must_use]
    pub fn detach(self) -> (Vec<PendingCall>, Vec<DropGuard>) {
        (self.calls, self.guards)
    }
}

/// The caller has its answer; what goes on is not stopped.
fn disarm(guards: Vec<DropGuard>) {
    guards.into_iter().for_each(|guard| drop(guard.disarm()));
}
