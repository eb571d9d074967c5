//! Adds the annotations to sent lists of tools that rmcp's types do not support.

use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use rmcp::RoleServer;
use rmcp::model::{CustomResult, JsonRpcMessage, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;

use crate::executor::mcp::annotations::{CARRIER, unpack_all};

/// Completes an HTTP response to `tools/list`, either JSON or an event stream.
pub(super) async fn complete(answer: Response<Body>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    // The body was created by this process and ends with the list.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let completed = std::str::from_utf8(&bytes).ok().filter(|text| text.contains(CARRIER)).map(|text| {
        let lines = text.split('\n').map(|line| {
            let (field, json) = line.strip_prefix("data:").map_or(("", line), |json| ("data:", json));
            unpacked(json).map_or_else(|| line.to_owned(), |json| format!("{field}{json}"))
        });
        lines.collect::<Vec<String>>().join("\n")
    });
    match completed {
        Some(text) => {
            parts.headers.remove(CONTENT_LENGTH);
            Response::from_parts(parts, text.into())
        }
        None => Response::from_parts(parts, bytes.into()),
    }
}

fn unpacked(json: &str) -> Option<String> {
    let mut message: Value = serde_json::from_str(json).ok()?;
    unpack_all(message.get_mut("result")?);
    Some(message.to_string())
}

/// A transport that completes the lists that it sends.
pub(super) struct Completing<T>(pub T);

impl<T: Transport<RoleServer>> Transport<RoleServer> for Completing<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &mut item
            && let ServerResult::ListToolsResult(list) = &response.result
            && list.tools.iter().any(|tool| tool.meta.as_ref().is_some_and(|meta| meta.0.contains_key(CARRIER)))
            && let Ok(mut list) = serde_json::to_value(list)
        {
            unpack_all(&mut list);
            response.result = ServerResult::CustomResult(CustomResult::new(list));
        }
        self.0.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.0.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.0.close()
    }
}
