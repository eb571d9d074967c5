//! A start with a thousand calls that the previous run of the service left unfinished.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::json;

use super::client::{Ask, Notes};
use super::figures::Figures;
use super::{CALLERS, Streams, WorkNotes, judge, load, service};
use crate::oracle::{self, AGAIN, ONCE, READ};
use crate::support::calls::with;
use crate::support::counter::Counter;
use crate::support::{Backend, Client, Database, LIMIT, eventually};

/// Number of unfinished calls.
const CALLS: usize = 1_000;
/// Minimum number of unfinished calls that are running.
const RUNNING: usize = 16;

on_both_databases!(
    async fn thousand_unfinished_calls_end_after_a_kill(backend: Backend) {
        let name = format!("a thousand unfinished calls on {backend:?}");
        let database = Database::fresh(backend).await;
        let counter = Counter::start();
        let mut service = service(&database.url);
        service.start().await;
        let client = service.client();
        // Running calls must not end before all are accepted, however long that takes.
        let lasting = with(counter.tool(), json!({"limits": {"timeout_ms": 600_000}}));
        oracle::register(&client, &lasting).await;
        let notes = Notes::default();
        let asks = (0..CALLS).map(|number| {
            let tool = [ONCE, ONCE, AGAIN, READ][number % 4];
            Ask::accepted(format!("request-{number}"), tool, "gate")
        });
        let asks: Vec<Ask> = asks.collect();
        accept(&asks, &client, &notes).await;
        eventually("running tools", || async { (counter.count() >= RUNNING).then_some(()) }).await;

        service.kill().await;
        counter.open();
        let mut figures = Figures::of(&name);
        figures.started(service.start().await);
        figures.deaths += 1;
        let (ready, doors) = (Instant::now(), [client.clone()]);
        let watching = stream::iter(&asks).for_each_concurrent(CALLERS, |ask| ask.until_over(&doors, 0, &notes));
        tokio::time::timeout(LIMIT, watching).await.expect("all calls end");
        figures.line("the last call ended after it was ready", format!("{:.1?}", ready.elapsed()));
        let observations = load::Observations::of(&notes, Duration::ZERO);
        let noted = WorkNotes { runs: counter.runs(), posted: Vec::new() };
        judge(&client, observations, Streams::default(), noted, &mut figures).await;
        figures.print();
    }
);

/// Submits all requests and waits until they are accepted.
async fn accept(asks: &[Ask], client: &Client, notes: &Notes) {
    let accepting = stream::iter(asks).for_each_concurrent(CALLERS, |ask| async {
        ask.until_accepted(client, notes).await;
    });
    tokio::time::timeout(LIMIT, accepting).await.expect("all calls are accepted");
    let seen = notes.key_histories.lock().unwrap();
    // A request that a busy machine has refused was sent again.
    assert!(seen.values().all(|history| history.replies.iter().all(|reply| reply.status != 200)), "none is waited for");
}
