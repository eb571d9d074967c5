//! The lists and metrics of workers and queues.

use serde_json::{Value, json};

use super::{called, claim_one, claim_with, finish, service};
use crate::support::calls::id_of;
use crate::support::client::send;
use crate::support::shapes::is_time;
use crate::support::{Backend, Client, eventually};

async fn queues(client: &Client) -> Value {
    client.get("/workers").await.ok()["queues"].clone()
}

on_both_databases!(
    async fn workers_and_queues_are_listed(backend: Backend) {
        let app = service(backend, json!({})).await;
        assert_eq!(app.get("/workers").await.ok(), json!({"workers": [], "queues": []}));
        let (_first, second) = (called(&app, json!({})).await, called(&app, json!({})).await);
        let request = app.request(reqwest::Method::POST, "/workers/q/claim").header("user-agent", "sdk/1.0");
        let answer = send(request.json(&json!({"worker": "w", "wait_ms": 30_000}))).await.ok();
        let call = answer["calls"][0].clone();
        eventually("both calls", async || {
            let queue = queues(&app).await[0].clone();
            (queue["waiting"] == 1 && queue["running"] == 1).then_some(())
        })
        .await;
        let listed = app.get("/workers").await.ok();
        let worker = &listed["workers"][0];
        assert_eq!((&worker["worker"], &worker["queue"], &worker["running"]), (&json!("w"), &json!("q"), &json!(1)));
        assert_eq!((&worker["sdk"], &worker["tools"]), (&json!("sdk/1.0"), &json!([])));
        assert!(is_time(&worker["last_seen_at"]), "{worker}");
        assert!(listed["queues"][0]["oldest_ms"].is_u64(), "{listed}");
        let metrics = app.get("/metrics").await.text();
        for (name, value) in [("worker_queue_waiting", "1"), ("worker_queue_running", "1"), ("workers", "1")] {
            let line = format!("toolpost_{name}{{tenant=\"default\",queue=\"q\"}} {value}");
            assert!(metrics.contains(&line), "{line} in\n{metrics}");
        }
        let oldest = metrics.lines().find_map(|line| {
            line.strip_prefix("toolpost_worker_queue_oldest_seconds{tenant=\"default\",queue=\"q\"} ")
        });
        assert!(oldest.unwrap().parse::<f64>().unwrap() >= 0.0);
        finish(&app, &call, &json!("ok")).await;
        let call = claim_one(&app, "w").await;
        assert_eq!(id_of(&call), second);
        finish(&app, &call, &json!("ok")).await;
        app.ended(&second).await;
        let empty = json!([{"queue": "q", "waiting": 0, "running": 0, "oldest_ms": null}]);
        eventually("an empty queue", async || (queues(&app).await == empty).then_some(())).await;
    }
);

on_both_databases!(
    async fn worker_stays_listed_across_a_restart(backend: Backend) {
        let app = service(backend, json!({})).await;
        claim_with(&app, "w", json!({})).await.ok();
        assert_eq!(app.get("/workers").await.ok()["workers"][0]["worker"], "w");
        let app = app.restart().await;
        assert_eq!(app.get("/workers").await.ok()["workers"][0]["worker"], "w");
    }
);
