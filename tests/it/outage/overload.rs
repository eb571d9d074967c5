//! Overload: calls beyond the limits are rejected before acceptance.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use toolpost::config::Config;

use crate::support::calls::gated;
use crate::support::shapes::succeeded;
use crate::support::stall::Stall;
use crate::support::{Answer, App, Backend, HttpTool, Options, Response, eventually};

on_both_databases!(
    async fn call_beyond_the_memory_budget_is_rejected_and_later_ones_succeed(backend: Backend) {
        let options =
            Options { max_in_flight_mib: Some(1), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let app = App::start_with(backend, options).await;
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
        app.http_tool("act", &server).await;
        let large = json!({"name": "act", "id": "large", "arguments": {"text": "x".repeat(300_000)}});
        let running = tokio::spawn({
            let client = (*app).clone();
            async move { client.call_with(large).await }
        });
        server.received(1).await;
        for body in [json!({"name": "echo"}), json!({"calls": [{"name": "act", "id": "refused"}]})] {
            let refused = app.post("/tool-calls", &body).await;
            assert!(!refused.header("retry-after").is_empty() && refused.header("location").is_empty());
            assert_eq!(refused.problem(503)["code"], "OVERLOADED");
        }
        server.open();
        succeeded(&running.await.unwrap());
        // The memory is released a moment after the response to the first call.
        let later = eventually("room", || async {
            let answer = app.post("/tool-calls", &json!({"name": "act"})).await;
            (answer.status == 200).then_some(answer.json)
        })
        .await;
        succeeded(&later);
        assert_eq!((server.requests().len(), app.stats("echo").await["execution_count"].as_u64()), (2, Some(0)));
        let calls = app.get("/tool-calls").await.ok();
        assert_eq!(calls["tool_calls"].as_array().unwrap().len(), 2, "nothing of what was refused was accepted");
    }
);

fn overloaded(answer: Response) {
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.problem(503)["code"], "OVERLOADED");
}

/// Limits the backlog to three calls. The patience is long, so that no call times out in a test.
fn three(config: &mut Config) {
    (config.server.max_backlog, config.server.burst, config.store.patience_ms) = (3, 0, 60_000);
}

on_both_databases!(
    async fn slow_database_rejects_more_calls_and_accepted_ones_end(backend: Backend) {
        let app = App::tuned(backend, three).await;
        let stall = Stall::begin(&app).await;
        let mut taken = Vec::new();
        for calls in 1..=3 {
            taken.push(app.posted(json!({"name": "echo", "arguments": {"text": "x".repeat(10_000)}})));
            stall.holds(&app, calls).await;
        }
        // Every kind of submission is rejected immediately, while the accepted calls still wait.
        for body in [
            json!({"name": "echo"}),
            json!({"name": "echo", "wait": "accepted"}),
            json!({"calls": [{"name": "echo"}, {"name": "echo"}]}),
            json!({"name": "echo", "callback_url": "http://127.0.0.1:1/"}),
        ] {
            overloaded(app.post("/tool-calls", &body).await);
        }
        overloaded(app.post_with("/tool-calls", &[("idempotency-key", "k")], &json!({"name": "echo"})).await);
        overloaded(app.post_with("/tool-calls", &[("accept", "text/event-stream")], &json!({"name": "echo"})).await);
        assert!(taken.iter().all(|call| !call.is_finished()));
        // Requests that do not use the journal are served.
        assert_eq!(app.get("/tools").await.status, 200);
        assert_eq!(app.get("/healthz").await.status, 200);
        stall.end().await;
        for call in taken {
            succeeded(&call.await.unwrap().ok());
        }
        succeeded(&app.call("echo", json!({})).await);
        assert_eq!(app.all_calls().await.len(), 4, "nothing of what was refused was accepted");
        assert_eq!(app.stats("echo").await["execution_count"], 4);
        nothing_is_held(&app).await;
    }
);

/// Waits until all memory and slots are released.
async fn nothing_is_held(app: &App) {
    let lines = ["backlog_calls", "in_flight_memory_bytes", "queue_accepted", "journal_changes_waiting"];
    eventually("everything to be given back", || async {
        let metrics = app.get("/metrics").await.text();
        lines.iter().all(|name| metrics.contains(&format!("\ntoolpost_{name} 0\n"))).then_some(())
    })
    .await;
}

on_both_databases!(
    async fn running_calls_are_no_backlog(backend: Backend) {
        let app = App::tuned(backend, three).await;
        let server = gated("done").await;
        app.http_tool("slow", &server).await;
        let running: Vec<_> = (0..10).map(|n| app.posted(json!({"name": "slow", "id": n.to_string()}))).collect();
        // Their starts are recorded one at a time as the backlog allows; rejected calls are retried.
        let mut taken = Vec::new();
        for (n, answer) in running.into_iter().enumerate() {
            taken.push(until_taken(&app, answer, n));
        }
        let taken = futures_util::future::join_all(taken);
        let opened = async {
            server.received(10).await;
            succeeded(&app.call("echo", json!({})).await);
            server.open();
        };
        let (taken, ()) = tokio::join!(taken, opened);
        for call in &taken {
            succeeded(call);
        }
        nothing_is_held(&app).await;
    }
);

/// Returns the ended call. Retries it while it is rejected.
async fn until_taken(app: &App, first: JoinHandle<Response>, n: usize) -> Value {
    let mut answer = first.await.unwrap();
    while answer.status == 503 {
        answer = app.posted(json!({"name": "slow", "id": n.to_string()})).await.unwrap();
    }
    answer.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_is_served_up_to_its_limit() {
    let app = App::tuned(Backend::Sqlite, |config| {
        three(config);
        (config.server.burst, config.server.burst_ms) = (8, 60_000);
    })
    .await;
    let stall = Stall::begin(&app).await;
    let mut taken = Vec::new();
    for calls in 1..=8 {
        taken.push(app.posted(json!({"name": "echo"})));
        stall.holds(&app, calls).await;
    }
    overloaded(app.post("/tool-calls", &json!({"name": "echo"})).await);
    stall.end().await;
    for call in taken {
        succeeded(&call.await.unwrap().ok());
    }
}
