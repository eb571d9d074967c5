//! `POST /tool-calls/stream`: the caller sends the event stream of a model and receives the events of its calls.

use axum::Extension;
use axum::body::Body;
use axum::http::HeaderMap;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::auth::CallerLimits;
use super::call_body::{self, OnDisconnect};
use super::openapi_common::Event;
use super::subscribers::StreamPermit;
use super::{Api, HttpResult, Params, Problem, event_response, extract, idempotency, request_headers};
use crate::callbacks;
use crate::dispatch::Mode;
use crate::domain::schemas::HttpUrl;

use crate::domain::{Cursor, LimitsSpec, Vendor};
use crate::engine::Submission;
use crate::telemetry::Context;
use toolpost_core::described_as;

mod reader;
mod responder;

use reader::ModelStreamReader;
use responder::ModelStreamResponder;

/// Maximum number of calls per stream.
const MAX_CALLS: usize = 1024;
/// Capacity of the channel from reader to responder: up to three messages per call, while the client is not reading.
const MAX_MESSAGES: usize = 4 * MAX_CALLS;
/// Maximum number of unread events. A client that sends its whole stream first can still read all events afterwards.
const MAX_UNREAD_EVENTS: usize = 4096;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ModelStreamParams {
    /// The vendor of the stream. By default, it is detected from the first event. `openai-strict` is the same as
    /// `openai`.
    #[param(inline)]
    format: Option<Vendor>,
    /// The session of the calls.
    #[param(min_length = 1, max_length = 512, pattern = "^[^\\u0000]+$")]
    session: Option<String>,
    /// Whether the calls run in parallel or in order.
    #[serde(default)]
    #[param(inline)]
    mode: Mode,
    /// Timeout of one attempt of each call, in milliseconds.
    #[param(minimum = 1)]
    timeout_ms: Option<u64>,
    /// Calls with a higher priority leave the queue first.
    #[serde(default)]
    priority: i32,
    /// Receives each call when it has ended, signed according to Standard Webhooks.
    #[param(value_type = Option<HttpUrl>)]
    callback_url: Option<String>,
    /// What happens to the calls when the client disconnects.
    #[serde(default)]
    #[param(inline)]
    on_disconnect: OnDisconnect,
}

/// The event stream of a model.
enum VendorStream {}

described_as!(VendorStream as "VendorStream", [], {"description": "The model's stream as its vendor sends it."});

/// Runs the tool calls of a model while the model is still generating.
///
/// The body is the unchanged event stream of the vendor, with any chunk boundaries. The response is a stream of the
/// calls' events: a card once the tool's name is known, its parameters as they arrive. Each call starts when its own
/// block is complete. Calls that the provider runs itself are shown (`executed_by`) but not run. The stream ends with
/// `batch`, whose `messages` continue the conversation. If the model's stream is interrupted, calls with incomplete
/// arguments end as `ARGUMENTS_TRUNCATED`, and `batch` has a `stream_error`.
#[utoipa::path(post, path = "/tool-calls/stream", operation_id = "pipe_model_stream", tag = "tool calls", params(ModelStreamParams),
    security(("api_key" = ["call"])),
    request_body(content = inline(VendorStream), content_type = "text/event-stream", description = "The event stream of the model",
        example = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"echo\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}]},\"finish_reason\":null}]}\n\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"),
    responses((status = 200, description = "`tool_call`, `status`, `progress` and `tool_result` events as they happen, then `batch`", body = Event, content_type = "text/event-stream"),
        (status = 415, description = "The body has a Content-Encoding"),
        (status = 422, description = "A query parameter or a header is invalid"),
        (status = 429, description = "`TOO_MANY_STREAMS`: the caller has reached its limit of open streams. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 503, description = "The service is shutting down. `OVERLOADED`: the limit on open streams is reached")))]
pub(super) async fn pipe(
    Api { state, access }: Api,
    permit: StreamPermit,
    caller: Option<Extension<CallerLimits>>,
    headers: HeaderMap,
    Params(params): Params<ModelStreamParams>,
    body: Body,
) -> HttpResult {
    if headers.contains_key(idempotency::IDEMPOTENCY_KEY) {
        let message =
            "header Idempotency-Key: not supported for streams, whose content is unknown until they end; omit it";
        return Err(Problem::field("", message));
    }
    extract::check_content_encoding(&headers)?;
    if state.engine.is_draining() {
        return Err(Problem::shutting_down());
    }
    let ModelStreamParams { format, session, mode, timeout_ms, priority, callback_url, on_disconnect } = params;
    let limits = LimitsSpec { timeout_ms, ..LimitsSpec::default() };
    call_body::check_limits(&limits)?;
    if let Some(session) = &session {
        call_body::check_session(session, "/session")?;
    }
    if let Some(url) = &callback_url {
        callbacks::check_url(url).map_err(|fault| Problem::query(format!("callback_url {fault}")))?;
    }
    let mut template = Submission {
        is_batch: true,
        batch_id: Some(state.engine.new_id()),
        mode,
        session: session.map(Into::into),
        limits,
        priority,
        callback_url: callback_url.map(Into::into),
        cancel_on_disconnect: on_disconnect == OnDisconnect::Cancel,
        traceparent: request_headers::traceparent(&headers),
        cache_control: request_headers::cache_control(&headers),
        ..Submission::default()
    };
    if template.session.is_some() {
        state.engine.join_session(&access, &mut template).await?;
    }
    // Without the database, the client resumes from what this node has published.
    let last = access.store().newest().await.unwrap_or_else(|_| Cursor::clone(&state.bus.published()));
    let (reader, growing) = state.bus.subscribe_growing(MAX_UNREAD_EVENTS);
    let (notes, messages) = mpsc::channel(MAX_MESSAGES);
    let answer = ModelStreamResponder::new(state.clone(), access.clone(), template.batch_id, reader, messages, last);
    // The reader runs detached: complete calls run even if the client stops reading.
    let credential = caller.map(|Extension(caller)| caller.credential);
    let session = ModelStreamReader::new(state, access, format, template, growing, notes, credential);
    tokio::spawn(Context::current().scope(session.run(body)));
    Ok(permit.attach_to(event_response::sse(answer.frames())))
}
