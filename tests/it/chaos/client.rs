//! A request that is retried with the same key on every node until all its calls are known to have ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::oracle::{AGAIN, BEYOND_BOUNDS, GATED, KeyHistory, ONCE, READ, Reply, SentDecision, Sight};
use crate::support::Client;
use crate::support::seeded::Seeded;

/// Pause between two attempts.
pub const PAUSE: Duration = Duration::from_millis(20);
/// Client timeout: longer than the service waits for its database.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Client timeout of the first attempt of an impatient request.
const EARLY_TIMEOUT: Duration = Duration::from_millis(10);
/// Number of calls in a batch.
const BATCH: usize = 3;

/// The observations of all clients, ordered by one logical clock.
#[derive(Default)]
pub struct Notes {
    pub key_histories: Mutex<BTreeMap<String, KeyHistory>>,
    /// Decisions that approvers have sent, by call id.
    pub decided: Mutex<BTreeMap<String, Vec<SentDecision>>>,
    /// Responses that no request may get, even during failures.
    pub odd: Mutex<Vec<String>>,
    pub retries: AtomicUsize,
    /// Number of further responses to a key that already had one.
    pub replays: AtomicUsize,
    clock: AtomicU64,
}

/// A request that is retried until its calls have ended.
pub struct Ask {
    key: String,
    body: Value,
    responds_async: bool,
    parts: usize,
    leaves_early: bool,
    /// Whether its calls are cancelled once they are accepted.
    cancels: bool,
}

impl Ask {
    /// Chooses a request for a key at random.
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
        let cancels = way < 2 && chance.one_in(3);
        Self { key, body, responds_async: way == 1, parts, leaves_early: chance.one_in(10), cancels }
    }

    /// Chooses a request for a key, with one call or two that need an approval.
    pub fn choose_gated(key: String, chance: &mut Seeded) -> Self {
        let parts = if chance.one_in(4) { 2 } else { 1 };
        let call = |part: usize| json!({"name": GATED, "arguments": {"key": key, "part": part, "route": "now"}});
        let mut body = if parts == 1 { call(0) } else { json!({"calls": [call(0), call(1)], "mode": "parallel"}) };
        if chance.one_in(4) {
            body["wait"] = json!("accepted");
        }
        Self { key, body, responds_async: false, parts, leaves_early: false, cancels: chance.one_in(6) }
    }

    /// Chooses a request for a key, with a call for which a policy exceeds its bounds or does not.
    pub fn choose_judged(key: String, chance: &mut Seeded) -> Self {
        let load = vec![1; chance.pick(&[BEYOND_BOUNDS, BEYOND_BOUNDS / 20])];
        let mut call = call(&key, 0, chance);
        call["arguments"]["load"] = json!(load);
        if chance.one_in(2) {
            call["wait"] = json!("accepted");
        }
        Self { key, body: call, responds_async: false, parts: 1, leaves_early: chance.one_in(10), cancels: false }
    }

    /// Moves the request to a session.
    pub fn in_session(mut self, session: String) -> Self {
        self.body["session"] = json!(session);
        self
    }

    /// Creates a request for a single detached call.
    pub fn accepted(key: String, name: &str, route: &str) -> Self {
        let arguments = json!({"key": key, "part": 0, "route": route});
        let body = json!({"name": name, "arguments": arguments, "wait": "accepted"});
        Self { key, body, responds_async: false, parts: 1, leaves_early: false, cancels: false }
    }

    /// Retries until all its calls are known to have ended. `doors` are the nodes of the service: `door_index` selects the
    /// first one, and each node that does not answer is followed by the next.
    pub async fn until_over(&self, doors: &[Client], door_index: usize, notes: &Notes) {
        let mut way = Way { doors, door_index, notes };
        let Some(calls) = self.accepted_by(&mut way).await else { return };
        let ids = || calls.iter().filter(|call| !is_over(call)).filter_map(|call| call["id"].as_str());
        for id in ids().filter(|_| self.cancels) {
            self.cancel(id, &mut way).await;
        }
        for id in ids() {
            self.watch(id, &mut way).await;
        }
    }

    /// Retries until all its calls are accepted.
    pub async fn until_accepted(&self, door: &Client, notes: &Notes) {
        self.accepted_by(&mut Way { doors: std::slice::from_ref(door), door_index: 0, notes }).await;
    }

    /// Returns the accepted calls, or `None` after an unexpected response.
    async fn accepted_by(&self, way: &mut Way<'_>) -> Option<Vec<Value>> {
        way.note(&self.key, |history| history.parts = self.parts);
        let mut timeout = if self.leaves_early { EARLY_TIMEOUT } else { ANSWER_TIMEOUT };
        loop {
            let request = way.request(Method::POST, "/tool-calls").header("idempotency-key", &self.key);
            let request = if self.responds_async { request.header("prefer", "respond-async") } else { request };
            let sent_at = way.notes.tick();
            match Answer::of(request.json(&self.body), timeout).await {
                Some(answer) if matches!(answer.status, 200 | 202 | 503) => {
                    if let Some(calls) = self.record_answer(answer, sent_at, way) {
                        return Some(calls);
                    }
                }
                Some(answer) => return way.odd(&self.key, "its POST", &answer),
                None => {}
            }
            timeout = ANSWER_TIMEOUT;
            way.next().await;
        }
    }

    /// Records a response and returns its calls, if it has any.
    fn record_answer(&self, answer: Answer, sent_at: u64, way: &Way<'_>) -> Option<Vec<Value>> {
        let Answer { status, location, json } = answer;
        let received_at = way.notes.tick();
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
        way.note(&self.key, |history| {
            if status != 503 && history.replies.iter().any(|reply| reply.status != 503) {
                way.notes.replays.fetch_add(1, Ordering::Relaxed);
            }
            history.replies.push(reply);
            history.sights.extend(calls.iter().map(|call| Sight { sent_at, received_at, call: call.clone() }));
        });
        (status != 503).then_some(calls)
    }

    /// Retries until a call is cancelled or has already ended.
    async fn cancel(&self, id: &str, way: &mut Way<'_>) {
        way.note(&self.key, |history| history.is_cancelled = true);
        loop {
            match Answer::of(way.request(Method::POST, &format!("/tool-calls/{id}/cancel")), ANSWER_TIMEOUT).await {
                Some(Answer { status: 202, .. }) => return,
                Some(answer) if answer.status != 503 => {
                    way.odd::<()>(&self.key, &format!("cancelling {id}"), &answer);
                    return;
                }
                _ => way.next().await,
            }
        }
    }

    /// Polls a call until its end.
    async fn watch(&self, id: &str, way: &mut Way<'_>) {
        loop {
            let sent_at = way.notes.tick();
            let request = way.request(Method::GET, &format!("/tool-calls/{id}?wait_ms=1000"));
            match Answer::of(request, ANSWER_TIMEOUT).await {
                Some(Answer { status: 200, json: call, .. }) => {
                    let is_over = is_over(&call);
                    let sight = Sight { sent_at, received_at: way.notes.tick(), call };
                    way.note(&self.key, |history| history.sights.push(sight));
                    if is_over {
                        return;
                    }
                }
                Some(answer) if answer.status != 503 => {
                    way.odd::<()>(&self.key, &format!("a look at {id}"), &answer);
                    return;
                }
                _ => way.next().await,
            }
        }
    }
}

