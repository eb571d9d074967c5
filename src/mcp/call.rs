//! `tools/call`: submits a call to the engine, as every other entry point does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Server;
use super::cancel::cancel_call;
use super::decision::{self, DecisionState};
use super::progress::ProgressForwarder;
use super::result::{self, Promise};
use crate::access::Access;
use crate::domain::{Call, CallRequest, Code, json};
use crate::engine::{AcceptError, RecordError, Submission, SubmitError, Wait};
use crate::memory::Footprint;

/// Maximum time to send the last progress after the call has ended.
const LAST_PROGRESS: Duration = Duration::from_secs(5);
/// JSON-RPC code for temporary server errors.
pub(super) const RETRY_LATER: ErrorCode = ErrorCode(-32000);

/// The client's context apart from its message; an extension of the HTTP request.
#[derive(Debug, Clone, Default)]
pub struct ClientContext {
    /// W3C Trace Context.
    pub traceparent: Option<Arc<str>>,
    /// The size of the message in bytes; 0 if unknown.
    pub bytes: usize,
    /// The memory that the parsed values take, in bytes.
    pub weight: usize,
    /// The id for the call, if any node must be able to find it before it is recorded.
    pub call: Option<Uuid>,
}

impl ClientContext {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        parts.and_then(|parts| parts.extensions.get::<Self>()).cloned().unwrap_or_default()
    }
}

impl Server {
    /// Runs a call. If the client supports tasks, a call of an `async` tool becomes a task, and so does a call that waits
    /// for approval. If its user may decide, the client is asked for the decision.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let access = self.access(&context.extensions)?;
        if let Some(state) = DecisionState::read(&request)? {
            return self.call_again(&access, state, &request, &context).await;
        }
        let knows_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        let kind = Self::traits_of(&access, &request.name);
        let is_task = knows_tasks && (kind.is_asynchronous || kind.requires_approval);
        let asks = !knows_tasks && !kind.is_asynchronous && self.can_ask(&access, &context);
        let caller = ClientContext::of(&context);
        let arguments = request.arguments.unwrap_or_default();
        // Over standard input, the message has not been measured.
        let bytes = if caller.bytes == 0 { json::size_of(&arguments) } else { caller.bytes };
        let size = Footprint { bytes, weight: caller.weight.max(bytes), ..Footprint::default() };
        let arguments = Some(Value::Object(arguments));
        let name = request.name.into_owned();
        let calls = vec![CallRequest { name, arguments, over_mcp: true, ..CallRequest::default() }];
        // A policy may require an approval, which is known only once the call waits for it.
        let leaves_approvals = asks || knows_tasks && !is_task && self.0.engine.policies().has_any();
        let wait = match (is_task, leaves_approvals) {
            (true, _) => Wait::Accepted,
            (_, true) => Wait::AsDeclared,
            _ => Wait::Result,
        };
        let traceparent = caller.traceparent;
        let submission = Submission { calls, wait, leaves_approvals, traceparent, ..Submission::default() };
        let ids = caller.call.map_or_else(|| self.0.engine.ids(1), |id| vec![id]);
        let id = ids.first().copied().unwrap_or_default();
        if is_task {
            let mut submitted = self.0.engine.submit(&access, submission, ids, size).await.map_err(refused)?;
            submitted.accepted().await.map_err(not_accepted)?;
            return Self::created(&access, id).await.map(CallToolResponse::Task);
        }
        // Subscribes before the call starts, to miss no report.
        let progress = self.progress_of(id, &context);
        let submitted = self.0.engine.submit(&access, submission, ids, size).await.map_err(refused)?;
        let ended = async { only_of(submitted.wait_all().await) };
        let call = self.wait_for_end(&access, ended, id, progress, &context.ct).await?;
        match (call.status.is_terminal(), asks) {
            (true, _) => reply(&access, &call).map(CallToolResponse::from),
            (_, true) => self.ask(&access, &call, &context).await,
            _ => Self::created(&access, id).await.map(CallToolResponse::Task),
        }
    }

    fn can_ask(&self, access: &Access, context: &RequestContext<RoleServer>) -> bool {
        decision::can_decide(access, &self.0.engine.approvals(), context)
    }

    /// Takes the decision of a user about a call, and waits for its end. If the call needs another decision, asks again.
    async fn call_again(
        &self,
        access: &Access,
        state: DecisionState,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let progress = self.progress_of(state.call, context);
        self.decide(access, &state, request).await?;
        let asks = self.can_ask(access, context);
        let is_over = |call: &Call| call.status.is_terminal() || asks && decision::has_changed(call, &state);
        let ended = self.wait_until(access, state.call, is_over);
        let call = self.wait_for_end(access, ended, state.call, progress, &context.ct).await?;
        match call.status.is_terminal() {
            true => stored_reply(access, &call).map(CallToolResponse::from),
            false => self.ask(access, &call, context).await,
        }
    }

    /// Asks the user of the client for a decision. If the user cannot read what it is about, waits for the end of the call.
    async fn ask(
        &self,
        access: &Access,
        call: &Call,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(question) = decision::question(call) {
            return Ok(CallToolResponse::InputRequired(question));
        }
        let progress = self.progress_of(call.id, context);
        let ended = self.wait_until(access, call.id, |call| call.status.is_terminal());
        let call = self.wait_for_end(access, ended, call.id, progress, &context.ct).await?;
        stored_reply(access, &call).map(CallToolResponse::from)
    }

    async fn wait_until(
        &self,
        access: &Access,
        id: Uuid,
        is_over: impl Fn(&Call) -> bool,
    ) -> Result<Arc<Call>, ErrorData> {
        self.0.bus.wait_until(id, || Self::stored(access, id), is_over).await.map(Arc::new)
    }

    fn progress_of(&self, id: Uuid, context: &RequestContext<RoleServer>) -> Option<ProgressForwarder> {
        let token = context.meta.get_progress_token()?;
        Some(ProgressForwarder { reader: self.0.bus.subscribe(vec![id]), token, peer: context.peer.clone() })
    }

    /// Waits for the end of a call, or until it waits for approval if its client leaves it then. Sends progress, and
    /// cancels the call if the client cancels it.
    async fn wait_for_end(
        &self,
        access: &Access,
        ended: impl Future<Output = Result<Arc<Call>, ErrorData>>,
        id: Uuid,
        progress: Option<ProgressForwarder>,
        unwanted: &CancellationToken,
    ) -> Result<Arc<Call>, ErrorData> {
        let mut ended = std::pin::pin!(ended);
        let (mut is_cancelled, mut is_forwarded) = (false, progress.is_none());
        let mut cancelling = std::pin::pin!(async {
            unwanted.cancelled().await;
            cancel_call(&self.0.engine, access.tenant(), id).await;
        });
        // Runs next to the call: a client that reads slowly does not slow it down.
        let mut forwarding = std::pin::pin!(OptionFuture::from(progress.map(ProgressForwarder::forward)));
        let call = loop {
            tokio::select! {
                biased;
                call = &mut ended => break call?,
                () = &mut cancelling, if !is_cancelled => is_cancelled = true,
                _ = &mut forwarding, if !is_forwarded => is_forwarded = true,
            }
        };
        if call.status.is_terminal() && !is_forwarded && !is_cancelled {
            // The commit is acknowledged before it is published. On a timeout, the last progress is not sent.
            let _ = tokio::time::timeout(LAST_PROGRESS, forwarding).await;
        }
        Ok(call)
    }
}

