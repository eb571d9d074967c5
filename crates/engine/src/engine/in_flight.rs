//! Submitted calls that have not ended, as seen by their caller.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use uuid::Uuid;

use super::call::accept::AcceptError;
use super::call::log::{PendingCall, RecordError};
use super::detach::DetachOnDrop;
use super::submission::Wait;
use toolpost_core::domain::Call;

/// Submitted calls that have not ended. They continue to run if this value is dropped.
#[derive(Debug)]
pub struct InFlightCalls {
    /// The batch of the calls, if they are one.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub calls: Vec<PendingCall>,
    work: DetachOnDrop,
    /// Receives the result of the acceptance, if the calls are accepted first.
    pub(super) accepted: Option<oneshot::Receiver<Result<(), AcceptError>>>,
    /// Cancel the calls when the caller disconnects.
    pub(super) guards: Vec<DropGuard>,
}

/// The result of waiting for a call.
#[derive(Debug)]
pub enum WaitOutcome {
    /// The call has ended.
    Settled(Arc<Call>),
    /// The call continues.
    Pending(Uuid),
}

impl InFlightCalls {
    pub(super) fn new(batch_id: Option<Uuid>, calls: Vec<PendingCall>, work: DetachOnDrop) -> Self {
        Self { batch_id, calls, work, accepted: None, guards: Vec::new() }
    }

    /// Returns `true` if the calls are not accepted first, so that the caller waits for all of them.
    pub fn is_plain(&self) -> bool {
        self.accepted.is_none()
    }

    /// Waits until the calls are committed. Returns immediately if they are not accepted first.
    ///
    /// # Errors
    /// Returns an [`AcceptError`] if they were not committed, or another request has claimed one of their keys.
    pub async fn accepted(&mut self) -> Result<(), AcceptError> {
        let Some(accepted) = &mut self.accepted else { return Ok(()) };
        let accepted = tokio::select! {
            biased;
            accepted = &mut *accepted => accepted.unwrap_or(Err(AcceptError::NotRecorded)),
            () = &mut self.work => accepted.await.unwrap_or(Err(AcceptError::NotRecorded)),
        };
        self.accepted = None;
        accepted
    }

    /// Waits until all calls have ended and are committed. Returns them in request order. The calls run in this task
    /// while it waits.
    ///
    /// # Errors
    /// Returns a [`RecordError`] if a call could not be recorded in time. It may still be recorded later.
    pub async fn wait_all(self) -> Result<Vec<Arc<Call>>, RecordError> {
        let Self { calls, mut work, guards, .. } = self;
        // Stop at the first call that is not recorded in time: later calls of the batch wait for the same database.
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

    /// Waits for the calls as `wait` requires. Returns them in request order. Calls that have not ended by then
    /// continue.
    ///
    /// # Errors
    /// Returns a [`RecordError`] if a call could not be recorded in time. It may still be recorded later.
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
        // Dropping the work moves the rest of it to a task of its own.
        drop(work);
        Ok(views)
    }

    /// Moves the calls to a task of their own. Dropping a returned guard cancels its call.
    pub fn detach(self) -> (Vec<PendingCall>, Vec<DropGuard>) {
        (self.calls, self.guards)
    }
}

/// Disarms the guards: the caller has its response, so calls that continue must not be cancelled.
fn disarm(guards: Vec<DropGuard>) {
    guards.into_iter().for_each(|guard| drop(guard.disarm()));
}
