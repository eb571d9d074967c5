//! The loops of the recovery, which do not wait for each other: heartbeats, adoption, messages and clean-up.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::grace::GracePeriod;
use super::{Knowledge, Lease, Recovery};
use crate::engine::Engine;
use toolpost_core::domain::Time;
use toolpost_store::store::StoreError;
use toolpost_store::store::nodes::NodeState;

/// Interval between two deletions of expired idempotency keys, tickets and pauses.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum wait after a failed heartbeat: other nodes depend on it.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The findings of the heartbeats since the last round of the adoption.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The lost nodes of the newest heartbeat.
    lost: Vec<NodeState>,
    /// `true` if this node is new, or was declared lost, or if the database failed.
    has_unknown_calls: bool,
}

impl Engine {
    /// Records the first heartbeat of this node and reads the paused tools, before it accepts any call. Returns `false` if
    /// the disk of a database that has no other nodes is full: nothing is accepted meanwhile, and reads are served.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn sign_on(self: &Arc<Self>, lease: Lease) -> Result<bool, StoreError> {
        let is_registered = match (Recovery { engine: self, lease }).register().await {
            Err(error) if lease.is_alone && error.is_of_disk() => {
                tracing::error!(%error, "the database cannot be written; only reads are served until it can");
                false
            }
            registered => registered?,
        };
        self.shared_pauses().sync().await?;
        Ok(is_registered)
    }

    /// Records heartbeats of this node and adopts the calls of lost nodes, until `stop` fires. `is_registered` is the result
    /// of [`Self::sign_on`].
    pub async fn live_on(self: Arc<Self>, lease: Lease, is_registered: bool, stop: CancellationToken) {
        let recovery = Recovery { engine: &self, lease };
        if lease.is_alone {
            return recovery.run_heartbeat(is_registered, stop).await;
        }
        tokio::join!(recovery.run_heartbeat(is_registered, stop.clone()), self.chunks.run(stop));
    }
}

impl Recovery<'_> {
    /// Records heartbeats, and passes their findings on to the adoption.
    pub(super) async fn beat_on(&self, findings: &watch::Sender<Findings>, mut is_registered: bool) {
        let mut grace = GracePeriod::default();
        let mut beat = tokio::time::interval(self.lease.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            // Read before the own heartbeat, because this node's row shows whether its lease has lasted.
            let nodes = self.engine.stores.nodes(self.lease.lease).await;
            // Without its row, this node was declared lost, and other nodes may have adopted its calls. Only the heartbeat
            // itself can tell: the row may be deleted at any time before it.
            let beaten = if is_registered { self.beat().await } else { self.register().await };
            is_registered |= beaten.is_ok();
            let is_lost = beaten.as_ref().is_ok_and(|had_no_row| *had_no_row);
            let (lost, error) = match (nodes, beaten) {
                (Ok(nodes), Ok(_)) => {
                    self.engine.chunks.note_peers(nodes.iter().any(|node| *node.node != **self.engine.node()));
                    (grace.lost(nodes, self.engine.node(), self.lease.lease), None)
                }
                (Err(error), _) | (_, Err(error)) => (Vec::new(), Some(error)),
            };
            if let Some(error) = &error {
                // Other nodes may have been cut off, too.
                grace.restart(self.lease.lease);
                beat.reset_after(self.lease.heartbeat.min(RETRY_INTERVAL));
                tracing::debug!(%error, "the heartbeat failed");
            }
            findings.send_modify(|findings| {
                findings.lost = lost;
                findings.has_unknown_calls |= is_lost || error.is_some();
            });
        }
    }

    /// Adopts the calls of lost nodes after each heartbeat.
    pub(super) async fn adopt_on(&self, findings: &watch::Sender<Findings>) {
        let mut known = Knowledge { may_have_ended_offers: true, ..Knowledge::default() };
        let mut changes = findings.subscribe();
        changes.mark_changed();
        loop {
            let _ = changes.changed().await;
            let mut found = Findings::default();
            findings.send_if_modified(|findings| {
                std::mem::swap(&mut found, findings);
                false
            });
            known.has_unknown_calls |= found.has_unknown_calls;
            if let Err(error) = self.adopt_lost(found.lost, &mut known).await {
                // The failed step may have adopted calls that this node does not know of.
                known.has_unknown_calls = true;
                tracing::debug!(%error, "the adoption failed");
                tokio::time::sleep(self.lease.heartbeat.min(RETRY_INTERVAL)).await;
                changes.mark_changed();
            }
        }
    }

    pub(super) async fn read_messages_on(&self) {
        let mut poll = tokio::time::interval(self.lease.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            poll.tick().await;
            if let Err(error) = self.process_messages().await {
                tracing::debug!(%error, "cannot read messages");
            }
        }
    }

    /// Deletes what has expired. A failed deletion is repeated after the next interval.
    pub(super) async fn clean_up_on(&self) {
        loop {
            tokio::time::sleep(CLEANUP_INTERVAL).await;
            let (stores, now) = (&self.engine.stores, self.engine.clock.now());
            let old = Time(now.0.saturating_sub(i64::try_from(CLEANUP_INTERVAL.as_micros()).unwrap_or(i64::MAX)));
            let budgets = self.engine.budgets();
            let done = [
                ("idempotency keys", stores.forget_keys(now).await.map(drop)),
                ("tickets", stores.delete_ended_tickets(now).await.map(drop)),
                ("pauses", stores.delete_ended_pauses(now).await.map(drop)),
                ("chunks", stores.forget_old_chunks(old).await.map(drop)),
                ("notices", stores.forget_notices_of_lost_nodes().await.map(drop)),
                ("MCP sessions", stores.delete_idle_mcp_sessions(now).await.map(drop)),
                ("budgets", budgets.clean_up().await.map(drop)),
                ("offers", stores.delete_ended_offers().await.map(drop)),
            ];
            for (what, done) in done {
                if let Err(error) = done {
                    tracing::debug!(what, %error, "cannot clean up");
                }
            }
        }
    }
}