/// Returns the call of a request that has ended.
pub(super) fn only_of(ended: Result<Vec<Arc<Call>>, RecordError>) -> Result<Arc<Call>, ErrorData> {
    ended.map_err(not_recorded)?.into_iter().next().ok_or_else(|| not_recorded(RecordError { accepted: true }))
}

/// Returns the response to a call that has just ended.
pub(super) fn reply(access: &Access, call: &Call) -> Result<CallToolResult, ErrorData> {
    response(call, || Server::promise_of(access, call, false))
}

/// Returns the response to an ended call as it is stored.
pub(super) fn stored_reply(access: &Access, call: &Call) -> Result<CallToolResult, ErrorData> {
    response(call, || Server::promise_of(access, call, true))
}

fn response(call: &Call, promise: impl FnOnce() -> Promise) -> Result<CallToolResult, ErrorData> {
    match call.outcome.as_deref().and_then(|outcome| outcome.error.as_ref()) {
        // MCP has a separate error for unknown tools.
        Some(failure) if failure.code == Code::ToolNotFound => {
            Err(ErrorData::invalid_params(failure.text.clone(), None))
        }
        _ => Ok(result::build_result(call, promise())),
    }
}

pub(super) fn refused(refusal: SubmitError) -> ErrorData {
    let (code, what) = match refusal {
        SubmitError::ShuttingDown => ("SHUTTING_DOWN", "the service is shutting down; no call was accepted"),
        SubmitError::Failed => return ErrorData::internal_error("the call could not be checked", None),
        _ => ("OVERLOADED", "too many calls are in flight; no call was accepted, retry later"),
    };
    ErrorData::new(RETRY_LATER, what, Some(serde_json::json!({"code": code, "retryable": true})))
}

fn not_accepted(not: AcceptError) -> ErrorData {
    match not {
        AcceptError::NotRecorded => not_recorded(RecordError { accepted: false }),
        // Only idempotency keys can be claimed, and these calls have none.
        AcceptError::Claimed => ErrorData::internal_error("the call could not be accepted", None),
    }
}

fn not_recorded(RecordError { accepted }: RecordError) -> ErrorData {
    let what = if accepted {
        "the database is unavailable; the call was accepted, but its outcome is unknown"
    } else {
        "the database is unavailable; the call was not recorded"
    };
    ErrorData::new(RETRY_LATER, what, Some(serde_json::json!({"code": "STORE_UNAVAILABLE", "retryable": !accepted})))
}
