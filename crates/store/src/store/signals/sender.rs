//! The task that sends the signals of this node.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection, Postgres};
use tokio::time::{Instant, MissedTickBehavior};

use super::kind::Signal;
use super::{APPLICATION, CHANNEL, Signals, payload};
use crate::store::db::Pools;

/// Interval at which a node shows its presence: other nodes learn whether it watches commits, and its own listener
/// whether its connection still works.
pub(super) const PRESENCE: Duration = Duration::from_secs(5);
/// Timeout for connecting, and for sending.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum and maximum wait after a failure.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Sends signals until they are closed, and then the pending ones.
pub(super) async fn run(signals: Signals, pools: Arc<Pools<Postgres>>, node: Arc<str>) {
    let mut sender = Sender { pools, connection: None };
    let mut presence = tokio::time::interval(PRESENCE);
    presence.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut backoff = BACKOFF.0;
    let inner = &signals.0;
    loop {
        let mut batch = tokio::select! {
            () = inner.stop.cancelled() => break,
            _ = presence.tick() => vec![signals.presence()],
            batch = inner.outbox.take() => batch,
        };
        while let Err(error) = sender.send(&node, &batch).await {
            tracing::debug!(%error, "cannot send signals to other nodes");
            let retry_at = Instant::now() + backoff;
            backoff = (backoff * 2).min(BACKOFF.1);
            if tokio::time::timeout_at(retry_at, inner.stop.cancelled()).await.is_ok() {
                return;
            }
            // Covers what is waiting by now.
            inner.outbox.take_now();
            batch = vec![Signal::Everything, signals.presence()];
        }
        backoff = BACKOFF.0;
        inner.counts.add_sent(&batch);
    }
    let last = inner.outbox.take_now();
    if sender.send(&node, &last).await.is_ok() {
        inner.counts.add_sent(&last);
    }
}

/// Sends the pending signals of a process that is not a node.
pub(super) async fn send_pending(signals: &Signals, pools: &Arc<Pools<Postgres>>) {
    let batch = signals.0.outbox.take_now();
    let mut sender = Sender { pools: pools.clone(), connection: None };
    if sender.send("", &batch).await.is_ok() {
        signals.0.counts.add_sent(&batch);
    }
}

/// The connection over which signals are sent.
struct Sender {
    pools: Arc<Pools<Postgres>>,
    connection: Option<PgConnection>,
}

impl Sender {
    /// Sends signals in one transaction. After a failure, the next call connects again.
    async fn send(&mut self, node: &str, signals: &[Signal]) -> Result<(), sqlx::Error> {
        const SQL: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";
        if signals.is_empty() {
            return Ok(());
        }
        let payloads = payload::write(node, signals);
        let sending = async {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            sqlx::query(SQL).bind(CHANNEL).bind(payloads).execute(&mut connection).await?;
            self.connection = Some(connection);
            Ok(())
        };
        tokio::time::timeout(TIMEOUT, sending).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        // The options of the pools name the primary, also after a fail-over. A lost signal is permitted, so the server
        // does not wait for its disk or a standby while it holds the lock of `NOTIFY`.
        let options = self.pools.reader.pool().connect_options();
        let options = (*options)
            .clone()
            .application_name(APPLICATION)
            .options([("synchronous_commit", "off"), ("statement_timeout", "5000")]);
        PgConnection::connect_with(&options).await
    }
}
