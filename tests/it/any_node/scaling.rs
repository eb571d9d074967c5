//! Nodes that join, drain and leave behind a real nginx, under load. Callers retry only a 503 with `Retry-After` of a
//! node that drains; every other error fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::subscriber::{Subscriber, is_draining, node_of};
use crate::chaos::times;
use crate::gateway::Nginx;
use crate::oracle::{self, Evidence, KeyHistory, ONCE, Reply, Sight, World};
use crate::support::calls::{has_ended, id_of};
use crate::support::counter::Counter;
use crate::support::killable::Killable;
use crate::support::seeded::Seeded;
use crate::support::{Backend, Client, Database, LIMIT, eventually};

const SEED: u64 = 20_260_303;
const CALLERS: usize = 12;
const SUBSCRIBERS: usize = 3;
/// Largest number of nodes.
const NODES: usize = 5;
/// Maximum number of events that a subscriber receives on one connection.
const EVENTS: u64 = 400;
/// Maximum number of errors that a failed test shows.
const SHOWN: usize = 20;

/// The nodes of the service, and the gateway in front of them.
struct Fleet {
    database: Database,
    nodes: Vec<Killable>,
    nginx: Nginx,
    /// Addresses of the nodes that drain or have left.
    draining: Arc<Mutex<BTreeSet<String>>>,
}

impl Fleet {
    async fn of_one() -> Self {
        let database = Database::fresh(Backend::Postgres).await;
        let node = started(&database).await;
        let nginx = Nginx::before(&node.client()).await;
        Self { database, nodes: vec![node], nginx, draining: Arc::default() }
    }

    async fn join(&mut self) {
        let node = started(&self.database).await;
        self.nodes.push(node);
        self.reload().await;
    }

    /// Stops a node that the gateway still uses. A running call keeps it draining until callers were rejected, and until
    /// the gateway uses the other nodes only.
    async fn leave(&mut self, node: usize, callers: &Callers, counter: &Counter) {
        let mut node = self.nodes.swap_remove(node);
        let (address, client) = (node.url().trim_start_matches("http://").to_owned(), node.client());
        let key = format!("running at {address}");
        let arguments = json!({"key": key, "part": 0, "route": "gate"});
        let body = json!({"name": ONCE, "arguments": arguments, "wait": "accepted"});
        counter.close();
        let call = callers.post(&client, &key, &body).await.expect("the call is accepted");
        client.in_phase(&id_of(&call), "running").await;
        self.draining.lock().unwrap_or_else(PoisonError::into_inner).insert(address);
        let before = callers.rejections.load(Ordering::Relaxed);
        node.signal("TERM");
        let is_rejected = async || (callers.rejections.load(Ordering::Relaxed) > before).then_some(());
        eventually("a rejected caller", is_rejected).await;
        self.reload().await;
        counter.open();
        node.stopped().await;
        callers.end(&key, call).await.expect("the call ends");
    }

    async fn reload(&self) {
        let clients: Vec<Client> = self.nodes.iter().map(Killable::client).collect();
        self.nginx.reload(&clients.iter().collect::<Vec<_>>()).await;
    }
}

async fn started(database: &Database) -> Killable {
    let settings = [("TOOLPOST__NODE__HEARTBEAT_MS", "300"), ("TOOLPOST__NODE__LEASE_MS", "5000")];
    let mut node = Killable::new(&database.url, settings.map(|(name, value)| (name, value.to_owned())).to_vec());
    node.start().await;
    node
}

/// The callers' observations.
struct Callers {
    gateway: Client,
    draining: Arc<Mutex<BTreeSet<String>>>,
    key_histories: Mutex<BTreeMap<String, KeyHistory>>,
    /// Everything that a caller must not see.
    errors: Mutex<Vec<String>>,
    rejections: AtomicUsize,
    clock: AtomicU64,
    /// Number of calls that have ended.
    ended: watch::Sender<usize>,
    is_stopping: watch::Sender<bool>,
}

impl Callers {
    fn of(fleet: &Fleet) -> Arc<Self> {
        Arc::new(Self {
            // At a reload, nginx closes idle connections, which a client may notice only with its next request.
            gateway: fleet.nginx.client().without_reuse(),
            draining: fleet.draining.clone(),
            key_histories: Mutex::default(),
            errors: Mutex::default(),
            rejections: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            ended: watch::channel(0).0,
            is_stopping: watch::channel(false).0,
        })
    }

    /// Makes calls one after the other.
    async fn work(self: Arc<Self>, caller: usize, mut chance: Seeded) {
        for number in 0.. {
            if *self.is_stopping.borrow() {
                return;
            }
            let key = format!("caller-{caller}/request-{number}");
            let route = chance.pick(&["now", "slowly", "slowly", "slowly", "long"]);
            let mut body = json!({"name": ONCE, "arguments": {"key": key, "part": 0, "route": route}});
            if chance.one_in(3) {
                body["wait"] = json!("accepted");
            }
            let Some(call) = self.post(&self.gateway, &key, &body).await else { return };
            if self.end(&key, call).await.is_none() {
                return;
            }
        }
    }

    /// Makes a call. Returns `None` after an error.
    async fn post(&self, service: &Client, key: &str, body: &Value) -> Option<Value> {
        let request = || service.request(Method::POST, "/tool-calls").header("idempotency-key", key).json(body);
        self.ask(key, "its POST", request).await
    }

