//! `POST /tool-calls`: the one way in for a model's calls.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use uuid::Uuid;

use super::call_body::{self, CallBody};
use super::extract::JsonBody;
use super::problem::{Problem, ProblemBody};
use super::{AppState, reply};
use crate::domain::Call;
use crate::domain::event::{EventKind, Stage};
use crate::engine::{NotRecorded, Submission, Submitted};
use crate::events::bus::CallReader;
use crate::events::frame;
use crate::formats::native::{BatchAnswer, ToolCall};

/// One call: a ToolCall. A batch: its results.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the document reads it")]
enum CallAnswer<'a> {
    One(Box<ToolCall<'a>>),
    Batch(BatchAnswer<'a>),
}

/// Runs one tool call, or a batch of them. A call that fails is a 200 with status `ERROR`: the model must read it.
///
/// With `Accept: text/event-stream` the answer is the calls' events as they happen (`tool_call`, `status`, `progress`,
/// `tool_result`), and at the end `batch` with what the JSON answer would have been.
#[utoipa::path(post, path = "/tool-calls", operation_id = "execute_tool_calls", tag = "tool calls", request_body = CallBody,
    responses((status = 200, description = "One call: a ToolCall. A batch: its results in request order. Or the events.",
            content((CallAnswer = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "The body is no JSON, is nested too deeply, or holds an integer beyond 64 bits", body = ProblemBody, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "The Content-Type is not JSON", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body does not have its shape; `errors` say where", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "No room, the database is away, or the service is stopping; `Retry-After` says when to come again", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn execute(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, Problem> {
    let JsonBody { value, bytes } = body;
    let mut submission = call_body::read(value)?;
    submission.traceparent = traceparent(&headers);
    let ids = state.engine.ids(submission.calls.len());
    if wants_events(&headers) {
        let reader = state.bus.subscribe(ids.clone());
        let submitted = submit(&state, submission, ids.clone(), bytes).await?;
        return Ok(stream(state, reader, ids, submitted.batch_id));
    }
    let first = ids.first().copied();
    let submitted = submit(&state, submission, ids, bytes).await?;
    let batch_id = submitted.batch_id;
    // Whatever of a batch was accepted is found there, also if the one that was not recorded in time was not.
    let not_recorded = |not: NotRecorded| not_recorded(not.accepted || batch_id.is_some(), batch_id, first);
    let ended = submitted.ended().await.map_err(not_recorded)?;
    match (batch_id, ended.as_slice()) {
        (None, [call]) => Ok(reply::json(StatusCode::OK, &ToolCall::from(&**call))),
        (_, calls) => Ok(reply::json(StatusCode::OK, &batch_answer(batch_id, calls))),
    }
}

/// Arguments that take long to check are not checked where others wait.
async fn submit(state: &AppState, submission: Submission, ids: Vec<Uuid>, bytes: usize) -> Result<Submitted, Problem> {
    if bytes <= QUICKLY_CHECKED {
        return Ok(state.engine.submit(submission, ids, bytes)?);
    }
    let engine = state.engine.clone();
    let submitted = tokio::task::spawn_blocking(move || engine.submit(submission, ids, bytes)).await;
    Ok(submitted.map_err(|_| Problem::internal())??)
}

/// Largest body, in bytes, whose arguments are checked on the spot.
const QUICKLY_CHECKED: usize = 64 * 1024;

fn batch_answer(batch_id: Option<Uuid>, calls: &[Arc<Call>]) -> BatchAnswer<'_> {
    BatchAnswer { batch_id, results: calls.iter().map(|call| ToolCall::from(&**call)).collect() }
}

/// The database is away. What was accepted goes on; what was not may safely be sent again.
fn not_recorded(accepted: bool, batch_id: Option<Uuid>, call: Option<Uuid>) -> Problem {
    if accepted {
        let location = match (batch_id, call) {
            (Some(batch_id), _) => format!("/tool-calls?batch_id={batch_id}"),
            (None, call) => format!("/tool-calls/{}", call.unwrap_or_default()),
        };
        let detail = "the end could not be recorded in time; what was accepted is at `Location` once it is";
        return Problem::store_unavailable(detail).at(location);
    }
    Problem::store_unavailable("the call could not be recorded in time; a tool that is not read-only was not run")
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|media| media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream"))
}

/// W3C Trace Context, section 3.2: passed on as it is if it has the shape of one.
fn traceparent(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_one = lengths.starts_with(&[2, 32, 16, 2]) && parts.iter().take(4).all(|part| is_hex(part));
    is_one.then(|| text.into())
}

/// The calls' events, and at the end the answer.
fn stream(state: AppState, reader: CallReader, ids: Vec<Uuid>, batch_id: Option<Uuid>) -> Response {
    let ended = HashMap::with_capacity(ids.len());
    let watch = Watch { reader, ids, ended, batch_id, is_over: false, last: 0, closing: state.closing.clone() };
    let events = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|piece| (piece, watch)) });
    let opening = stream::once(std::future::ready(frame::OPENING));
    sse(opening.chain(events).map(Ok::<_, Infallible>))
}

/// An SSE answer; nothing between here and the reader may hold it back or keep it.
pub(super) fn sse(frames: impl stream::Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

struct Watch {
    reader: CallReader,
    ids: Vec<Uuid>,
    /// As the events tell it: a call whose end was recorded late has one too.
    ended: HashMap<Uuid, Arc<Call>>,
    batch_id: Option<Uuid>,
    is_over: bool,
    last: i64,
    closing: tokio_util::sync::CancellationToken,
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.ended.len() == self.ids.len() {
            self.is_over = true;
            return self.end();
        }
        tokio::select! {
            biased;
            event = self.reader.events.recv() => match event {
                Some(event) => {
                    self.last = event.event.pos;
                    if event.event.stage == Stage::Result {
                        self.ended.insert(event.event.call.id, event.event.call.clone());
                    }
                    Some(event.bytes())
                }
                None => {
                    self.is_over = true;
                    Some(frame::CUT_OFF)
                }
            },
            () = self.closing.cancelled() => None,
            () = tokio::time::sleep(crate::events::stream::HEARTBEAT) => Some(frame::HEARTBEAT),
        }
    }

    fn end(&self) -> Option<Bytes> {
        let calls = self.ids.iter().filter_map(|id| self.ended.get(id));
        let results = calls.map(|call| ToolCall::short(call)).collect();
        let data = serde_json::to_string(&BatchAnswer { batch_id: self.batch_id, results }).ok()?;
        Some(frame::frame(self.last, EventKind::Batch.as_str(), &data))
    }
}
