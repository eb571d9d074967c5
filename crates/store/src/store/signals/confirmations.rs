//! The versions of tools and rules that the other nodes have confirmed. A change is acknowledged once all nodes use it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

/// Maximum time for the other nodes to confirm a change. A node that does not confirm it in time reads it with its next
/// poll.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The confirmations that this node has received.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// The name of this node, once it receives signals.
    node: OnceLock<Arc<str>>,
    versions: watch::Sender<HashMap<String, i64>>,
}

impl Confirmations {
    /// Records that this node receives signals from now on.
    pub fn start(&self, node: Arc<str>) {
        // It starts once.
        let _ = self.node.set(node);
    }

    /// Returns the name of this node; `None` if it receives no confirmations.
    pub fn node(&self) -> Option<&Arc<str>> {
        self.node.get()
    }

    /// Records that a node uses a version.
    pub fn add(&self, node: String, version: i64) {
        self.versions.send_modify(|versions| {
            let known = versions.entry(node).or_insert(version);
            *known = (*known).max(version);
        });
    }

    /// Waits until these nodes use this version or a later one. Returns `false` if one of them has not confirmed it in time.
    pub async fn wait(&self, nodes: &[String], version: i64) -> bool {
        // What is known of nodes that are gone.
        self.versions.send_if_modified(|versions| {
            versions.retain(|node, _| nodes.contains(node));
            false
        });
        let mut versions = self.versions.subscribe();
        let all = versions.wait_for(|versions| {
            nodes.iter().all(|node| versions.get(node).is_some_and(|confirmed| *confirmed >= version))
        });
        tokio::time::timeout(TIMEOUT, all).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn change_waits_for_every_node() {
        let confirmations = Confirmations::default();
        let nodes = ["a".to_owned(), "b".to_owned()];
        assert!(confirmations.wait(&[], 7).await);
        confirmations.add("a".into(), 8);
        confirmations.add("b".into(), 6);
        assert!(!confirmations.wait(&nodes, 7).await);
        let (confirmed, ()) = tokio::join!(confirmations.wait(&nodes, 7), async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            confirmations.add("b".into(), 7);
            confirmations.add("b".into(), 5);
        });
        assert!(confirmed && confirmations.wait(&nodes, 7).await);
        assert!(confirmations.wait(&nodes[..1], 8).await);
        assert!(!confirmations.wait(&nodes, 7).await, "the other one was gone");
    }
}
