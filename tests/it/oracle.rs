//! The oracle: compares everything that callers, subscribers and tools observed with the stored state, and reports
//! contradictions. Every accepted call must end once, be counted once, and run no more often than permitted.
//!
//! It checks only the contract (docs/reference/contract.md), so faults of the service or its database do not matter.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::counter::{Counter, Run};
use crate::support::{Client, Event, eventually};

mod answers;
mod approvals;
mod history;
mod negative;
mod posted;
mod runs;
mod stats;
mod stored_state;

pub use posted::{PostedResult, Receipt};
pub use stored_state::World;

/// A tool that must not run twice.
pub const ONCE: &str = "count_once";
/// A tool that may run again after a failure or a loss.
pub const AGAIN: &str = "count_again";
/// Maximum number of attempts, as long as none is lost.
pub const ATTEMPTS: u64 = 3;
/// A read-only tool, which may run again after a loss.
pub const READ: &str = "count_read";

/// Number of items of `arguments.load` from which on the policies for a call exceed their bounds.
pub const BEYOND_BOUNDS: usize = 200;

/// The time until an undecided approval expires, in milliseconds.
const GATED_EXPIRES_MS: u64 = 3_000;
/// A tool that must not run twice, and whose calls need an approval.
pub const GATED: &str = "count_gated";

/// All observations of a run of the service.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Requests and responses, by idempotency key.
    pub key_histories: BTreeMap<String, KeyHistory>,
    /// Events that a subscriber of all events received, over all its connections; `None` without a subscriber.
    pub heard: Option<Vec<Event>>,
    /// Events that subscribers of single calls received, each on one connection from the beginning of the call.
    pub watched: Vec<WatchedStream>,
    /// Decisions that approvers have sent, by call id.
    pub decided: BTreeMap<String, Vec<SentDecision>>,
    /// Runs that the tools' server or the workers have counted.
    pub runs: Vec<Run>,
    /// Results that workers have posted.
    pub posted: Vec<PostedResult>,
    /// Receipts of results that anybody has posted.
    pub receipts: Vec<Receipt>,
    /// The stored state.
    pub world: World,
}

/// A stream of one call, read from its beginning until it ended or broke.
#[derive(Debug, Clone)]
pub struct WatchedStream {
    pub id: String,
    pub events: Vec<Event>,
}

/// One idempotency key with all responses about its calls.
#[derive(Debug, Clone, Default)]
pub struct KeyHistory {
    /// Number of calls in the request.
    pub parts: usize,
    /// `true` if a client has requested cancellation.
    pub is_cancelled: bool,
    /// Responses to its `POST`s.
    pub replies: Vec<Reply>,
    /// Every observation of one of its calls.
    pub sights: Vec<Sight>,
}

/// The response to a `POST`, apart from its calls.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub location: Option<String>,
    pub batch_id: Option<String>,
    /// Ids and statuses of its calls, in order.
    pub calls: Vec<(String, String)>,
}

/// A call in a response. All callers share one logical clock: a request that ended before another began has smaller
/// ticks.
#[derive(Debug, Clone)]
pub struct Sight {
    pub sent_at: u64,
    pub received_at: u64,
    pub call: Value,
}

/// A decision about a call, sent once.
#[derive(Debug, Clone)]
pub struct SentDecision {
    pub decision: &'static str,
    /// The status of the response, if it was received.
    pub status: Option<u16>,
}

impl Evidence {
    /// Returns all violations as text; empty if the evidence is consistent.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |violation: String| found.push(violation);
        answers::check(self, &mut note);
        runs::check(self, &mut note);
        posted::check(self, &mut note);
        approvals::check(self, &mut note);
        found.extend(self.violations_of_subscribers());
        found
    }

    /// Returns the violations that concern only events and statistics. Any tools may have been called.
    pub fn violations_of_subscribers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |violation: String| found.push(violation);
        history::check(self, &mut note);
        stats::check(&self.world, &mut note);
        found
    }
}

/// Registers the three tools whose runs are counted. `more` are their executor and further fields.
pub async fn register(client: &Client, more: &Value) {
    let retry = json!({"max_attempts": ATTEMPTS, "initial_backoff_ms": 20, "max_backoff_ms": 100});
    for (name, annotations, retry) in [
        (ONCE, json!({}), json!({})),
        (AGAIN, json!({"idempotent": true}), retry),
        (READ, json!({"read_only": true, "destructive": false}), json!({})),
    ] {
        let definition = json!({
            "name": name, "description": "Counts its runs.", "annotations": annotations, "retry": retry,
            "input_schema": {
                "type": "object", "required": ["route"],
                "properties": {"route": {"enum": ["now", "slowly", "long", "gate", "flaky", "hold"]}},
            },
        });
        client.register(with(definition, more.clone())).await;
    }
}

/// Registers the tool whose calls wait for an approval, and waits until all nodes know it. Undecided calls expire soon.
pub async fn register_gated(nodes: &[Client], counter: &Counter) {
    let definition = json!({
        "name": GATED, "description": "Counts its runs.", "input_schema": {"type": "object", "required": ["route"]},
        "approval": {"expires_ms": GATED_EXPIRES_MS},
    });
    nodes[0].register(with(definition, counter.tool())).await;
    for node in nodes {
        let path = format!("/tools/{GATED}");
        eventually("the tool", || async { (node.get(&path).await.status == 200).then_some(()) }).await;
    }
}

/// Returns the rank of a status; the rank of a call never decreases.
fn rank(status: &Value) -> Option<u8> {
    match status.as_str()? {
        "WAIT" => Some(0),
        "DOING" => Some(1),
        "SUCCESS" | "ERROR" => Some(2),
        _ => None,
    }
}

fn is_terminal(call: &Value) -> bool {
    rank(&call["status"]) == Some(2)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
