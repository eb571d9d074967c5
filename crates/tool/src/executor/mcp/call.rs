//! One call of an upstream tool. Dropping the call cancels the request at the server.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use serde_json::Value;

use super::link::Link;
use super::server::Server;
use super::{convert, fault};
use crate::executor::Invocation;
use toolpost_core::domain::{Failure, ToolOutput};

/// Timeout for sending a cancellation to a server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A pending request. Dropping it sends a cancellation.
struct InFlight(Option<RequestHandle<RoleClient>>);

impl InFlight {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // Fails only if the server no longer reads requests.
            let cancelling = handle.cancel(Some("the call was cancelled or timed out".to_owned()));
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await;
        });
    }
}

/// Runs one call.
pub async fn run(
    link: &Arc<Link>,
    server: &Server,
    tool: &str,
    invocation: &Invocation,
) -> Result<ToolOutput, Failure> {
    let name = &*invocation.name;
    let mut params = CallToolRequestParams::new(tool.to_owned());
    if let Value::Object(arguments) = &*invocation.arguments {
        params = params.with_arguments(arguments.clone());
    }
    let mut options = PeerRequestOptions::no_options();
    if let Some(traceparent) = &invocation.traceparent {
        let mut meta = RequestMetaObject::new();
        meta.set_traceparent(&**traceparent);
        options = options.with_meta(meta);
    }
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let failed = |error: ServiceError| {
        if fault::is_broken(&error) || fault::may_be_lost_session(&error) {
            // Checks immediately whether the server is still available.
            server.request_refresh();
        }
        let failure = fault::failure(name, error, link.url.as_ref());
        match &link.redaction {
            Some(redaction) => redaction.failure(failure),
            None => failure,
        }
    };
    let handle =
        link.peer.send_cancellable_request(request, options).await.map_err(|error| failed(error).never_left())?;
    let _subscription = link.progress.subscribe(handle.progress_token.clone(), &invocation.emitter);
    let mut in_flight = InFlight(Some(handle));
    let outcome = match in_flight.answer().await.map_err(failed)? {
        ServerResult::CallToolResult(result) => convert::outcome(name, result),
        ServerResult::CustomResult(result) => {
            convert::lenient(name, result.0).ok_or_else(|| failed(ServiceError::UnexpectedResponse))?
        }
        ServerResult::InputRequiredResult(_) => {
            let message = "its server requires further input, which is not supported";
            return Err(Failure::execution(name, message));
        }
        ServerResult::CreateTaskResult(_) => {
            return Err(Failure::execution(name, "its server created a task, although none was requested"));
        }
        _ => return Err(failed(ServiceError::UnexpectedResponse)),
    };
    let outcome = match &link.redaction {
        Some(redaction) => redaction.outcome(outcome),
        None => outcome,
    };
    Ok(ToolOutput::Outcome(Box::new(outcome)))
}
