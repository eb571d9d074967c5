//! Deletes what is older than it is to be kept, step by step, as long as the service runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::RetentionConfig;
use crate::domain::{Clock, Time};
use crate::store::retention::{Pruned, RetentionTarget};
use crate::store::{StoreError, Stores};

/// Longest time between two looks, and the shortest.
const LOOKS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));
/// Messages about calls that are gone are left alone for this long.
const MESSAGES_MS: u64 = 60 * 60 * 1000;

/// Looks now and then for what is too old, until `stop` fires. On several nodes one of them deletes at a time.
pub(super) async fn run(stores: Stores, clock: Clock, config: RetentionConfig, stop: CancellationToken) {
    let parts = [(RetentionTarget::Calls, config.calls_ms), (RetentionTarget::Events, config.events_ms)];
    let Some(shortest) = parts.iter().map(|(_, kept)| *kept).filter(|kept| *kept > 0).min() else { return };
    let look = (Duration::from_millis(shortest) / 4).clamp(LOOKS.1, LOOKS.0);
    loop {
        for (part, kept) in parts.into_iter().filter(|(_, kept)| *kept > 0) {
            let before = ago(&clock, kept);
            let done = tokio::select! {
                () = stop.cancelled() => return,
                done = delete(&stores, part, before, &config) => done,
            };
            match done {
                Ok((0, 0)) => {}
                Ok((calls, events)) => tracing::info!(calls, events, %before, "deleted what is kept no longer"),
                // A database that is away is told of by the journal; the next look goes on where this one stopped.
                Err(error) => tracing::debug!(%error, "what is kept no longer cannot be deleted"),
            }
        }
        // What could not be forgotten now is forgotten later.
        let _ = stores.forget_messages_of_nobody(ago(&clock, MESSAGES_MS)).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(look) => {}
        }
    }
}

/// Everything of one part, with rests in between. Returns how many calls and events it was.
async fn delete(
    stores: &Stores,
    part: RetentionTarget,
    before: Time,
    config: &RetentionConfig,
) -> Result<(u64, u64), StoreError> {
    let mut done = (0, 0);
    loop {
        let Pruned { calls, events, is_unfinished } = stores.prune(part, before, config.batch.max(1)).await?;
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
