//! A crash loop faster than the lease: the calls of the service must make progress before its lease expires.

use std::time::Duration;

use serde_json::json;

use super::service;
use crate::support::calls::{gated, has_ended, id_of, idempotent};
use crate::support::shapes::{failed, succeeded};
use crate::support::{Backend, Database, eventually};

/// How long each run lasts after its start: well below the lease.
const LIFE: Duration = Duration::from_millis(700);
/// Number of runs in a loop. Each one begins while the lease of the previous run may still be valid.
const LIVES: usize = 20;

on_both_databases!(
    async fn calls_of_a_service_that_crashes_within_its_lease_are_adopted(backend: Backend) {
        let database = Database::fresh(backend).await;
        let mut node = service(&database.url);
        node.start().await;
        let (client, server) = (node.client(), gated("done").await);
        client.tool("once", &server, json!({"async": true})).await;
        client.tool("again", &server, json!({"async": true, "annotations": idempotent()})).await;
        let mut ids = Vec::new();
        for name in ["once", "again"] {
            let id = id_of(&client.post("/tool-calls", &json!({"name": name})).await.json);
            client.in_phase(&id, "running").await;
            ids.push(id);
        }
        let mut lives = 0;
        while lives < LIVES && !has_ended(&client.stored(&ids[0]).await) {
            node.kill().await;
            node.start().await;
            lives += 1;
            let ended =
                eventually("the end of a call", || async { has_ended(&client.stored(&ids[0]).await).then_some(()) });
            let _ = tokio::time::timeout(LIFE, ended).await;
        }
        failed(&client.stored(&ids[0]).await, "OUTCOME_UNKNOWN");
        server.open();
        assert_eq!(succeeded(&client.ended(&ids[1]).await), "done");
    }
);
