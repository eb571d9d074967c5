//! The partitions of the history, and the deletion of expired calls and events, while the service runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::RetentionConfig;
use crate::domain::{Clock, Time};
use crate::store::partitions::{overdue_ms, width_for};
use crate::store::retention::{PruneCounts, RetentionTarget};
use crate::store::{Db, StoreError, Stores};

/// The maximum and minimum time between two checks.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));
/// The time for which messages about deleted calls are kept.
const MESSAGES_MS: u64 = 60 * 60 * 1000;

/// The maximum time between two checks for partitions to create.
const PARTITIONS_INTERVAL_MS: u64 = 60 * 60 * 1000;

/// Creates the next partitions ahead of time until `stop` fires. Every node does.
pub(super) async fn create_partitions(stores: Stores, clock: Clock, width: u64, stop: CancellationToken) {
    let interval = Duration::from_millis((width / 4).clamp(100, PARTITIONS_INTERVAL_MS));
    while tokio::time::timeout(interval, stop.cancelled()).await.is_err() {
        // A commit that needs a partition before the next check creates it.
        if let Err(error) = stores.create_partitions(clock.now(), width).await {
            tracing::debug!(%error, "cannot create partitions ahead");
        }
    }
}

/// Deletes expired rows periodically until `stop` fires. With several nodes, only one deletes at a time.
pub(super) async fn run(stores: Stores, clock: Clock, config: RetentionConfig, stop: CancellationToken) {
    let targets = [(RetentionTarget::Calls, config.calls_ms), (RetentionTarget::Events, config.events_ms)];
    let Some(shortest) = targets.iter().map(|(_, kept)| *kept).filter(|kept| *kept > 0).min() else { return };
    let interval = (Duration::from_millis(shortest) / 4).clamp(INTERVALS.1, INTERVALS.0);
    // Where partitions are dropped, rows are deleted only if a call that must stay has kept their partition.
    let overdue = if matches!(stores.db(), Db::Postgres(_)) { overdue_ms(width_for(config.calls_ms)) } else { 0 };
    loop {
        for (target, kept) in targets.into_iter().filter(|(_, kept)| *kept > 0) {
            let is_calls = target == RetentionTarget::Calls;
            let before = ago(&clock, if is_calls { kept.saturating_add(overdue) } else { kept });
            let done = tokio::select! {
                () = stop.cancelled() => return,
                done = async {
                    if is_calls {
                        let dropped = stores.drop_partitions(ago(&clock, kept)).await?;
                        if dropped > 0 {
                            tracing::info!(partitions = dropped, "dropped partitions of expired calls");
                        }
                    }
                    delete(&stores, target, before, &config).await
                } => done,
            };
            match done {
                Ok((0, 0)) => {}
                Ok((calls, events)) => tracing::info!(calls, events, %before, "deleted expired rows"),
                // The journal logs an unavailable database. The next check continues from the same position.
                Err(error) => tracing::debug!(%error, "cannot delete expired rows"),
            }
        }
        if config.calls_ms > 0 {
            let before = ago(&clock, config.calls_ms.saturating_add(overdue));
            while let Ok(true) = stores.prune_words(before).await {
                tokio::time::sleep(Duration::from_millis(config.pause_ms)).await;
            }
        }
        // A failed deletion is retried at the next check.
        let _ = stores.forget_messages_of_nobody(ago(&clock, MESSAGES_MS)).await;
        if tokio::time::timeout(interval, stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

/// Deletes all expired rows of one target, with pauses in between. Returns the number of deleted calls and events.
async fn delete(
    stores: &Stores,
    target: RetentionTarget,
    before: Time,
    config: &RetentionConfig,
) -> Result<(u64, u64), StoreError> {
    let mut done = (0, 0);
    loop {
        let PruneCounts { calls, events, is_unfinished } = stores.prune(target, before, config.batch.max(1)).await?;
        done = (done.0 + calls, done.1 + events);
        if !is_unfinished {
            return Ok(done);
        }
        tokio::time::sleep(Duration::from_millis(config.pause_ms)).await;
    }
}

fn ago(clock: &Clock, millis: u64) -> Time {
    let micros = i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(1000);
    Time(clock.now().0.saturating_sub(micros))
}
