//! The loop that claims calls and starts them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::service::{ClaimedCall, Refusal, RequestError};
use crate::worker::Shared;
use crate::{WorkerError, backoff, call};

/// Maximum number of calls of one claim.
const MAX_CLAIM: usize = 64;

/// Claims and starts calls until `stopping` fires. Waits for the service while it is unavailable.
pub(crate) async fn run(
    worker: &Arc<Shared>,
    calls: &mut JoinSet<()>,
    stopping: &CancellationToken,
) -> Result<(), WorkerError> {
    let (mut failures, mut is_registered) = (0, false);
    while !stopping.is_cancelled() {
        let free = tokio::select! {
            biased;
            () = stopping.cancelled() => return Ok(()),
            free = free(worker, calls) => free,
        };
        // A claim is not interrupted: its calls would be lost until their leases end.
        match claim(worker, free.min(MAX_CLAIM), &mut is_registered).await {
            Ok(claimed) => {
                if failures > 0 {
                    tracing::info!("connected again");
                }
                failures = 0;
                claimed.into_iter().for_each(|one| start(worker, calls, one));
            }
            Err(RequestError::Refused(refusal)) if !is_registered => return Err(tools_refused(refusal)),
            Err(RequestError::Refused(refusal)) => return Err(refusal.into()),
            Err(error) => {
                // The service may have forgotten the tools of a worker that it has not seen.
                is_registered = false;
                let delay = backoff::delay(failures, error.retry_after());
                failures = failures.saturating_add(1);
                tracing::warn!(%error, delay_ms = delay.as_millis(), "claim failed");
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = stopping.cancelled() => {}
                }
            }
        }
    }
    Ok(())
}

/// Waits until another call may start. Returns how many may.
async fn free(worker: &Shared, calls: &mut JoinSet<()>) -> usize {
    reap(calls);
    while calls.len() >= worker.max_calls {
        log_panic(calls.join_next().await);
    }
    // Only claims take permits, so the permit is still there afterwards.
    drop(worker.slots.acquire().await);
    worker.slots.available_permits().min(worker.max_calls - calls.len())
}

async fn claim(worker: &Shared, max: usize, is_registered: &mut bool) -> Result<Vec<ClaimedCall>, RequestError> {
    if !*is_registered {
        if let Some(definitions) = &worker.definitions {
            worker.service.register(definitions).await?;
            let tools = definitions.iter().filter_map(|definition| definition["name"].as_str());
            tracing::info!(worker = worker.name, queue = worker.queue, tools = ?tools.collect::<Vec<_>>(), "registered");
        }
        *is_registered = true;
    }
    worker.service.claim(max, worker.poll).await
}

fn start(worker: &Arc<Shared>, calls: &mut JoinSet<()>, claimed: ClaimedCall) {
    let lease = Duration::from_millis(claimed.lease_ms);
    let running = worker.running.add(claimed.id, claimed.attempt, lease);
    // The service gives no more calls than were claimed.
    let slot = worker.slots.clone().try_acquire_owned().ok();
    calls.spawn(call::run(worker.clone(), claimed, running, slot));
}

fn tools_refused(refusal: Refusal) -> WorkerError {
    match refusal.status {
        400 | 409 | 413 | 422 => {
            let Refusal { code, detail, errors, .. } = refusal;
            WorkerError::ToolsRefused { code, detail, errors }
        }
        _ => refusal.into(),
    }
}

fn reap(calls: &mut JoinSet<()>) {
    while let Some(ended) = calls.try_join_next() {
        log_panic(Some(ended));
    }
}

fn log_panic(ended: Option<Result<(), tokio::task::JoinError>>) {
    if let Some(Err(error)) = ended {
        tracing::error!(%error, "a call ended without a result");
    }
}
