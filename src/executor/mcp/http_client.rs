//! rmcp's HTTP client, except for tool lists, which are read here because rmcp's types drop unknown members.

use std::collections::HashMap;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};

use super::lines;
use crate::executor::http::{self, MAX_ANSWER_BYTES};
use crate::formats::sse;

/// The header with the protocol's session id.
const SESSION: &str = "mcp-session-id";

/// An HTTP client for rmcp. Cheap to clone. The size of events is always bounded by [`MAX_ANSWER_BYTES`].
#[derive(Debug, Clone)]
pub struct Client(pub reqwest::Client);

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
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::ListToolsRequest(_))
        {
            let mut post = self.0.post(&*uri).header(ACCEPT, "text/event-stream, application/json").json(&message);
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
            if let Some(listed) = list(post, &request.id).await {
                return Ok(listed);
            }
        }
        let most = MAX_ANSWER_BYTES;
        self.0.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        self.0.delete_session(uri, session_id, auth_header, headers).await
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
        self.0.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, most).await
    }
}

/// Sends the request and returns the response; `None` if it does not answer this request.
async fn list(post: reqwest::RequestBuilder, id: &RequestId) -> Option<StreamableHttpPostResponse> {
    let mut response = post.send().await.ok().filter(|response| response.status().is_success())?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, session) = (header(CONTENT_TYPE.as_str())?, header(SESSION));
    let message = match kind.as_str() {
        kind if kind.starts_with("application/json") => {
            let bytes = http::read::body(&mut response, MAX_ANSWER_BYTES).await.ok()?;
            lines::read(&bytes)
        }
        kind if kind.starts_with("text/event-stream") => event(response, id).await,
        _ => None,
    };
    message.map(|message| StreamableHttpPostResponse::Json(message, session))
}

/// Returns the message of an event stream that answers the request. Other messages are ignored, because a list reports
/// no progress.
async fn event(mut response: reqwest::Response, id: &RequestId) -> Option<ServerJsonRpcMessage> {
    let mut parser = sse::Parser::new(MAX_ANSWER_BYTES);
    while let Some(chunk) = response.chunk().await.ok()? {
        let mut rest = &chunk[..];
        while let Some(event) = parser.next(&mut rest).ok()? {
            let message = lines::read(&event.data);
            let is_answer = match &message {
                Some(JsonRpcMessage::Response(answer)) => answer.id == *id,
                Some(JsonRpcMessage::Error(error)) => error.id.as_ref() == Some(id),
                _ => false,
            };
            if is_answer {
                return message;
            }
        }
    }
    None
}
