//! `POST /tool-calls/{id}/…`: cancels calls, and accepts progress and results from external tools.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use serde::Serialize;
use uuid::Uuid;

use super::auth::bearer;
use super::responses::{InvalidBody, Unavailable, UnknownCall};
use super::{Api, AppState, BodyErrors, HttpResult, JsonBody, Problem, extract, reply, wait};
use crate::access::Access;
use crate::domain::schemas::Bytes;
use crate::domain::{Caller, Scopes, Status, ToolOutput};
use crate::engine::ControlOutcome;
use crate::executor::report::Report;
use crate::formats::native::ToolCall;
use crate::memory::Footprint;

/// Maximum time to wait for the effect of a request, so that the response and the next request usually show it.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Cancels a call. A waiting call ends immediately; a running call is stopped. A call that has ended does not change,
/// and cancelling twice has no further effect.
#[utoipa::path(post, path = "/tool-calls/{id}/cancel", operation_id = "cancel_tool_call", tag = "tool calls",
    security(("api_key" = ["call"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call")),
    responses((status = 202, description = "The call in its current status", body = ToolCall),
        UnknownCall, Unavailable))]
pub(super) async fn cancel(Api { state, access }: Api, Path(id): Path<String>) -> HttpResult {
    let id = extract::call_id(&id)?;
    extract::check_reach(&access, id).await?;
    if state.engine.control().cancel(access.tenant(), id).await? == ControlOutcome::NoSuchCall {
        return Err(extract::no_such_call(&id.to_string()));
    }
    let call = wait::wait(&state, &access, id, Some(SETTLE_TIMEOUT)).await?;
    Ok(reply::accepted(&ToolCall::from(&call)))
}

/// Reports progress of a running call on behalf of its tool.
///
/// An `http` tool and a worker authenticate with the call's own token; for an `external` tool, any caller may report.
#[utoipa::path(post, path = "/tool-calls/{id}/progress", operation_id = "report_progress", tag = "tool calls",
    security(("api_key" = ["call"]), ("call_token" = [])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call")),
    request_body(content = Report, example = json!({"tip": "Asking the weather station", "progress": {"current": 1, "total": 2}})),
    responses((status = 202, description = "The report is recorded and sent to subscribers"),
        (status = 401, description = "The token is not valid for this call"),
        (status = 409, description = "The call has ended, or the worker no longer has it"),
        (status = 503, description = "The database is unavailable, or too many reports of the call wait to be recorded"),
        BodyErrors, UnknownCall, InvalidBody))]
pub(super) async fn progress(
    State(state): State<AppState>,
    asking: Option<Extension<Access>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: JsonBody,
) -> HttpResult {
    let id = extract::call_id(&id)?;
    let sender = authorize(&state, asking, id, &headers).await?;
    let report = Report::read(body.value.clone())?;
    let control = state.engine.control();
    let outcome = match sender.attempt {
        Some(attempt) => control.report_of_worker((id, attempt), report, body.value).await?,
        None => control.report(id, report, body.value).await?,
    };
    match outcome {
        ControlOutcome::Delivered => Ok(reply::accepted(&serde_json::json!({ "id": id }))),
        ControlOutcome::NoSuchCall => Err(extract::no_such_call(&id.to_string())),
        ControlOutcome::Ended(_)
        | ControlOutcome::TooLate
        | ControlOutcome::NotExternal
        | ControlOutcome::NotApproved => Err(Problem::conflict("CALL_ENDED", "the call has ended")),
        ControlOutcome::Busy => Err(Problem::report_backlog_full()),
    }
}

/// The effect of a posted result.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Accepted)]
struct ResultReceipt {
    /// The id of the call.
    id: Uuid,
    /// The current status of the call.
    status: Status,
    /// Whether the result was ignored because another result or the end of the call came first.
    ignored: bool,
}

/// Posts the result of a call whose tool works outside of the service.
///
/// Such a tool is an `external` tool, for which any caller may post, or an `http` tool that responded with 202, or a worker;
/// these authenticate with the call's own token. The first result wins. The body is converted like the output of any tool. An
/// image has its own media type, such as `image/png`, or `application/octet-stream`.
#[utoipa::path(post, path = "/tool-calls/{id}/result", operation_id = "post_result", tag = "tool calls",
    security(("api_key" = ["call"]), ("call_token" = [])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the call")),
    request_body(content((serde_json::Value = "application/json", example = json!({"output": "Sunny, 21 °C"})), (String = "text/plain", example = "Sunny, 21 °C"), (inline(Bytes) = "application/octet-stream"))),
    responses((status = 200, description = "The result is recorded, or `ignored` because another result or the end of the call came first", body = ResultReceipt),
        (status = 400, description = "The body does not match its Content-Type"),
        (status = 401, description = "The token is not valid for this call"),
        (status = 408, description = "The body did not arrive in time"),
        (status = 409, description = "The call does not accept a posted result"),
        (status = 413, description = "The body is too large"),
        (status = 415, description = "The Content-Type is not supported"),
        (status = 503, description = "The database is unavailable, or the call cannot accept a result yet; retry later"),
        UnknownCall))]
