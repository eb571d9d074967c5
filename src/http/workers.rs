//! `/workers`: worker programs that fetch calls, keep them and offer tools.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::responses::{InvalidBody, Unavailable};
use super::{Api, BodyErrors, HttpResult, JsonBody, Problem, Shared, reply};
use crate::access::Access;
use crate::domain::{Agent, decode, json, tool};
use crate::workqueue::{ClaimError, ClaimRequest, ClaimedCall};

pub(super) mod listing;
pub(super) mod results;
pub(super) mod tools;

/// Maximum length of the name of a worker, in characters.
const MAX_NAME_CHARS: usize = 256;
/// Maximum length of the shown `User-Agent`, in characters.
const MAX_SDK_CHARS: usize = 200;
/// Maximum number of calls of one claim.
const MAX_CALLS: usize = 64;
/// Maximum number of calls of one heartbeat.
const MAX_HEARTBEAT: usize = 1000;
/// Maximum wait of a claim, in milliseconds.
const MAX_WAIT_MS: u64 = 60_000;

/// A claim of a worker.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewClaim)]
pub(super) struct ClaimBody {
    /// The name of the worker, which is unique among the workers of the queue.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$")]
    worker: String,
    /// Maximum number of calls.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 64, default = 1)]
    max: usize,
    /// Maximum time that the request waits for a call, in milliseconds.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 60_000, default = 0)]
    wait_ms: u64,
}

fn one() -> usize {
    1
}

/// The calls that a worker has got.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ClaimedCalls)]
struct ClaimedCalls<'a> {
    /// The calls, best first: by priority, then by age.
    calls: Vec<ClaimedCallView<'a>>,
}

/// A call that a worker has got.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ClaimedCall)]
struct ClaimedCallView<'a> {
    /// The id that the service gave the call.
    id: Uuid,
    /// The id that the caller gave the call.
    call_id: &'a str,
    /// The name of the tool.
    name: &'a str,
    /// The arguments, including presets.
    #[schema(value_type = Object)]
    arguments: &'a Value,
    /// The context objects that the tool lists.
    #[schema(value_type = Object)]
    context: &'a Map<String, Value>,
    /// The agent on whose behalf the call is made.
    agent: Option<&'a Agent>,
    /// The session of the call.
    session: Option<&'a str>,
    /// The number of the attempt, from 1.
    attempt: u32,
    /// The time within which the attempt must end, in milliseconds.
    deadline_ms: u64,
    /// The time for which the worker has the call without a heartbeat, in milliseconds.
    lease_ms: u64,
    /// The token for `/progress` and `/result` of this attempt.
    token: String,
}

/// Fetches calls of a queue.
///
/// Returns the best calls immediately if there are any, and otherwise waits for one. The worker has each call for
/// `lease_ms`, which every heartbeat renews, and posts progress and the result with the call's token.
#[utoipa::path(post, path = "/workers/{queue}/claim", operation_id = "claim_calls", tag = "workers",
    security(("api_key" = ["work"])),
    params(("queue" = String, Path, example = "mail", description = "The queue")),
    request_body(content = ClaimBody, example = json!({"worker": "mailer-1", "max": 4, "wait_ms": 0})),
    responses((status = 200, description = "The calls; none if no call came within `wait_ms`", body = ClaimedCalls),
        (status = 404, description = "The name of the queue is invalid"),
        BodyErrors, InvalidBody, Unavailable))]
pub(super) async fn claim(
    Api { state, access }: Api,
    Path(queue): Path<String>,
    headers: HeaderMap,
    mut body: JsonBody,
) -> HttpResult {
    let queue = queue_of(&access, &queue)?;
    decode::expect_strings(&body.value, &["/worker"])?;
    let ClaimBody { worker, max, wait_ms } = body.read()?;
    let worker = worker_of(&worker)?;
    if !(1..=MAX_CALLS).contains(&max) {
        return Err(Problem::field("/max", format!("must be 1 to {MAX_CALLS}")));
    }
    if wait_ms > MAX_WAIT_MS {
        return Err(Problem::field("/wait_ms", format!("must be 0 to {MAX_WAIT_MS}")));
    }
    let request = ClaimRequest { queue, worker, max, wait: Duration::from_millis(wait_ms) };
    let claimed = state.engine.workers().claim(&access, request, sdk_of(&headers)).await;
    let claimed = claimed.map_err(|ClaimError| Problem::store_unavailable("the queue cannot be read"))?;
    let calls = claimed.iter().map(|claimed| view(&state, claimed)).collect();
    Ok(reply::ok(&ClaimedCalls { calls }))
}

