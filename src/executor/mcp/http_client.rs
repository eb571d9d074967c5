//! rmcp's HTTP client, except for tool lists, which are read here because rmcp's types drop unknown members.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};

use super::correlate::PendingPost;
use super::lines;
use crate::executor::http::{self, MAX_ANSWER_BYTES};
use crate::formats::sse;

/// The header with the protocol's session id.
const SESSION: &str = "mcp-session-id";

/// An HTTP client for rmcp. Cheap to clone. The size of events is always bounded by [`MAX_ANSWER_BYTES`].
#[derive(Debug, Clone)]
pub struct Client {
    inner: reqwest::Client,
    /// The number of open streams over which the server can send messages at any time.
    streams: Arc<AtomicUsize>,
}

/// An open stream of a client.
struct OpenStream(Arc<AtomicUsize>);

impl OpenStream {
    fn of(streams: &Arc<AtomicUsize>) -> Self {
        streams.fetch_add(1, Ordering::Relaxed);
        Self(streams.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    /// Creates a client for one server.
    pub fn new(inner: reqwest::Client) -> Self {
        Self { inner, streams: Arc::default() }
    }

    /// Returns `true` if the server can send messages over an open stream.
    fn is_listening(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Error = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let asked = PendingPost::of(&message);
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::ListToolsRequest(_))
        {
            let mut post = self.inner.post(&*uri).header(ACCEPT, "text/event-stream, application/json").json(&message);
            if let Some(session) = &session_id {
                post = post.header(SESSION, &**session);
            }
            if let Some(token) = &auth_header {
                post = post.bearer_auth(token);
            }
            for (name, value) in &headers {
                post = post.header(name, value);
            }
            // If the response is not a list, the request is repeated with rmcp's client, which interprets error
            // responses.
            if let Some(listed) = list(post).await {
                return match asked {
                    Some(asked) => asked.answer(Ok(listed), false),
                    None => Ok(listed),
                };
            }
        }
        let most = MAX_ANSWER_BYTES;
        let answer =
            self.inner.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, most).await;
        match asked {
            Some(asked) => asked.answer(answer, self.is_listening()),
            None => answer,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        self.inner.delete_session(uri, session_id, auth_header, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Error> {
        let most = MAX_ANSWER_BYTES;
        let events = self
            .inner
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, most)
            .await?;
        let open = OpenStream::of(&self.streams);
        Ok(events.inspect(move |_| _ = &open).boxed())
    }
}

/// Sends the request and returns the response; `None` if there is none.
async fn list(post: reqwest::RequestBuilder) -> Option<StreamableHttpPostResponse> {
    let mut response = post.send().await.ok().filter(|response| response.status().is_success())?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, session) = (header(CONTENT_TYPE.as_str())?, header(SESSION));
    let message = match kind.as_str() {
        kind if kind.starts_with("application/json") => {
            let bytes = http::read::body(&mut response, MAX_ANSWER_BYTES).await.ok()?;
            lines::read(&bytes)
        }
        kind if kind.starts_with("text/event-stream") => event(response).await,
        _ => None,
    };
    message.map(|message| StreamableHttpPostResponse::Json(message, session))
}

/// Returns the response of an event stream. Other messages are ignored, because a list reports no progress.
async fn event(mut response: reqwest::Response) -> Option<ServerJsonRpcMessage> {
    let mut parser = sse::Parser::new(MAX_ANSWER_BYTES);
    while let Some(chunk) = response.chunk().await.ok()? {
        let mut rest = &chunk[..];
        while let Some(event) = parser.next(&mut rest).ok()? {
            let message = lines::read(&event.data);
            let is_answer = matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
            if is_answer {
                return message;
            }
        }
    }
    None
}
