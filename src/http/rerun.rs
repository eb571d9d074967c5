//! `POST /tool-calls/{id}/rerun`: a new call with the tool and the arguments of an ended one.

use axum::extract::{Path, Request};
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::call_body::IdLocation;
use super::calls::accepted;
use super::request_headers::{cache_control, traceparent};
use super::responses::{Unavailable, UnknownCall};
use super::{Api, AppState, BodyErrors, HttpResult, Problem, extract, idempotency, reply, wait};
use crate::access::Access;
use crate::domain::call::CacheControl;
use crate::domain::{Call, CallRequest, Code, IdempotencyKey, decode};
use crate::engine::{Keyed, Submission, Wait};
use crate::formats::native::ToolCall;
use crate::memory::Footprint;

/// The options of a rerun.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Rerun)]
pub(super) struct RerunBody {
    /// The arguments of the new call, as in `POST /tool-calls`. Default: the arguments of the old call.
    #[schema(value_type = Option<Value>)]
    arguments: Option<Value>,
}

/// Makes a new call with the tool and the arguments of an ended call.
///
/// The new call has an id of its own, and `metadata.rerun_of` names the old call. It runs in the session of the old call
/// with its agent, retries and priority. Tool, schema, presets and hooks are those of now, and a cached result is never
/// used. Context objects of the old request are not stored: those of the
/// session and the server apply. The old `callback_url` is not notified again.
///
/// Each request makes a new call. With an `Idempotency-Key` the request can be repeated safely.
#[utoipa::path(post, path = "/tool-calls/{id}/rerun", operation_id = "rerun_tool_call", tag = "tool calls",
    security(("api_key" = ["call"])),
    params(("id" = Uuid, Path, description = "The id that the service assigned to the ended call"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, description = "A repeated key \
            with the same call and body returns the new call of the first request; nothing runs twice. Kept for 24 h."),
        ("Cache-Control" = Option<String>, Header, example = "no-store", description = "For tools whose results are \
            cached: `no-store` does not cache the new result.")),
    request_body(content = Option<RerunBody>, example = json!({"arguments": {"city": "Paris"}})),
    responses((status = 202, description = "The new call in its current status. It is durable", body = ToolCall,
            headers(("Location" = String, description = "The location of the new call"),
                ("Idempotency-Replayed" = String, description = "`true`: the key was used before, and this is the call of the first request"))),
        (status = 409, description = "`CALL_NOT_ENDED`: the call waits or runs. `ARGUMENTS_REDACTED`: a hook has redacted the stored arguments. `ARGUMENTS_INCOMPLETE`: the arguments never arrived completely. In the last two cases, send `arguments`"),
        (status = 422, description = "The body does not match the schema. Or `IDEMPOTENCY_KEY_REUSED`: the key came with another call or body"),
        (status = 503, description = "`OVERLOADED`: the service is at capacity. `STORE_UNAVAILABLE`: the database is unavailable. `SHUTTING_DOWN`: the service is shutting down"),
        BodyErrors, UnknownCall, Unavailable))]
pub(super) async fn rerun(Api { state, access }: Api, Path(id): Path<String>, request: Request) -> HttpResult {
    let id = extract::call_id(&id)?;
    let (headers, value, mut footprint) = extract::json_or_empty(request, &state, state.engine.memory()).await?;
    let value = if value.is_null() { json!({}) } else { value };
    // The key covers the old call, too, because it is not part of the body.
    let once = idempotency::read_key(&headers, &json!({"rerun_of": id, "body": value}))?;
    decode::expect_objects(&value, &[""])?;
    let RerunBody { arguments } = decode::read(value)?;
    let old = extract::find_call(&access, id).await?;
    if arguments.is_none() {
        footprint.bytes = footprint.bytes.max(old.arguments_text.get().len());
        footprint.weight = footprint.weight.max(footprint.bytes);
    }
    let submission = repetition(&old, arguments, &headers, once)?;
    let (new, is_replayed) = submit(&state, &access, submission, footprint).await?;
    let call = wait::wait(&state, &access, new, Some(std::time::Duration::ZERO)).await?;
    let mut response = reply::at(&format!("/tool-calls/{new}"), reply::accepted(&ToolCall::from(&call)));
    if is_replayed {
        idempotency::mark_replayed(&mut response);
    }
    Ok(response)
}

/// Returns the submission that repeats a call.
///
/// # Errors
/// Returns a 409 if the call has not ended, or if its arguments are needed and were not stored as given.
fn repetition(
    old: &Call,
    arguments: Option<Value>,
    headers: &HeaderMap,
    once: Option<IdempotencyKey>,
) -> HttpResult<Submission> {
    if !old.status.is_terminal() {
        let detail = "the call has not ended; wait for its end or cancel it first";
        return Err(Problem::conflict("CALL_NOT_ENDED", detail));
    }
    let vendor = if arguments.is_some() { None } else { old.vendor };
    let arguments = match arguments {
        Some(arguments) => arguments,
        None => stored_arguments(old)?,
    };
    // A repetition that does not run the tool would be of no use.
    let cache_control = match cache_control(headers) {
        CacheControl::Any => CacheControl::NoCache,
        other => other,
    };
    let request = CallRequest {
        name: old.name.to_string(),
        arguments: Some(arguments),
        retry: old.retry,
        priority: Some(old.priority),
        vendor,
        rerun_of: Some(old.id),
        ..CallRequest::default()
    };
    Ok(Submission {
        calls: vec![request],
        session: old.session.clone(),
        agent: old.agent.clone(),
        wait: Wait::Accepted,
        idempotency_key: once,
        cache_control,
        traceparent: traceparent(headers),
        ..Submission::default()
    })
}

/// Returns the arguments of a call as they were given.
///
/// # Errors
/// Returns a 409 if they were redacted, or if they never arrived completely.
fn stored_arguments(old: &Call) -> HttpResult<Value> {
    if old.is_redacted {
        let detail = "the stored arguments of the call are redacted; send `arguments` to run the tool again";
        return Err(Problem::conflict("ARGUMENTS_REDACTED", detail));
    }
    let failure = old.outcome.as_deref().and_then(|outcome| outcome.error.as_ref());
    let is_cut_off = failure.is_some_and(|failure| failure.code == Code::ArgumentsTruncated);
    // Streamed arguments are checked when they are complete.
    if is_cut_off || old.streamed && old.effective_arguments.is_none() {
        let detail = "the stored arguments of the call are incomplete or invalid; send complete `arguments`";
        return Err(Problem::conflict("ARGUMENTS_INCOMPLETE", detail));
    }
    Ok((*old.arguments).clone())
}

/// Submits the call and waits until it is durable. Returns its id, and whether its key was used before.
async fn submit(
    state: &AppState,
    access: &Access,
    submission: Submission,
    footprint: Footprint,
) -> HttpResult<(Uuid, bool)> {
    let ids = state.engine.ids(1);
    if !submission.is_keyed() {
        let mut submitted = state.engine.submit(access, submission, ids.clone(), footprint).await?;
        accepted(&mut submitted).await?;
        return ids.first().map(|id| (*id, false)).ok_or_else(Problem::internal);
    }
    let keyed = state.engine.submit_keyed(access, &submission, &ids, footprint).await;
    let (ids, is_replayed) = match keyed.map_err(|error| idempotency::problem_of(error, &IdLocation::Body))? {
        Keyed::Known { calls, .. } => (calls, true),
        Keyed::New { ids, .. } => (ids, false),
    };
    ids.first().map(|id| (*id, is_replayed)).ok_or_else(Problem::internal)
}
