//! The time in which no node is declared lost.

use std::time::Duration;

use tokio::time::Instant;

use toolpost_store::store::nodes::NodeState;

/// The time during which this node must not declare other nodes lost.
///
/// Leases are judged only by the clock of the database. If this node was frozen or the database was unavailable, the
/// other nodes may have been cut off, too. They then have one lease to return.
#[derive(Debug, Default)]
pub(super) struct GracePeriod(Option<Instant>);

impl GracePeriod {
    /// Begins the period again.
    pub fn restart(&mut self, lease: Duration) {
        self.0 = Instant::now().checked_add(lease);
    }

    /// Returns the lost nodes. The row of this node, `own`, is from its previous heartbeat.
    pub fn lost(&mut self, nodes: Vec<NodeState>, own: &str, lease: Duration) -> Vec<NodeState> {
        let has_lasted = nodes.iter().any(|node| node.node == own && !node.is_over);
        if !has_lasted {
            self.restart(lease);
        }
        if self.0.is_some_and(|until| Instant::now() < until) {
            return Vec::new();
        }
        self.0 = None;
        nodes.into_iter().filter(|node| node.is_over && node.node != own).collect()
    }
}
