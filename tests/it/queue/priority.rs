//! Order of the queue: higher `priority` first, then first in, first out.

use serde_json::{Value, json};

use crate::support::calls::{gated, id_of};
use crate::support::shapes::{points_at, succeeded};
use crate::support::{App, Backend, HttpTool};

/// Accepts one call that runs, then one queued call for each priority. Opens the server and returns the order of its
/// requests as indexes into `priorities`.
async fn order_of(app: &App, server: &HttpTool, name: &str, priorities: &[Option<i64>]) -> Vec<usize> {
    app.accepted(json!({"name": name, "arguments": {"n": 999}})).await;
    server.received(1).await;
    for (n, priority) in priorities.iter().enumerate() {
        let mut body = json!({"name": name, "arguments": {"n": n}});
        if let Some(priority) = priority {
            body["priority"] = json!(priority);
        }
        app.accepted(body).await;
    }
    server.open();
    for call in app.all_calls().await {
        succeeded(&app.ended(&id_of(&call)).await);
    }
    let requests = server.requests();
    let n = |request: &crate::support::ReceivedRequest| request.json()["arguments"]["n"].as_u64().unwrap() as usize;
    assert_eq!((n(&requests[0]), server.max_running()), (999, 1));
    requests[1..].iter().map(n).collect()
}

on_both_databases!(
    async fn higher_priority_comes_first_and_then_the_older_call(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, gated("done").await);
        app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
        let priorities = [None, Some(5), Some(-1), Some(5), Some(0), Some(100), Some(-1)];
        assert_eq!(order_of(&app, &server, "job", &priorities).await, [5, 1, 3, 0, 4, 2, 6]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_equal_priority_run_in_order_of_arrival() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    let order = order_of(&app, &server, "job", &[None; 20]).await;
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_counts_across_the_tools_of_a_node() {
    let app = App::tuned(Backend::Sqlite, |config| config.queue.max_running = 1).await;
    let server = gated("done").await;
    for name in ["a", "b"] {
        app.tool(name, &server, json!({"async": true})).await;
    }
    app.accepted(json!({"name": "a", "id": "first"})).await;
    server.received(1).await;
    for (name, id, priority) in [("a", "low", 1), ("b", "high", 2), ("a", "middle", 1), ("b", "last", 0)] {
        app.accepted(json!({"name": name, "id": id, "priority": priority})).await;
    }
    server.open();
    for call in app.all_calls().await {
        succeeded(&app.ended(&id_of(&call)).await);
    }
    let order: Vec<Value> = server.requests().iter().map(|request| request.json()["call_id"].clone()).collect();
    assert_eq!(order, ["first", "high", "low", "middle", "last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_at_its_limit_does_not_delay_others() {
    let (app, server, other) = (App::with_egress(Backend::Sqlite).await, gated("done").await, gated("done").await);
    app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
    app.tool("other", &other, json!({"async": true})).await;
    for _ in 0..3 {
        app.accepted(json!({"name": "job", "priority": 9})).await;
    }
    other.open();
    let id = app.sent(json!({"name": "other", "priority": -9})).await;
    assert_eq!(succeeded(&app.ended(&id).await), "done");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_priority_is_rejected() {
    let app = App::on_sqlite().await;
    for priority in [json!("high"), json!(1.5), json!({}), json!(3_000_000_000_u64)] {
        let body = json!({"name": "echo", "priority": priority});
        points_at(&app.post("/tool-calls", &body).await.problem(422), "/priority");
    }
}