/// A client's position in the list of nodes.
struct Way<'a> {
    doors: &'a [Client],
    door_index: usize,
    notes: &'a Notes,
}

impl Way<'_> {
    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.doors[self.door_index % self.doors.len()].request(method, path)
    }

    /// Moves on to the next node after a pause.
    async fn next(&mut self) {
        self.door_index += 1;
        self.notes.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }

    fn note(&self, key: &str, note: impl FnOnce(&mut KeyHistory)) {
        let mut key_histories = self.notes.key_histories.lock().unwrap_or_else(PoisonError::into_inner);
        note(key_histories.entry(key.to_owned()).or_default());
    }

    /// Records a response that no request may get. The request is then abandoned.
    fn odd<T>(&self, key: &str, what: &str, answer: &Answer) -> Option<T> {
        let mut odd = self.notes.odd.lock().unwrap_or_else(PoisonError::into_inner);
        odd.push(format!("{key}: {what} was answered {} {}", answer.status, answer.json));
        None
    }
}

fn call(key: &str, part: usize, chance: &mut Seeded) -> Value {
    let name = chance.pick(&[ONCE, ONCE, AGAIN, READ]);
    // Only this tool is retried when its server returns an error.
    let route = chance.pick(if name == AGAIN { &["now", "slowly", "flaky"] } else { &["now", "slowly", "slowly"] });
    json!({"name": name, "arguments": {"key": key, "part": part, "route": route}})
}

fn is_over(call: &Value) -> bool {
    matches!(call["status"].as_str(), Some("SUCCESS" | "ERROR"))
}

/// A completely received response.
pub struct Answer {
    pub status: u16,
    location: Option<String>,
    pub json: Value,
}

impl Answer {
    /// Sends a request; `None` if its response is missing or incomplete.
    pub async fn of(request: reqwest::RequestBuilder, timeout: Duration) -> Option<Self> {
        let answer = request.timeout(timeout).send().await.ok()?;
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
}
