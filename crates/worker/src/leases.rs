//! Heartbeats: they renew the leases of running calls, and say which calls the worker no longer has.

use std::convert::Infallible;

use uuid::Uuid;

use crate::worker::Shared;

/// Maximum number of calls of one heartbeat.
const MAX_CALLS: usize = 1000;

/// Renews the leases of the running calls until it is dropped.
pub(crate) async fn keep(worker: &Shared) -> Infallible {
    loop {
        for calls in worker.running.due().await.chunks(MAX_CALLS) {
            renew(worker, calls).await;
        }
    }
}

async fn renew(worker: &Shared, calls: &[Uuid]) {
    match worker.service.heartbeat(calls).await {
        Ok(answer) => {
            for (ids, reason) in [(&answer.cancelled, "cancelled"), (&answer.lost, "lost")] {
                for id in ids.iter().filter(|id| worker.running.abandon(id)) {
                    tracing::info!(%id, reason, "stopped a call");
                }
            }
        }
        Err(error) => tracing::warn!(%error, calls = calls.len(), "heartbeat failed"),
    }
}
