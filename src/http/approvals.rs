//! Approvals: the calls that wait for a person, and the decisions about them.

use std::time::Duration;

use axum::extract::Path;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::event_response::sse;
use super::openapi_common::Event;
use super::responses::{InvalidQuery, Unavailable, UnknownCall};
use super::subscribers::StreamPermit;
use super::{Api, AppState, BodyErrors, FieldError, HttpResult, JsonBody, Params, Problem, extract, reply};
use crate::access::Access;
use crate::domain::approval::MAX_REASON;
use crate::domain::{Approval, ApprovalStatus, Call, Decision, Status, decode};
use crate::engine::{DecideError, DecisionRequest};
use crate::events::stream::{self, EventFilter};
use crate::formats::native::ToolCall;
use crate::store::approvals::ApprovalFilter;

/// Default number of approvals per page.
const PAGE: u32 = 50;
/// Maximum number of approvals per page.
const MAX_PAGE: u32 = 500;
/// Maximum time until the call shows a decision.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks at the call.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// For how long a decision counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Remember {
    /// Later calls with the same digest are approved for the rest of the session.
    Session,
}

/// A decision about a call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewApprovalDecision)]
pub(super) struct DecisionBody {
    /// The decision.
    decision: Decision,
    /// The `digest` of the pending approval, as the decider has seen it.
    digest: String,
    /// The reason. The model sees the reason of a rejection.
    #[serde(default)]
    #[schema(max_length = 2000, extensions(("x-together" = json!({"anyOf": [
        {"properties": {"decision": {"const": "approve"}}},
        {"properties": {"arguments": {"type": "null"}, "remember": {"type": "null"}}}]}))))]
    reason: Option<String>,
    /// Only with `approve`: arguments that replace those of the call.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
    /// Only with `approve`: for how long the decision counts.
    #[serde(default)]
    remember: Option<Remember>,
}

/// Approves or rejects a call that waits for approval.
///
/// The `digest` binds the decision to the arguments that the decider has seen. With `arguments`, an approver replaces
/// them: they are validated, get a new digest, and count as one approval. Earlier approvals then no longer count. One
/// rejection decides.
#[utoipa::path(post, path = "/tool-calls/{id}/approval", operation_id = "decide_approval", tag = "approvals",
    security(("api_key" = ["approve"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call")),
    request_body(content = DecisionBody, example = json!({"decision": "approve", "digest": "sha256:c42105ebe03b669c10be19b42cfa2945deb552d56ab5c0fc2f890e378631e505"})),
    responses((status = 200, description = "The call with its approval", body = ToolCall),
        (status = 403, description = "`SCOPE_MISSING`: the key lacks the scope `approve`. `APPROVAL_SELF`: the key or subject made the call itself"),
        (status = 409, description = "`APPROVAL_STALE`: the digest is not that of the pending approval, or the tool has changed since. `APPROVAL_DECIDED`: the approval is decided or has expired, or its call has ended. `APPROVAL_NOT_PENDING`: the call needs no approval"),
        (status = 422, description = "The body does not match the schema, or the arguments do not match that of the tool; see `errors`"),
        BodyErrors, UnknownCall, Unavailable))]
pub(super) async fn decide(Api { state, access }: Api, Path(id): Path<String>, mut body: JsonBody) -> HttpResult {
    let id = extract::call_id(&id)?;
    decode::expect_strings(&body.value, &["/decision", "/remember"])?;
    let body: DecisionBody = body.read()?;
    let request = request_of(body)?;
    let call = extract::find_call(&access, id).await?;
    let approval = state.engine.approvals().decide(&access, &call, request).await.map_err(problem_of)?;
    let call = shown(&state, &access, id, approval).await?;
    Ok(reply::ok(&ToolCall::from(&call)))
}

fn request_of(body: DecisionBody) -> HttpResult<DecisionRequest> {
    let DecisionBody { decision, digest, reason, arguments, remember } = body;
    if decision == Decision::Reject && arguments.is_some() {
        return Err(Problem::field("/arguments", "can be replaced only with the decision `approve`"));
    }
    if decision == Decision::Reject && remember.is_some() {
        return Err(Problem::field("/remember", "is possible only with the decision `approve`"));
    }
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(Problem::field("/reason", format!("must have at most {MAX_REASON} characters")));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    Ok(DecisionRequest { decision, digest, reason, arguments, is_remembered: remember.is_some() })
}

fn problem_of(error: DecideError) -> Problem {
    let detail = error.to_string();
    match error {
        DecideError::NotAwaited => Problem::conflict("APPROVAL_NOT_PENDING", detail),
        DecideError::Decided => Problem::conflict("APPROVAL_DECIDED", detail),
        DecideError::Stale(_) => Problem::conflict("APPROVAL_STALE", detail),
        DecideError::Own => Problem::approval_self(detail),
        DecideError::Changed | DecideError::NoTool => Problem::conflict("APPROVAL_STALE", detail),
        DecideError::NoSession => Problem::field("/remember", detail),
        DecideError::Denied(_) => Problem::field("/arguments", detail),
        DecideError::Invalid(violations) => {
            let error = |violation: crate::schema::Violation| {
                FieldError::at(format!("/arguments{}", violation.pointer), violation.message)
            };
            Problem::invalid(violations.into_iter().map(error).collect())
        }
        DecideError::Store(error) => error.into(),
    }
}

/// Returns the call as soon as it shows the decision.
async fn shown(state: &AppState, access: &Access, id: Uuid, approval: Approval) -> HttpResult<Call> {
    let until = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let mut call = extract::find_call(access, id).await?;
        let is_shown = call.approval.as_deref() == Some(&approval);
        let is_settled = approval.status != ApprovalStatus::Rejected || call.status.is_terminal();
        if is_shown && is_settled || Instant::now() >= until || state.closing.is_cancelled() {
            if !is_shown && call.status == Status::Wait {
                // The node of the call has not read the decision yet.
                call.set_approval(approval).map_err(|_| Problem::internal())?;
            }
            return Ok(call);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Only approvals in this state.
    #[param(default = "pending", value_type = Option<ApprovalStatus>)]
    status: Option<ApprovalStatus>,
    /// Only calls of this session.
    #[param(pattern = "^[^\\u0000]*$")]
    session: Option<String>,
    /// Only calls of this tool.
    name: Option<String>,
    /// Maximum number of calls per page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

/// A page of calls with approvals.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ApprovalPage)]
struct Page<'a> {
    /// The calls, oldest first.
    approvals: Vec<ToolCall<'a>>,
    /// The cursor of the next page; `null` on the last page.
    next_cursor: Option<Uuid>,
}

/// Lists the calls that wait for approval, oldest first. `status` lists calls with a decided approval.
#[utoipa::path(get, path = "/approvals", operation_id = "list_approvals", tag = "approvals", params(PageParams),
    security(("api_key" = ["approve"]), ("api_key" = ["read"])),
    responses((status = 200, description = "A page", body = Page), InvalidQuery, Unavailable))]