pub(super) async fn result(
    State(state): State<AppState>,
    asking: Option<Extension<Access>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> HttpResult {
    let id = extract::call_id(&id)?;
    let Sender { access, attempt } = authorize(&state, asking, id, &headers).await?;
    // The footprint counts the body's memory until the result is recorded.
    let (answer, _footprint) = read_output(&headers, body, &state).await?;
    let control = state.engine.control();
    let outcome = match attempt {
        Some(attempt) => control.answer_of_worker((id, attempt), answer).await?,
        None => control.post_result(id, answer).await?,
    };
    let ignored = match outcome {
        ControlOutcome::Ended(status) => return Ok(reply::ok(&ResultReceipt { id, status, ignored: false })),
        ControlOutcome::Delivered => false,
        ControlOutcome::TooLate => true,
        ControlOutcome::Busy => return Err(Problem::report_backlog_full()),
        ControlOutcome::NoSuchCall => return Err(extract::no_such_call(&id.to_string())),
        ControlOutcome::NotExternal => {
            let detail = "this call does not accept a posted result; its tool returns the result itself";
            return Err(Problem::conflict("RESULT_NOT_AWAITED", detail));
        }
        ControlOutcome::NotApproved => {
            let detail = "this call needs an approval first; post its result once it is approved";
            return Err(Problem::conflict("RESULT_NOT_AWAITED", detail));
        }
    };
    let status = wait::wait(&state, &access, id, Some(Duration::ZERO)).await?.status;
    Ok(reply::ok(&ResultReceipt { id, status, ignored }))
}

async fn read_output(headers: &HeaderMap, body: Body, state: &AppState) -> HttpResult<(ToolOutput, Footprint)> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let budget = state.engine.other_memory();
    let (bytes, mut footprint) = extract::read(headers, body, state, budget).await?;
    if bytes.is_empty() {
        return Ok((ToolOutput::Nothing, footprint));
    }
    if media_type == "application/json" || media_type.ends_with("+json") {
        let value = footprint.parse(budget, &bytes).map_err(extract::unread)?;
        return Ok((ToolOutput::Json(value), footprint));
    }
    footprint.take(budget, bytes.len()).map_err(extract::memory_problem)?;
    if media_type.starts_with("image/") {
        return Ok((ToolOutput::Image { bytes: bytes.to_vec(), mime_type: media_type }, footprint));
    }
    if media_type == "application/octet-stream"
        && let Ok(format) = image::guess_format(&bytes)
    {
        return Ok((
            ToolOutput::Image { bytes: bytes.to_vec(), mime_type: format.to_mime_type().to_owned() },
            footprint,
        ));
    }
    if media_type.starts_with("text/") {
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| Problem::bad_json("the text is not valid UTF-8"))?;
        return Ok((ToolOutput::Text(text), footprint));
    }
    Err(Problem::not_json(&media_type))
}

/// The sender of a report or a result.
struct Sender {
    access: Access,
    /// The attempt of a worker.
    attempt: Option<u32>,
}

/// Authorizes a report or result. The request needs the call's token; if the tool was sent none, any caller that may
/// reach the call is accepted.
async fn authorize(
    state: &AppState,
    asking: Option<Extension<Access>>,
    id: Uuid,
    headers: &HeaderMap,
) -> HttpResult<Sender> {
    let owner = state.engine.control().owner_of(id).await?;
    let shown = bearer(headers);
    let attempt = shown.and_then(|token| state.signing_key.attempt_of_token(id, token));
    if attempt.is_some() || shown.is_some_and(|token| state.signing_key.is_token(id, token)) {
        let owner = owner.ok_or_else(|| extract::no_such_call(&id.to_string()))?;
        let caller =
            Caller { tenant: owner, scopes: Scopes::default(), tools: None, queues: None, key: None, identity: None };
        let access = Access::open(caller, &state.stores, state.engine.registry()).await?;
        return Ok(Sender { access, attempt });
    }
    let Some(Extension(access)) = asking else { return Err(Problem::wrong_token()) };
    // Without authentication, an `Authorization` header can only be meant as the call's token.
    if state.auth.operator().is_some() && headers.contains_key(header::AUTHORIZATION) {
        return Err(Problem::wrong_token());
    }
    if owner.as_ref() != Some(access.tenant()) || !access.may_reach_id(id).await? {
        return Err(extract::no_such_call(&id.to_string()));
    }
    if state.engine.control().has_token(id).await? {
        return Err(Problem::wrong_token());
    }
    Ok(Sender { access, attempt: None })
}
