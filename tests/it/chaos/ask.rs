//! One request of a caller who does not give up: the same key again and again, until every call of it is known to have ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::oracle::{AGAIN, Asked, ONCE, READ, Reply, Sight};
use crate::support::Client;
use crate::support::seeded::Seeded;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an impatient one does.
const IMPATIENCE: Duration = Duration::from_millis(10);
/// Calls of a batch.
const BATCH: usize = 3;

/// What all callers have seen, and one clock for them.
#[derive(Default)]
pub struct Notes {
    pub asked: Mutex<BTreeMap<String, Asked>>,
    /// Answers that no request should get, whatever happens.
    pub odd: Mutex<Vec<String>>,
    pub retries: AtomicUsize,
    /// Answers to a key that had an answer before.
    pub replays: AtomicUsize,
    clock: AtomicU64,
}

/// One request, to be sent as often as it takes.
pub struct Ask {
    key: String,
    body: Value,
    responds_async: bool,
    parts: usize,
    is_impatient: bool,
}

/// What came of one try.
enum Try {
    /// These calls; those that have not ended are to be watched.
    Calls(Vec<Value>),
    Again,
    /// It was given up: noted as odd.
    Odd,
}

impl Ask {
    /// What this key is to ask for.
    pub fn choose(key: String, chance: &mut Seeded) -> Self {
        let is_batch = chance.one_in(5);
        let parts = if is_batch { BATCH } else { 1 };
        let mut calls: Vec<Value> = (0..parts).map(|part| call(&key, part, chance)).collect();
        let mut body = if is_batch {
            json!({"calls": calls, "mode": chance.pick(&["auto", "parallel", "serial"])})
        } else {
            calls.remove(0)
        };
        let way = chance.within(0..8);
        if way == 0 {
            body["wait"] = json!("accepted");
        }
        Self { key, body, responds_async: way == 1, parts, is_impatient: chance.one_in(10) }
    }

    /// One asynchronous call.
    pub fn accepted(key: String, name: &str, route: &str) -> Self {
        let arguments = json!({"key": key, "part": 0, "route": route});
        let body = json!({"name": name, "arguments": arguments, "wait": "accepted"});
        Self { key, body, responds_async: false, parts: 1, is_impatient: false }
    }

    /// Asks until all its calls are known to have ended.
    pub async fn until_over(&self, client: &Client, notes: &Notes) {
        let Some(calls) = self.until_accepted(client, notes).await else { return };
        for call in calls.iter().filter(|call| !is_over(call)) {
            let id = call["id"].as_str().unwrap_or_default();
            if !self.watch(id, client, notes).await {
                return;
            }
        }
    }

    /// Asks until all its calls are accepted; `None` if it was given up.
    pub async fn until_accepted(&self, client: &Client, notes: &Notes) -> Option<Vec<Value>> {
        notes.lock().entry(self.key.clone()).or_default().parts = self.parts;
        let mut patience = if self.is_impatient { IMPATIENCE } else { PATIENCE };
        loop {
            match self.post(client, patience, notes).await {
                Try::Calls(calls) => return Some(calls),
                Try::Odd => return None,
                Try::Again => {
                    notes.retries.fetch_add(1, Ordering::Relaxed);
                    patience = PATIENCE;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn post(&self, client: &Client, patience: Duration, notes: &Notes) -> Try {
        let request = client.request(Method::POST, "/tool-calls").header("idempotency-key", &self.key);
        let request = if self.responds_async { request.header("prefer", "respond-async") } else { request };
        let asked_at = notes.tick();
        let Some(answer) = Answer::of(request.json(&self.body), patience).await else { return Try::Again };
        let told_at = notes.tick();
        let Answer { status, location, json } = answer;
        if !matches!(status, 200 | 202 | 503) {
            notes.odd(format!("{}: a POST was answered {status} {json}", self.key));
            return Try::Odd;
        }
        let calls = match &json["results"] {
            _ if status == 503 => Vec::new(),
            Value::Array(calls) => calls.clone(),
            _ => vec![json.clone()],
        };
        let text = |call: &Value, field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let reply = Reply {
            status,
            location,
            batch_id: json["batch_id"].as_str().map(str::to_owned),
            calls: calls.iter().map(|call| (text(call, "id"), text(call, "status"))).collect(),
        };
        let sights = calls.iter().map(|call| Sight { asked_at, told_at, call: call.clone() });
        let mut asked = notes.lock();
        let asked = asked.entry(self.key.clone()).or_default();
        if status != 503 && asked.replies.iter().any(|reply| reply.status != 503) {
            notes.replays.fetch_add(1, Ordering::Relaxed);
        }
        asked.replies.push(reply);
        asked.sights.extend(sights);
        if status == 503 { Try::Again } else { Try::Calls(calls) }
    }

    /// Watches a call to its end; `false` if it was given up.
    async fn watch(&self, id: &str, client: &Client, notes: &Notes) -> bool {
        loop {
            let asked_at = notes.tick();
            let request = client.request(Method::GET, &format!("/tool-calls/{id}?wait_ms=1000"));
            match Answer::of(request, PATIENCE).await {
                Some(Answer { status: 200, json: call, .. }) => {
                    let is_over = is_over(&call);
                    let sight = Sight { asked_at, told_at: notes.tick(), call };
                    notes.lock().entry(self.key.clone()).or_default().sights.push(sight);
                    if is_over {
                        return true;
                    }
                }
                Some(Answer { status, json, .. }) if status != 503 => {
                    notes.odd(format!("{}: GET of its call {id} was answered {status} {json}", self.key));
                    return false;
                }
                _ => {
                    notes.retries.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn call(key: &str, part: usize, chance: &mut Seeded) -> Value {
    let name = chance.pick(&[ONCE, ONCE, AGAIN, READ]);
    let route = chance.pick(&["now", "slowly", "slowly"]);
    json!({"name": name, "arguments": {"key": key, "part": part, "route": route}})
}

fn is_over(call: &Value) -> bool {
    matches!(call["status"].as_str(), Some("SUCCESS" | "ERROR"))
}

/// A whole answer.
struct Answer {
    status: u16,
    location: Option<String>,
    json: Value,
}

impl Answer {
    /// `None` if there was none, or not all of it.
    async fn of(request: reqwest::RequestBuilder, patience: Duration) -> Option<Self> {
        let answer = request.timeout(patience).send().await.ok()?;
        let status = answer.status().as_u16();
        let location = answer.headers().get("location").and_then(|value| Some(value.to_str().ok()?.to_owned()));
        let json = serde_json::from_slice(&answer.bytes().await.ok()?).unwrap_or_default();
        Some(Self { status, location, json })
    }
}

impl Notes {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn odd(&self, what: String) {
        self.odd.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
