//! `POST /tool-calls`: submits a model's calls.

use axum::extract::Request;

use super::call_body::{self, CallBody, ParsedBody};
use super::openapi_common::Event;

use super::request_headers::{Preference, cache_control, prefers_events, traceparent};
use super::requests::Client;
use super::subscribers::{self, StreamLimits};
use super::{Api, AppState, BodyErrors, HttpResult, Problem, call_response, event_response, extract, idempotency};
use crate::access::Access;
use crate::engine::{AcceptError, InFlightCalls, RecordError};
use crate::formats::native::{BatchAnswer, ToolCall};
use crate::memory::Footprint;

/// For one call: a ToolCall. For a batch or a model's message: its results.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
enum CallAnswer<'a> {
    One(Box<ToolCall<'a>>),
    Batch(BatchAnswer<'a>),
}

/// Runs one tool call, a batch, or the calls of a model's message. A failed call is a 200 with status `ERROR` for the
/// model.
///
/// A message of OpenAI Chat, OpenAI Responses, Anthropic or Gemini is recognized by its structure or by `format`, and
/// may have any other members. The response is that of a batch plus `messages`: the messages to append to the
/// conversation, in the same vendor's format. Tools that the provider runs itself are ignored.
///
/// With `Accept: text/event-stream` the response streams the calls' events (`tool_call`, `status`, `progress`,
/// `tool_result`), followed by a `batch` event with the content of the JSON response.
///
/// A 202 is durable: the calls run or end with a clear error, even if the service restarts. With an `Idempotency-Key`
/// the request can be repeated safely: the calls run once, and each repetition gets the outcome of the first request.
#[utoipa::path(post, path = "/tool-calls", operation_id = "execute_tool_calls", tag = "tool calls",
    request_body(content = CallBody, examples(
        ("one_call" = (summary = "One call", value = json!({"name": "echo", "arguments": {"city": "Paris"}}))),
        ("batch" = (summary = "Batch", value = json!({"calls": [{"id": "call_1", "name": "echo", "arguments": {"city": "Paris"}}, {"id": "call_2",
            "name": "calculate", "arguments": {"expression": "6 * 7"}}]}))),
        ("message_of_openai_chat" = (summary = "Message of OpenAI Chat", value = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "echo", "arguments": "{\"city\":\"Paris\"}"}}]}))),
        ("response_of_openai_responses" = (summary = "Response of OpenAI Responses", value = json!({"id": "resp_1", "status": "completed", "output": [{"type": "function_call", "id": "fc_1",
            "call_id": "call_1", "name": "echo", "arguments": "{\"city\":\"Paris\"}"}]}))),
        ("message_of_anthropic" = (summary = "Message of Anthropic", value = json!({"role": "assistant", "stop_reason": "tool_use", "content": [{"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_01A09q", "name": "echo", "input": {"city": "Paris"}}]}))),
        ("response_of_gemini" = (summary = "Response of Gemini", value = json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model",
            "parts": [{"functionCall": {"name": "echo", "args": {"city": "Paris"}}}]}}]}))))),
    security(("api_key" = ["call"])),
    params(
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, description = "A repeated key \
            with the same body joins the first request or returns its outcome; nothing runs twice. Kept for 24 h."),
        ("Prefer" = Option<String>, Header, example = "respond-async, wait=10", description = "`respond-async` and `wait=SECONDS` (RFC 7240), up to an hour. `wait` in the body takes precedence."),
        ("Cache-Control" = Option<String>, Header, example = "no-cache", description = "For tools whose results are \
            cached: `no-cache` runs the tool and caches the new result, `no-store` runs it and caches nothing."),
        ("traceparent" = Option<String>, Header, example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", description = "W3C Trace Context, passed on to `http` tools.")),
    responses((status = 200, description = "All calls have ended. One call: a ToolCall. A batch: its results in \
        request order. A model's message: the results of a batch and `messages`. Or the events.",
            content((CallAnswer = "application/json"), (Event = "text/event-stream")),
            headers(("Preference-Applied" = String, description = "The preferences that were applied"),
                ("Idempotency-Replayed" = String, description = "`true`: the key was used before, and this is the outcome of the first request"))),
        (status = 202, description = "The calls are accepted, but not all have ended. Each is returned in its current status and continues", body = CallAnswer,
            headers(("Location" = String, description = "The location of the calls: `/tool-calls/{id}`, or `/tool-calls?batch_id=…`"),
                ("Preference-Applied" = String, description = "The preferences that were applied"),
                ("Idempotency-Replayed" = String, description = "`true`: the key was used before, and these are the calls of the first request"))),
        (status = 422, description = "The body does not match the schema; `errors` say where. Or `IDEMPOTENCY_KEY_REUSED`: the key came with another body"),
        (status = 429, description = "`TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded. `TOO_MANY_STREAMS`: the caller has reached its limit of event streams. `TOO_MANY_SESSIONS`: the limit of the tenant is reached"),
        (status = 503, description = "`OVERLOADED`: the service is at capacity. `STORE_UNAVAILABLE`: the database is unavailable; calls that were accepted are at `Location`. `SHUTTING_DOWN`: the service is shutting down",
            headers(("Location" = String, description = "The location of the accepted calls, if there are any"))),
        BodyErrors))]
