//! Outages of the database: acknowledged calls are kept, and all others are reported clearly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::postgres::PgCluster;
use crate::support::{App, Client, Options, Response, eventually};

mod crash;
mod frozen;
mod full;
mod overload;
mod slow;
mod unavailable;

/// Starts a cluster for this test and a service on it.
async fn service(options: Options) -> (App, Arc<PgCluster>) {
    let cluster = tokio::task::spawn_blocking(|| Arc::new(PgCluster::start())).await.unwrap();
    let maker = cluster.clone();
    let url = tokio::task::spawn_blocking(move || maker.create_database()).await.unwrap();
    (App::start_at(url, options).await, cluster)
}

/// Runs `work` on the cluster on a blocking thread.
async fn with(cluster: &Arc<PgCluster>, work: impl FnOnce(&PgCluster) + Send + 'static) {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || work(&cluster)).await.unwrap();
}

/// Waits until `/readyz` says this.
async fn readyz(client: &Client, status: u16) {
    eventually("readiness to change", || async { (client.get("/readyz").await.status == status).then_some(()) }).await;
}

/// Checks for a 503 that reports the unavailable database with `retry-after`. Returns the location of the call if it
/// was accepted.
fn unavailable(answer: Response) -> Option<String> {
    assert!(!answer.header("retry-after").is_empty());
    let location = answer.header("location").to_owned();
    assert_eq!(answer.problem(503)["code"], "STORE_UNAVAILABLE");
    Some(location).filter(|location| !location.is_empty())
}

/// Tasks that alternately call a read-only tool and one with effects, and record every response.
struct Load {
    client: Client,
    seen: Arc<LoadRecord>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct LoadRecord {
    /// Id and status of each call that was answered with 200.
    acknowledged: Mutex<Vec<(String, String)>>,
    /// Locations of accepted calls whose end was not acknowledged.
    accepted: Mutex<Vec<String>>,
    answered: AtomicUsize,
    turned_away: AtomicUsize,
    stop: AtomicBool,
}

impl Load {
    async fn start(app: &App, tasks: usize) -> Self {
        app.echo_of("write", json!({})).await;
        let (client, seen): (Client, Arc<LoadRecord>) = ((**app).clone(), Arc::default());
        let tasks = (0..tasks).map(|task| tokio::spawn(caller(client.clone(), seen.clone(), task))).collect();
        Self { client, seen, tasks }
    }

    /// Waits until `count` more calls were answered with 200.
    async fn more(&self, count: usize) {
        let wanted = self.seen.answered.load(Ordering::Relaxed) + count;
        eventually("answers", || async { (self.seen.answered.load(Ordering::Relaxed) >= wanted).then_some(()) }).await;
    }

    /// Waits until `count` more calls were answered with 503.
    async fn turned_away(&self, count: usize) {
        let wanted = self.seen.turned_away.load(Ordering::Relaxed) + count;
        eventually("refusals", || async { (self.seen.turned_away.load(Ordering::Relaxed) >= wanted).then_some(()) })
            .await;
    }

    /// Stops the load and compares the responses with the stored calls and the stats.
    async fn check(self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            crate::support::bounded("a caller", task).await.unwrap();
        }
        let client = &self.client;
        // Calls whose clients got a 503 may still be waiting for their commit.
        for status in ["WAIT", "DOING"] {
            eventually("the end of every call", || async {
                let open = client.get(&format!("/tool-calls?status={status}&limit=1")).await.ok();
                open["tool_calls"].as_array().unwrap().is_empty().then_some(())
            })
            .await;
        }
        let stored = stored(client).await;
        for (id, status) in self.seen.acknowledged.lock().unwrap().iter() {
            assert_eq!(stored.get(id).map(|call| call.1.as_str()), Some(status.as_str()), "{id} was acknowledged");
        }
        for location in self.seen.accepted.lock().unwrap().iter() {
            let id = location.strip_prefix("/tool-calls/").unwrap();
            assert!(stored.contains_key(id), "{id} was accepted");
        }
        counted_once(client, &stored).await;
        assert_reported_once(client, &stored).await;
    }
}

async fn caller(client: Client, seen: Arc<LoadRecord>, task: usize) {
    for n in 0.. {
        if seen.stop.load(Ordering::Relaxed) {
            return;
        }
        let name = if (n + task).is_multiple_of(2) { "echo" } else { "write" };
        let answer = client.post("/tool-calls", &json!({"name": name, "arguments": {"n": n}})).await;
        if answer.status == 200 {
            let call = answer.ok();
            let text = |field: &str| call[field].as_str().unwrap().to_owned();
            seen.acknowledged.lock().unwrap().push((text("id"), text("status")));
            seen.answered.fetch_add(1, Ordering::Relaxed);
        } else {
            seen.accepted.lock().unwrap().extend(unavailable(answer));
            seen.turned_away.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the name, the status, and whether the tool ran, of every stored call by its id.
async fn stored(client: &Client) -> BTreeMap<String, (String, String, bool)> {
    let (mut all, mut path) = (BTreeMap::new(), "/tool-calls?limit=500".to_owned());
    loop {
        let page = client.get(&path).await.ok();
        for call in page["tool_calls"].as_array().unwrap() {
            let text = |field: &str| call[field].as_str().unwrap().to_owned();
            let before = all.insert(text("id"), (text("name"), text("status"), !call["started_at"].is_null()));
            assert_eq!(before, None, "{} twice", call["id"]);
        }
        let Some(cursor) = page["next_cursor"].as_str() else { return all };
        path = format!("/tool-calls?limit=500&cursor={cursor}");
    }
}

/// Checks that the stats match the stored calls.
async fn counted_once(client: &Client, stored: &BTreeMap<String, (String, String, bool)>) {
    for name in ["echo", "write"] {
        let of = |status: &str, ran: bool| {
            stored.values().filter(|call| call.0 == name && call.1 == status && call.2 == ran).count() as u64
        };
        let stats = client.stats(name).await;
        let counts = [&stats["success_count"], &stats["failure_count"], &stats["rejected_count"]].map(Value::as_u64);
        let expected = [of("SUCCESS", true), of("ERROR", true), of("ERROR", false)];
        assert_eq!(counts, expected.map(Some), "{name}: {stats:#}");
        assert_eq!(of("SUCCESS", false), 0);
    }
}

/// Checks that the stream of all events has the beginning and end of each call once, and positions without gaps.
async fn assert_reported_once(client: &Client, stored: &BTreeMap<String, (String, String, bool)>) {
    let mut stream = client.events("/events?after=0").await;
    let (mut seqs, mut ended, mut last): (BTreeMap<String, u64>, usize, i64) = Default::default();
    while ended < stored.len() {
        let event = stream.next().await.expect("more events");
        let pos: i64 = event.id.parse().unwrap();
        assert_eq!(pos, last + 1);
        last = pos;
        let seq = seqs.entry(event.data["id"].as_str().unwrap().to_owned()).or_default();
        *seq += 1;
        assert_eq!(event.data["seq"].as_u64(), Some(*seq), "{event:#?}");
        ended += usize::from(event.is_result());
    }
    assert!(seqs.keys().eq(stored.keys()));
}
