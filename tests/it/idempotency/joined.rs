//! Requests with the same key while the first call runs: they join it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::task::JoinHandle;
use toolpost::tool::{BuiltinTool, async_tool_fn};

use super::{act, keyed, only_call, shut};
use crate::support::calls::{has_ended, id_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client, LIMIT, Options, Response};

/// Posts with the key in a separate task.
fn waiting(app: &App) -> JoinHandle<Response> {
    let client: Client = (**app).clone();
    tokio::spawn(async move { keyed(&client, "key-1", &act()).await })
}

/// Posts with the key without waiting for the end, and returns the id of the unfinished call.
async fn glance(client: &Client) -> String {
    let headers = [("idempotency-key", "key-1"), ("prefer", "respond-async")];
    let answer = client.post_with("/tool-calls", &headers, &act()).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert!(!has_ended(&answer.json));
    let id = id_of(&answer.json);
    assert_eq!(answer.header("location"), format!("/tool-calls/{id}"));
    id
}

on_both_databases!(
    async fn running_call_is_joined(backend: Backend) {
        let (app, server) = shut(backend).await;
        let first = waiting(&app);
        server.received(1).await;
        let id = glance(&app).await;
        let others: Vec<_> = (0..4).map(|_| waiting(&app)).collect();
        assert_eq!(glance(&app).await, id);
        server.open();
        let first = first.await.unwrap().ok();
        assert_eq!((succeeded(&first), id_of(&first)), ("done", id));
        for other in others {
            assert_eq!(other.await.unwrap().ok(), first);
        }
        only_call(&app, &[first]).await;
        assert_eq!(server.requests().len(), 1);
    }
);

on_both_databases!(
    async fn one_of_concurrent_requests_runs(backend: Backend) {
        let (app, server) = shut(backend).await;
        let all: Vec<_> = (0..16).map(|_| waiting(&app)).collect();
        server.received(1).await;
        server.open();
        let mut calls = Vec::new();
        for one in all {
            calls.push(one.await.unwrap().ok());
        }
        only_call(&app, &calls).await;
        assert_eq!(server.requests().len(), 1);
        assert_eq!(app.stats("act").await["execution_count"], 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn one_of_concurrent_requests_on_two_nodes_runs() {
    requires_postgres!();
    let (app, server) = shut(Backend::Postgres).await;
    let other = app.second().await;
    let all: Vec<_> = (0..8).flat_map(|_| [waiting(&app), waiting(&other)]).collect();
    server.received(1).await;
    server.open();
    let mut calls = Vec::new();
    for one in all {
        calls.push(one.await.unwrap().ok());
    }
    only_call(&app, &calls).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_caller_finds_its_call() {
    let (app, server) = shut(Backend::Sqlite).await;
    let first = waiting(&app);
    server.received(1).await;
    first.abort();
    assert!(first.await.is_err());
    let id = glance(&app).await;
    let again = waiting(&app);
    server.open();
    let call = again.await.unwrap().ok();
    assert_eq!((succeeded(&call), id_of(&call)), ("done", id));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn async_call_is_replayed_and_its_end_is_a_200() {
    let (app, server) = shut(Backend::Sqlite).await;
    app.tool("job", &server, json!({"async": true})).await;
    let body = json!({"name": "job"});
    let first = keyed(&app, "k", &body).await;
    let again = keyed(&app, "k", &body).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.header("location"), again.header("location"));
    server.open();
    let call = app.ended(&id_of(&first.json)).await;
    assert_eq!(keyed(&app, "k", &body).await.ok(), call);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_batch_is_joined() {
    let (app, server) = shut(Backend::Sqlite).await;
    let body = json!({"calls": [{"name": "act", "id": "a"}, {"name": "act", "id": "b"}], "mode": "parallel"});
    let first = {
        let (client, body): (Client, _) = ((*app).clone(), body.clone());
        tokio::spawn(async move { keyed(&client, "k", &body).await })
    };
    server.received(2).await;
    let headers = [("idempotency-key", "k"), ("prefer", "respond-async")];
    let glance = app.post_with("/tool-calls", &headers, &body).await;
    let location = format!("/tool-calls?batch_id={}", glance.json["batch_id"].as_str().unwrap());
    assert_eq!((glance.status, glance.header("location")), (202, location.as_str()));
    server.open();
    assert_eq!(first.await.unwrap().ok()["batch_id"], glance.json["batch_id"]);
    assert_eq!(server.requests().len(), 2);
}

/// The number of times that the arguments of [`races`] were read.
static READS: Mutex<usize> = Mutex::new(0);
static READ: Condvar = Condvar::new();
static RUNS: AtomicUsize = AtomicUsize::new(0);

#[derive(Deserialize, JsonSchema)]
struct RaceArgs {
    #[serde(deserialize_with = "after_two_reads")]
    a: i64,
}

/// Reads an argument while a call is planned, and waits until two calls are planned: both requests have then looked up
/// their key, and neither has claimed it.
fn after_two_reads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let mut reads = READS.lock().unwrap();
    *reads += 1;
    READ.notify_all();
    let (_reads, waited) = READ.wait_timeout_while(reads, LIMIT, |reads| *reads < 2).unwrap();
    assert!(!waited.timed_out(), "no second call is planned");
    i64::deserialize(deserializer)
}

fn races() -> BuiltinTool {
    async_tool_fn("act", "Counts its runs.", |args: RaceArgs, _| async move {
        RUNS.fetch_add(1, Ordering::SeqCst);
        Ok(format!("done {}", args.a))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_two_requests_that_saw_a_free_key_runs() {
    let app = App::start_with(Backend::Sqlite, Options { extra: vec![races()], ..Options::default() }).await;
    let (one, other) = (waiting(&app), waiting(&app));
    let (one, other) = (one.await.unwrap().ok(), other.await.unwrap().ok());
    assert_eq!((succeeded(&one), &other), ("done 1", &one));
    only_call(&app, &[one]).await;
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
}
