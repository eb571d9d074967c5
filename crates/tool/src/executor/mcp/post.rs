//! Requests that are posted to a server over Streamable HTTP. Their responses are read as other programs write JSON; rmcp's own
//! client reads valid JSON only.

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, stream};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::lines;
use crate::executor::http::{self, MAX_ANSWER_BYTES};
use toolpost_core::formats::sse;

type Error = StreamableHttpError<reqwest::Error>;

/// The header with the protocol's session id.
pub(super) const SESSION: &str = "mcp-session-id";
/// Maximum length of the body of an error, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The part of an event stream that is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    /// All events, because a call reports progress.
    Events,
    /// The response alone, with the members that rmcp's types would drop.
    Answer,
}

impl Reading {
    /// Returns how the response to a message is read here; `None` if rmcp reads it.
    pub fn of(message: &ClientJsonRpcMessage) -> Option<Self> {
        let JsonRpcMessage::Request(request) = message else { return None };
        match request.request {
            ClientRequest::CallToolRequest(_) => Some(Self::Events),
            ClientRequest::ListToolsRequest(_) => Some(Self::Answer),
            _ => None,
        }
    }
}

/// Posts a request and returns its response. `has_session` tells whether the request names a session, which the server may
/// have lost.
///
/// # Errors
/// Returns the reason why the server did not answer, as rmcp expects it.
pub(super) async fn send(
    request: RequestBuilder,
    id: &RequestId,
    has_session: bool,
    reading: Reading,
) -> Result<StreamableHttpPostResponse, Error> {
    let mut response = request.send().await?;
    let status = response.status();
    if let Some(challenge) = header(&response, WWW_AUTHENTICATE.as_str()) {
        match status {
            StatusCode::UNAUTHORIZED => {
                return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
            }
            StatusCode::FORBIDDEN => {
                return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)));
            }
            _ => {}
        }
    }
    match status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
        StatusCode::NOT_FOUND if has_session => return Err(StreamableHttpError::SessionExpired),
        _ => {}
    }
    let (kind, session) = (header(&response, CONTENT_TYPE.as_str()), header(&response, SESSION));
    let is_of = |media: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(media));
    let is_json = is_of("application/json");
    if !status.is_success() {
        return failed(response, is_json, session).await;
    }
    if is_of("text/event-stream") {
        let mut events = Events::of(response, id.clone());
        return match reading {
            Reading::Events => {
                let events = stream::unfold(events, async |mut events| Some((events.next().await?, events)));
                Ok(StreamableHttpPostResponse::Sse(events.boxed(), session))
            }
            Reading::Answer => Ok(StreamableHttpPostResponse::Json(events.answer().await?, session)),
        };
    }
    if !is_json {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let body = http::read::body(&mut response, MAX_ANSWER_BYTES).await.map_err(|error| match error {
        http::read::BodyError::TooLarge => StreamableHttpError::ResponseBodyTooLarge { max_size: MAX_ANSWER_BYTES },
        http::read::BodyError::Incomplete => StreamableHttpError::UnexpectedEndOfStream,
    })?;
    match lines::read(&body) {
        Some(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        None => Err(StreamableHttpError::UnexpectedServerResponse("its response is not valid JSON".into())),
    }
}

/// Returns the error of a response without success: a JSON-RPC error, or the status with the beginning of the body.
async fn failed(
    response: Response,
    is_json: bool,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let retryable = (is_busy || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), header(&response, RETRY_AFTER.as_str())));
    let text = match is_busy {
        true => String::new(),
        false => http::read::beginning(response, MAX_ERROR_BYTES).await,
    };
    let is_refusal = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_json
        && !is_refusal
        && let Some(message @ JsonRpcMessage::Error(_)) = lines::read(text.as_bytes())
    {
        return Ok(StreamableHttpPostResponse::Json(message, session));
    }
    Err(match retryable {
        Some(status) => status.into(),
        None => StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into()),
    })
}

/// Returns the text of a header.
fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The events of a response.
struct Events {
    response: Response,
    parser: sse::Parser,
    chunk: Bytes,
    id: RequestId,
    is_over: bool,
}

impl Events {
    fn of(response: Response, id: RequestId) -> Self {
        Self { response, parser: sse::Parser::new(MAX_ANSWER_BYTES), chunk: Bytes::new(), id, is_over: false }
    }

    /// Returns the response among the events.
    async fn answer(&mut self) -> Result<ServerJsonRpcMessage, Error> {
        while let Some(event) = self.next().await {
            let message = event?.data.and_then(|data| lines::read(data.as_bytes()));
            if let Some(message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) = message {
                return Ok(message);
            }
        }
        Err(StreamableHttpError::UnexpectedEndOfStream)
    }

    /// Returns the next event. An error that answers the request takes the place of an event that is too large.
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        while !self.is_over {
            let mut rest = &self.chunk[..];
            let parsed = self.parser.next(&mut rest);
            let taken = self.chunk.len() - rest.len();
            self.chunk.advance(taken);
            match parsed {
                Ok(Some(event)) => return Some(Ok(self.converted(event))),
                Ok(None) => {}
                Err(sse::TooLarge) => {
                    self.is_over = true;
                    let message = lines::too_large(self.id.clone());
                    return serde_json::to_string(&message).ok().map(|data| Ok(Sse::default().data(data)));
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(SseError::Body(Box::new(error))));
                }
            }
        }
        None
    }

    fn converted(&mut self, event: sse::Event) -> Sse {
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
        Sse {
            event: text(&event.name),
            data: Some(String::from_utf8_lossy(&event.data).into_owned()),
            id: text(self.parser.last_event_id()),
            retry: self.parser.take_retry(),
        }
    }
}
