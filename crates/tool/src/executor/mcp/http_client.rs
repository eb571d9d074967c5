//! rmcp's HTTP client, except for calls and lists of tools, whose responses are read as other programs write JSON. rmcp's types
//! would also drop unknown members of tools.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};

use super::correlate::PendingPost;
use super::post::{self, Reading, SESSION};
use crate::executor::http::MAX_ANSWER_BYTES;

/// The media types of responses.
const ACCEPTED: &str = "text/event-stream, application/json";

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
        let pending = PendingPost::of(&message);
        let answer = match (&pending, Reading::of(&message)) {
            (Some(pending), Some(reading)) => {
                let mut request = self.inner.post(&*uri).header(ACCEPT, ACCEPTED).json(&message);
                if let Some(session) = &session_id {
                    request = request.header(SESSION, &**session);
                }
                if let Some(token) = &auth_header {
                    request = request.bearer_auth(token);
                }
                for (name, value) in &headers {
                    request = request.header(name, value);
                }
                post::send(request, pending.id(), session_id.is_some(), reading).await
            }
            _ => {
                let max_bytes = MAX_ANSWER_BYTES;
                let post = self.inner.post_message_with_max_sse_event_size(
                    uri,
                    message,
                    session_id,
                    auth_header,
                    headers,
                    max_bytes,
                );
                post.await
            }
        };
        match pending {
            Some(pending) => pending.answer(answer, self.is_listening()),
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
        let max_bytes = MAX_ANSWER_BYTES;
        let events = self
            .inner
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, max_bytes)
            .await?;
        let open = OpenStream::of(&self.streams);
        Ok(events.inspect(move |_| _ = &open).boxed())
    }
}