pub(super) async fn page(access: Access, Params(params): Params<PageParams>) -> HttpResult {
    let PageParams { status, session, name, limit, cursor } = params;
    let limit = extract::limit(limit, PAGE, MAX_PAGE)?;
    if session.as_deref().is_some_and(|session| session.contains('\0')) {
        return Err(Problem::query("session must not contain U+0000"));
    }
    let (status, after) = (status.unwrap_or(ApprovalStatus::Pending), cursor.unwrap_or_default());
    let filter = ApprovalFilter { status, session, name, after, limit: limit + 1 };
    let mut ids = access.store().approvals(&filter).await?;
    let has_more = ids.len() > limit as usize;
    ids.truncate(limit as usize);
    let next_cursor = ids.last().copied().filter(|_| has_more);
    let mut calls = access.store().calls_of(&ids).await?;
    access.store().show_approvals(&mut calls).await?;
    // An approval of an ended call stays pending only if the database failed. Others were decided since the page was read.
    let is_pending =
        |call: &Call| !call.status.is_terminal() && call.approval.as_deref().is_some_and(Approval::is_pending);
    let is_listed = |call: &Call| status != ApprovalStatus::Pending || is_pending(call);
    calls.retain(|call| access.may_reach(call) && is_listed(call));
    calls.sort_unstable_by_key(|call| call.id);
    Ok(reply::ok(&Page { approvals: calls.iter().map(ToolCall::from).collect(), next_cursor }))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Only calls of this tool.
    name: Option<String>,
    /// Only calls of this session.
    session: Option<String>,
    /// The `id:` of the last received event. `Last-Event-ID` takes precedence.
    #[param(pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$")]
    after: Option<String>,
}

/// Streams the `status` events of calls with approvals: a request, each decision, and what follows.
#[utoipa::path(get, path = "/approvals/events", operation_id = "approval_events", tag = "approvals",
    security(("api_key" = ["approve"]), ("api_key" = ["read"])),
    params(EventParams, ("Last-Event-ID" = Option<String>, Header, pattern = "^([0-9]{1,18}|[0-9]{1,4}:[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18})*)?$", description = "The `id:` of the last received event")),
    responses((status = 200, description = "`status` events with `approval`", body = Event, content_type = "text/event-stream"),
        (status = 422, description = "The event id or a query parameter is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The database is unavailable. `OVERLOADED`: the maximum number of event streams is open")))]
pub(super) async fn events(
    Api { state, access }: Api,
    permit: StreamPermit,
    headers: HeaderMap,
    Params(params): Params<EventParams>,
) -> HttpResult {
    let after = extract::resume_from(&headers, params.after.as_deref())?;
    let tools = access.caller().tools.clone();
    let filter = EventFilter { name: params.name, session: params.session, tools, approvals_only: true };
    let frames = stream::of_all(access.store(), &state.bus, after, filter, state.closing.clone()).await?;
    Ok(permit.attach_to(sse(frames)))
}