pub(super) async fn execute(
    Api { state, access }: Api,
    limits: StreamLimits,
    client: Client,
    request: Request,
) -> HttpResult {
    let (headers, value, footprint) = extract::json(request, &state, state.engine.memory()).await?;
    let once = idempotency::read_key(&headers, &value)?;
    let mut parsed = call_body::read(value, &access.snapshot(), state.config.server.max_batch_calls)?;
    let wants_events = prefers_events(&headers);
    let submission = &mut parsed.submission;
    if submission.cancel_on_disconnect {
        client.ends_request();
    }
    if submission.calls.is_empty() {
        // The message has no call for this service, so nothing runs.
        return Ok(if wants_events {
            Box::pin(event_response::nothing(&state)).await
        } else {
            call_response::nothing()
        });
    }
    let permit = wants_events.then(|| limits.take()).transpose()?;
    let preference = Preference::of(&headers).filter(|_| parsed.wait.is_none());
    submission.wait = parsed.wait.or(preference.map(Preference::wait)).unwrap_or_default();
    submission.traceparent = traceparent(&headers);
    submission.cache_control = cache_control(&headers);
    submission.idempotency_key = once;
    submission.leaves_approvals = !wants_events;
    let mut response = if submission.is_keyed() {
        // Rare paths are boxed, because a future is as large as its largest branch.
        Box::pin(idempotency::execute(&state, &access, parsed, footprint, wants_events)).await?
    } else {
        execute_unkeyed(&state, &access, parsed, footprint, wants_events).await?
    };
    // An event stream continues until the calls end, regardless of the preference.
    if let Some(applied) = preference.filter(|_| !wants_events).and_then(Preference::applied) {
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(subscribers::with_permit(permit, response))
}

async fn execute_unkeyed(
    state: &AppState,
    access: &Access,
    parsed: ParsedBody,
    footprint: Footprint,
    wants_events: bool,
) -> HttpResult {
    let ParsedBody { submission, message: continuation, .. } = parsed;
    let (ids, wait) = (state.engine.ids(submission.calls.len()), submission.wait);
    if wants_events {
        let reader = state.bus.subscribe(ids.clone());
        let mut submitted = state.engine.submit(access, submission, ids.clone(), footprint).await?;
        Box::pin(accepted(&mut submitted)).await?;
        return Ok(event_response::stream(state.clone(), access.clone(), reader, ids, submitted, continuation));
    }
    let mut submitted = state.engine.submit(access, submission, ids, footprint).await?;
    let (batch_id, first) = (submitted.batch_id, submitted.calls.first().map(|call| call.id));
    // A batch has a location even if one of its calls was not recorded in time, because others may have been accepted.
    let not_recorded =
        |not: RecordError| call_response::not_recorded(not.accepted || batch_id.is_some(), batch_id, first);
    if submitted.is_plain() {
        let ended = submitted.wait_all().await.map_err(not_recorded)?;
        return Ok(call_response::as_they_are(batch_id, batch_id.is_some(), &ended, continuation.as_deref()));
    }
    Box::pin(accepted(&mut submitted)).await?;
    let seen = Box::pin(submitted.wait_for(wait)).await.map_err(not_recorded)?;
    Box::pin(call_response::seen(access, batch_id, seen, continuation.as_deref())).await
}

/// Waits until calls that require acceptance are on disk.
pub(super) async fn accepted(submitted: &mut InFlightCalls) -> HttpResult<()> {
    let (batch_id, first) = (submitted.batch_id, submitted.calls.first().map(|call| call.id));
    submitted.accepted().await.map_err(|not| match not {
        AcceptError::NotRecorded => call_response::not_recorded(false, batch_id, first),
        // Only idempotency keys can be claimed, and these calls have none.
        AcceptError::Claimed => Problem::internal(),
    })
}