fn view<'a>(state: &Shared, claimed: &'a ClaimedCall) -> ClaimedCallView<'a> {
    let ClaimedCall { call, attempt, lease_ms, arguments } = claimed;
    ClaimedCallView {
        id: call.id,
        call_id: &call.call_id,
        name: &call.name,
        arguments,
        context: &call.context,
        agent: call.agent.as_deref(),
        session: call.session.as_deref(),
        attempt: *attempt,
        deadline_ms: call.limits.map_or(0, |limits| limits.timeout_ms),
        lease_ms: *lease_ms,
        token: state.signing_key.worker_token(call.id, *attempt),
    }
}

/// A heartbeat of a worker.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkerHeartbeat)]
pub(super) struct HeartbeatBody {
    /// The name of the worker.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$")]
    worker: String,
    /// The calls that the worker has.
    #[serde(default)]
    #[schema(max_items = 1000)]
    calls: Vec<Uuid>,
}

/// The calls that a worker no longer has.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = NotHeldCalls)]
struct HeartbeatView {
    /// Calls that were cancelled. The worker stops its work.
    cancelled: Vec<Uuid>,
    /// Calls that have ended otherwise, or that were given to another worker. A result is ignored.
    lost: Vec<Uuid>,
}

/// Renews the leases of a worker's calls, and says which calls it no longer has.
#[utoipa::path(post, path = "/workers/{queue}/heartbeat", operation_id = "worker_heartbeat", tag = "workers",
    security(("api_key" = ["work"])),
    params(("queue" = String, Path, example = "mail", description = "The queue")),
    request_body(content = HeartbeatBody, example = json!({"worker": "mailer-1", "calls": []})),
    responses((status = 200, description = "The calls that the worker no longer has", body = HeartbeatView),
        (status = 404, description = "The name of the queue is invalid"),
        BodyErrors, InvalidBody, Unavailable))]
pub(super) async fn heartbeat(
    Api { state, access }: Api,
    Path(queue): Path<String>,
    headers: HeaderMap,
    mut body: JsonBody,
) -> HttpResult {
    let queue = queue_of(&access, &queue)?;
    decode::expect_strings(&body.value, &["/worker"])?;
    let HeartbeatBody { worker, calls } = body.read()?;
    let worker = worker_of(&worker)?;
    if calls.len() > MAX_HEARTBEAT {
        return Err(Problem::field("/calls", format!("must have at most {MAX_HEARTBEAT} ids")));
    }
    let beaten = state.engine.workers().heartbeat(&access, (&queue, &worker), &calls, sdk_of(&headers)).await?;
    Ok(reply::ok(&HeartbeatView { cancelled: beaten.cancelled, lost: beaten.lost }))
}

/// Checks that the queue has a valid name and that the caller may fetch its calls.
fn queue_of(access: &Access, queue: &str) -> HttpResult<Arc<str>> {
    if !tool::is_valid_name(queue) {
        let rule = "the name of a queue has 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
        return Err(Problem::not_found(rule));
    }
    if !access.caller().may_fetch(queue) {
        return Err(Problem::forbidden(format!("the key may not fetch calls of the queue \"{queue}\"")));
    }
    Ok(queue.into())
}

fn worker_of(worker: &str) -> HttpResult<Arc<str>> {
    let length = worker.chars().count();
    if !(1..=MAX_NAME_CHARS).contains(&length) || worker.chars().any(char::is_control) {
        let message = format!("must have 1 to {MAX_NAME_CHARS} characters and no control characters");
        return Err(Problem::field("/worker", message));
    }
    Ok(worker.into())
}

/// Returns the program that a worker names in its `User-Agent`.
fn sdk_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?.trim();
    (!agent.is_empty()).then(|| json::shorten(agent, MAX_SDK_CHARS).into())
}
