//! Idle workers: one connection each, and nothing else.

use std::sync::Arc;

use serde_json::json;

use super::{called, claim_now, claim_with, service};
use crate::support::Backend;
use crate::support::calls::id_of;

const WORKERS: usize = 1000;

on_both_databases!(
    async fn a_thousand_idle_workers_wait_for_one_call(backend: Backend) {
        let app = service(backend, json!({})).await;
        assert!(claim_now(&app, "first").await.is_empty());
        let client = Arc::new((*app).clone());
        let mut waiting = tokio::task::JoinSet::new();
        for n in 0..WORKERS {
            let client = client.clone();
            waiting.spawn(async move {
                claim_with(&client, &format!("w{n}"), json!({"wait_ms": 60_000})).await.ok()["calls"].clone()
            });
        }
        crate::support::eventually("all workers to wait", async || {
            let text = app.get("/metrics").await.text();
            let value = text.lines().find_map(|line| {
                line.strip_prefix("toolpost_workers{tenant=\"default\",queue=\"q\"} ")?.parse::<usize>().ok()
            });
            (value? > WORKERS).then_some(())
        })
        .await;
        // One of them gets each call, and the others continue to wait.
        for _ in 0..3 {
            let id = called(&app, json!({})).await;
            let calls = waiting.join_next().await.unwrap().unwrap();
            assert_eq!((calls.as_array().unwrap().len(), id_of(&calls[0])), (1, id));
        }
        assert_eq!(waiting.len(), WORKERS - 3);
        waiting.abort_all();
    }
);
