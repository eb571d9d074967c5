//! Deletion of expired calls and events, in steps, while the service runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::RetentionConfig;
use crate::domain::{Clock, Time};
use crate::store::retention::{Pruned, RetentionTarget};
use crate::store::{StoreError, Stores};

/// The maximum and minimum time between two checks.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));
/// The time for which messages about deleted calls are kept.
const MESSAGES_MS: u64 = 60 * 60 * 1000;

/// Deletes expired rows periodically until `stop` fires. With several nodes, only one deletes at a time.
pub(super) async fn run(stores: Stores, clock: Clock, config: RetentionConfig, stop: CancellationToken) {
    let targets = [(RetentionTarget::Calls, config.calls_ms), (RetentionTarget::Events, config.events_ms)];
    let Some(shortest) = targets.iter().map(|(_, kept)| *kept).filter(|kept| *kept > 0).min() else { return };
    let interval = (Duration::from_millis(shortest) / 4).clamp(INTERVALS.1, INTERVALS.0);
    loop {
        for (target, kept) in targets.into_iter().filter(|(_, kept)| *kept > 0) {
            let before = ago(&clock, kept);
            let done = tokio::select! {
                () = stop.cancelled() => return,
                done = delete(&stores, target, before, &config) => done,
            };
            match done {
                Ok((0, 0)) => {}
                Ok((calls, events)) => tracing::info!(calls, events, %before, "deleted expired rows"),
                // The journal logs an unavailable database. The next check continues from the same position.
                Err(error) => tracing::debug!(%error, "cannot delete expired rows"),
            }
        }
        if config.calls_ms > 0 {
            let before = ago(&clock, config.calls_ms);
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
        let Pruned { calls, events, is_unfinished } = stores.prune(target, before, config.batch.max(1)).await?;
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