    /// Waits for the end of a call. Returns `None` after an error.
    async fn end(&self, key: &str, mut call: Value) -> Option<()> {
        let path = format!("/tool-calls/{}?wait_ms=1000", id_of(&call));
        while !has_ended(&call) {
            call = self.ask(key, "its GET", || self.gateway.request(Method::GET, &path)).await?;
        }
        self.ended.send_modify(|ended| *ended += 1);
        Some(())
    }

    /// Repeats a request while the node drains that it reaches. Returns the call in the answer.
    async fn ask(&self, key: &str, what: &str, request: impl Fn() -> RequestBuilder) -> Option<Value> {
        let sent_at = self.clock.fetch_add(1, Ordering::SeqCst);
        let error = |error: String| {
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{key}: {what}: {error}"));
        };
        let answer = loop {
            match request().send().await {
                Ok(answer) if self.is_rejection(&answer) => {
                    self.rejections.fetch_add(1, Ordering::Relaxed);
                    let seconds = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                Ok(answer) => break answer,
                Err(failure) => {
                    error(format!("{failure:?}"));
                    return None;
                }
            }
        };
        let (status, node) = (answer.status().as_u16(), node_of(&answer));
        let location = answer.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
        let location = location.map(|location| location.trim_start_matches("/toolpost").to_owned());
        let call: Value = match answer.json().await {
            Ok(call) if matches!(status, 200 | 202) => call,
            body => {
                error(format!("{status} of \"{node}\": {body:?}"));
                return None;
            }
        };
        let received_at = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut key_histories = self.key_histories.lock().unwrap_or_else(PoisonError::into_inner);
        let history = key_histories.entry(key.to_owned()).or_default();
        history.parts = 1;
        if what == "its POST" {
            let calls = vec![(id_of(&call), call["status"].as_str().unwrap_or_default().to_owned())];
            history.replies.push(Reply { status, location, batch_id: None, calls });
        }
        history.sights.push(Sight { sent_at, received_at, call: call.clone() });
        Some(call)
    }

    fn is_rejection(&self, answer: &Response) -> bool {
        let draining = self.draining.lock().unwrap_or_else(PoisonError::into_inner);
        is_draining(answer) && draining.contains(&node_of(answer))
    }

    /// Waits until the given number of further calls have ended.
    async fn more(&self, calls: usize) {
        let mut ended = self.ended.subscribe();
        let wanted = *ended.borrow() + calls;
        let reached = tokio::time::timeout(LIMIT, ended.wait_for(|ended| *ended >= wanted)).await.is_ok();
        self.check();
        assert!(reached, "the callers do not make progress");
    }

    /// Checks that no caller has seen an error.
    fn check(&self) {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = &errors[..errors.len().min(SHOWN)];
        assert!(errors.is_empty(), "callers saw {} errors:\n{}", errors.len(), shown.join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn nodes_join_and_leave_under_load_without_an_error() {
    let mut chance = Seeded::new(SEED);
    let (mut fleet, counter) = (Fleet::of_one().await, Counter::start());
    oracle::register(&fleet.nodes[0].client(), &counter.tool()).await;
    let (total, expected) = watch::channel(usize::MAX);
    let subscribers = (0..SUBSCRIBERS).map(|_| {
        let mut subscriber = Subscriber::new(&fleet.nginx.client(), "/events", EVENTS, chance.fork());
        subscriber.moves = false;
        AbortOnDropHandle::new(tokio::spawn(subscriber.follow(expected.clone())))
    });
    let subscribers: Vec<_> = subscribers.collect();
    let callers = Callers::of(&fleet);
    let work = |caller| AbortOnDropHandle::new(tokio::spawn(callers.clone().work(caller, chance.fork())));
    let working: Vec<_> = (0..CALLERS).map(work).collect();
    for _ in 0..times(1, 10) {
        while fleet.nodes.len() < NODES {
            callers.more(40).await;
            fleet.join().await;
        }
        while fleet.nodes.len() > 1 {
            callers.more(40).await;
            let node = chance.within(0..fleet.nodes.len() as u64);
            fleet.leave(usize::try_from(node).unwrap(), &callers, &counter).await;
        }
    }
    callers.more(40).await;
    callers.is_stopping.send_replace(true);
    for ended in tokio::time::timeout(LIMIT, join_all(working)).await.expect("the last calls end") {
        ended.unwrap();
    }
    callers.check();
    println!("{} calls, {} rejections", *callers.ended.borrow(), callers.rejections.load(Ordering::Relaxed));

    total.send_replace(*callers.ended.borrow());
    let world = World::read(&fleet.nodes[0].client()).await;
    assert_eq!(world.calls.len(), *callers.ended.borrow());
    let is_once = |call: &Value| call["status"] == "SUCCESS" && call["attempts"] == 1;
    let others: Vec<_> = world.calls.iter().filter(|call| !is_once(call)).take(SHOWN).collect();
    assert!(others.is_empty(), "{others:#?}");
    let counts = fleet.nodes[0].client().stats(ONCE).await;
    assert_eq!(
        (&counts["execution_count"], &counts["success_count"]),
        (&json!(world.calls.len()), &json!(world.calls.len()))
    );
    let key_histories = std::mem::take(&mut *callers.key_histories.lock().unwrap());
    let mut evidence = Evidence { key_histories, runs: counter.runs(), world, ..Evidence::default() };
    for subscriber in subscribers {
        let finished = tokio::time::timeout(LIMIT, subscriber).await.expect("every event arrives");
        evidence.heard = Some(finished.unwrap().events);
        let violations = evidence.violations();
        assert!(violations.is_empty(), "{}", violations[..violations.len().min(SHOWN)].join("\n"));
    }
}
