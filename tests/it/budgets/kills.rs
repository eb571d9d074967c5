//! Budgets of services that die: between their writes, and killed while other nodes run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{budget, usage};
use crate::support::calls::tool;
use crate::support::killable::Killable;
use crate::support::{Answer, Backend, Client, Database, HttpTool, eventually};

const POINTS: [&str; 6] = ["BeforeAccept", "AfterAccept", "BeforeRun", "AfterRun", "BeforeSettle", "AfterSettle"];
/// The maximum of the budget. It is reached while services die.
const LIMIT: usize = 90;

fn node(database: &Database) -> Killable {
    let settings = [("TOOLPOST__NODE__HEARTBEAT_MS", "100"), ("TOOLPOST__NODE__LEASE_MS", "2000")];
    Killable::new(&database.url, settings.map(|(name, value)| (name, value.to_owned())).to_vec())
}

/// Makes calls until it is stopped, also while the service is gone.
struct Callers(Arc<AtomicBool>, Vec<tokio::task::JoinHandle<()>>);

impl Callers {
    fn start(client: &Client) -> Self {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let work = |caller: usize| {
            let (client, is_stopping) = (client.clone(), is_stopping.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    if is_stopping.load(Ordering::Relaxed) {
                        return;
                    }
                    let wait = if n % 2 == 0 { "accepted" } else { "result" };
                    let body = json!({"name": "write", "arguments": {"caller": caller, "n": n}, "wait": wait});
                    let sent = client.request(reqwest::Method::POST, "/tool-calls").json(&body).send().await;
                    if sent.is_err() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            })
        };
        let tasks = (0..4).map(work).collect();
        Self(is_stopping, tasks)
    }

    async fn stop(self) {
        self.0.store(true, Ordering::Relaxed);
        for task in self.1 {
            task.await.unwrap();
        }
    }
}

/// Waits until all calls have ended, and checks that the budget counts exactly those that ran.
async fn count_settled(client: &Client, server: &HttpTool) -> usize {
    eventually("the end of all calls", async || {
        let mut left = 0;
        for status in ["WAIT", "DOING"] {
            let page = client.get(&format!("/tool-calls?status={status}")).await;
            left += page.json["tool_calls"].as_array()?.len();
        }
        (left == 0).then_some(())
    })
    .await;
    let mut ran = 0;
    // The calls that have run. The others were rejected.
    for filter in ["status=SUCCESS", "code=OUTCOME_UNKNOWN"] {
        let page = client.get(&format!("/tool-calls?name=write&limit=500&{filter}")).await.ok();
        ran += page["tool_calls"].as_array().unwrap().len();
    }
    assert!(ran <= LIMIT && server.requests().len() <= LIMIT, "{ran} calls, {} requests", server.requests().len());
    // What the lost process held is free.
    eventually("the use", async || (usage(client, "b").await == json!([ran, 0, LIMIT])).then_some(())).await;
    ran
}

/// Uses the rest of the budget.
async fn use_up(client: &Client, ran: usize) {
    for n in ran..LIMIT {
        let call = client.call("write", json!({"n": n})).await;
        assert_eq!(call["status"], "SUCCESS", "call {n}: {call:#}");
    }
    assert_eq!(client.call("write", json!({})).await["error"]["code"], "BUDGET_EXCEEDED");
    assert_eq!(usage(client, "b").await, json!([LIMIT, 0, LIMIT]));
}

async fn prepare(client: &Client, server: &HttpTool) {
    assert_eq!(client.post("/tools", &tool("write", server, json!({}))).await.status, 201);
    budget(client, "b", json!({"match": {"tools": ["write"]}, "max_calls": LIMIT})).await;
}

on_both_databases!(
    async fn budget_is_exact_when_a_service_dies_between_its_writes(backend: Backend) {
        let (database, server) = (Database::fresh(backend).await, HttpTool::answering(Answer::text("ok")).await);
        let mut service = node(&database);
        service.start().await;
        let client = service.client().without_reuse();
        prepare(&client, &server).await;
        service.kill().await;
        for (round, point) in POINTS.into_iter().enumerate() {
            let callers = Callers::start(&client);
            service.start_to_die_at(&format!("{point}:{}", 2 + round)).await;
            callers.stop().await;
        }
        service.start().await;
        let ran = count_settled(&client, &server).await;
        use_up(&client, ran).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn node_uses_the_share_of_a_killed_one() {
    requires_postgres!();
    let (database, server) = (Database::fresh(Backend::Postgres).await, HttpTool::answering(Answer::text("ok")).await);
    let (mut one, mut other) = (node(&database), node(&database));
    one.start().await;
    prepare(&one.client(), &server).await;
    other.start().await;
    let callers = Callers::start(&one.client().without_reuse());
    server.received(5).await;
    one.kill().await;
    callers.stop().await;
    let client = other.client().without_reuse();
    let ran = count_settled(&client, &server).await;
    use_up(&client, ran).await;
}
