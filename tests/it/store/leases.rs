//! Leases of nodes, judged by the clock of the database.

use std::time::Duration;

use super::{ACCEPTED, Log};
use crate::support::Backend;

const HOUR: Duration = Duration::from_secs(3600);

impl Log {
    /// Returns the nodes whose leases have expired.
    async fn lost(&self, lease: Duration) -> Vec<String> {
        let nodes = self.store.nodes(lease).await.unwrap();
        let mut lost: Vec<_> = nodes.into_iter().filter(|node| node.is_over).map(|node| node.node).collect();
        lost.sort();
        lost
    }
}

on_both_databases!(
    async fn first_check_detects_expired_leases(backend: Backend) {
        let log = Log::open(backend).await;
        log.store.beat("alive", HOUR).await.unwrap();
        log.store.beat("silent", Duration::ZERO).await.unwrap();
        assert_eq!(log.lost(HOUR).await, ["silent"]);
        log.sql("UPDATE nodes SET beat_at = beat_at - 3600000 WHERE node = 'alive'").await;
        assert_eq!(log.lost(HOUR).await, ["alive", "silent"]);
        log.store.beat("alive", HOUR).await.unwrap();
        assert_eq!(log.lost(HOUR).await, ["silent"], "it has come back");
    }
);

on_both_databases!(
    async fn heartbeat_reports_that_a_node_was_declared_lost(backend: Backend) {
        let log = Log::open(backend).await;
        assert!(log.store.beat("node", HOUR).await.unwrap(), "it is new");
        assert!(!log.store.beat("node", HOUR).await.unwrap());
        log.sql("DELETE FROM nodes").await;
        assert!(log.store.beat("node", HOUR).await.unwrap());
        assert!(!log.store.beat("node", HOUR).await.unwrap());
    }
);

on_both_databases!(
    async fn node_of_an_earlier_version_has_a_lease(backend: Backend) {
        let log = Log::open(backend).await;
        let beat = "INSERT INTO nodes AS n (node, beat) VALUES ('old', 1) \
            ON CONFLICT (node) DO UPDATE SET beat = n.beat + 1";
        log.sql(beat).await;
        assert!(log.lost(HOUR).await.is_empty());
        log.sql("UPDATE nodes SET beat_at = beat_at - 3600000").await;
        assert_eq!(log.lost(HOUR).await, ["old"]);
        log.sql(beat).await;
        assert!(log.lost(HOUR).await.is_empty());
    }
);

on_both_databases!(
    async fn clock_set_back_keeps_no_lost_node(backend: Backend) {
        let log = Log::open(backend).await;
        log.store.beat("silent", Duration::ZERO).await.unwrap();
        log.sql("UPDATE nodes SET beat_at = beat_at + 3600000").await;
        assert!(log.lost(HOUR).await.is_empty());
        assert_eq!(log.lost(HOUR).await, ["silent"], "its lease counts from the time that it is now");
    }
);

on_both_databases!(
    async fn node_declared_lost_does_not_adopt_its_running_calls(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.call("t");
        log.write(&call, ACCEPTED).await.unwrap();
        log.store.beat(&call.node, HOUR).await.unwrap();
        log.sql("DELETE FROM nodes").await;
        let adopted = async |node: &str| {
            let (calls, done) = log.store.adopt(node, 10).await;
            done.unwrap();
            calls.into_iter().map(|call| call.id).collect::<Vec<_>>()
        };
        assert!(adopted(&call.node).await.is_empty(), "its next heartbeat brings its row back");
        assert_eq!(adopted("other").await, [call.id]);
    }
);
