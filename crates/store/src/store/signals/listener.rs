//! The task that receives the signals of other nodes.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Postgres;
use sqlx::postgres::{PgListener, PgPoolOptions};

use super::sender::{BACKOFF, PRESENCE};
use super::{APPLICATION, CHANNEL, Signals, payload};
use crate::store::db::Pools;

/// Maximum time without any notification. The own node sends one at each [`PRESENCE`], so a longer silence means that
/// the connection is lost.
const MAX_SILENCE: Duration = PRESENCE.saturating_mul(3);
/// Timeout for connecting.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Receives signals until they are closed. Connects again whenever the connection is lost.
pub(super) async fn run(signals: Signals, pools: Arc<Pools<Postgres>>, node: Arc<str>) {
    let stop = signals.0.stop.clone();
    tokio::select! {
        () = stop.cancelled() => {}
        () = listen(&signals, &pools, &node) => {}
    }
}

async fn listen(signals: &Signals, pools: &Pools<Postgres>, node: &str) {
    let (mut backoff, mut is_lost, mut is_first) = (BACKOFF.0, false, true);
    loop {
        let replaced = pools.reader.replaced();
        match connect(pools).await {
            Ok(mut listener) => {
                if is_lost {
                    tracing::info!("signals of other nodes are received again");
                }
                if !is_first {
                    signals.0.counts.add_reconnect();
                }
                (backoff, is_lost, is_first) = (BACKOFF.0, false, false);
                // Signals before this moment may have been missed.
                signals.deliver_everything();
                signals.0.outbox.push(signals.presence());
                replaced.run_until_cancelled(receive(signals, &mut listener, node)).await;
                tracing::debug!("the connection for signals was lost");
            }
            Err(error) => {
                if !is_lost {
                    is_lost = true;
                    tracing::warn!(%error, "cannot receive signals of other nodes; polling instead");
                }
            }
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF.1);
    }
}

async fn connect(pools: &Pools<Postgres>) -> Result<PgListener, sqlx::Error> {
    // The options of the pools name the primary, also after a fail-over.
    let options = (*pools.reader.pool().connect_options()).clone().application_name(APPLICATION);
    let connecting = async {
        let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let pool = pool.acquire_timeout(TIMEOUT).connect_with(options).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        // A gap must be noticed, so the listener must not connect again on its own.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    };
    tokio::time::timeout(TIMEOUT, connecting).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Delivers signals until the connection is lost.
async fn receive(signals: &Signals, listener: &mut PgListener, node: &str) {
    // A timeout ends the use of the listener, which therefore need not be cancel-safe.
    while let Ok(Ok(Some(notification))) = tokio::time::timeout(MAX_SILENCE, listener.try_recv()).await {
        let Some(received) = payload::read(notification.payload()) else {
            tracing::debug!("ignoring a notification that is not a signal");
            continue;
        };
        if received.from != node {
            received.signals.into_iter().for_each(|signal| signals.deliver(signal));
        }
    }
}
