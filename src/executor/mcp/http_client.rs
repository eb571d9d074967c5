//! rmcp's client over HTTP, but for lists of tools: those are read here, before rmcp's types drop what they do not know.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};

use super::lines;
use crate::executor::http::MAX_ANSWER_BYTES;
use crate::formats::sse;

/// Names the session of a request.
const SESSION: &str = "mcp-session-id";

/// The client. Cheap to clone.
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
        let most = MAX_ANSWER_BYTES;
        self.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        max_sse_event_size: usize,
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
            // What is no list is asked for once more: rmcp knows what each refusal means.
            if let Some(listed) = list(post, &request.id).await {
                return Ok(listed);
            }
        }
        let post = self.0.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            max_sse_event_size,
        );
        post.await
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
        self.0.get_stream(uri, session_id, last_event_id, auth_header, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxedSseResponse, Error> {
        let most = max_sse_event_size;
        self.0.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, most).await
    }
}

/// The answer to this request, if it is one.
async fn list(post: reqwest::RequestBuilder, id: &RequestId) -> Option<StreamableHttpPostResponse> {
    let response = post.send().await.ok().filter(|response| response.status().is_success())?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, session) = (header(CONTENT_TYPE.as_str())?, header(SESSION));
    let body = response.bytes_stream().boxed();
    let message = match kind.as_str() {
        kind if kind.starts_with("application/json") => whole(body).await,
        kind if kind.starts_with("text/event-stream") => event(body, id).await,
        _ => None,
    };
    message.map(|message| StreamableHttpPostResponse::Json(message, session))
}

type Body = BoxStream<'static, reqwest::Result<Bytes>>;

async fn whole(mut body: Body) -> Option<ServerJsonRpcMessage> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.ok().filter(|piece| bytes.len() + piece.len() <= MAX_ANSWER_BYTES)?;
        bytes.extend_from_slice(&piece);
    }
    lines::read(&bytes)
}

/// The message of a stream that answers the request; a list says nothing on its way.
async fn event(mut body: Body, id: &RequestId) -> Option<ServerJsonRpcMessage> {
    let mut parser = sse::Parser::new(MAX_ANSWER_BYTES);
    while let Some(piece) = body.next().await {
        let piece = piece.ok()?;
        let mut rest = &piece[..];
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
