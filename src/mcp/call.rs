//! `tools/call`: one call on its way through the same pipeline as any other.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::progress::ProgressForwarder;
use super::{Server, result};
use crate::access::Access;
use crate::domain::{Call, CallRequest, Code, json};
use crate::engine::{AcceptError, Footprint, InFlightCalls, RecordError, Submission, SubmitError, Wait};

/// How long the last progress may take to arrive after the end itself.
const LAST_PROGRESS: Duration = Duration::from_secs(5);
/// JSON-RPC's code for what goes wrong on the server's side and may go well later.
const TRY_AGAIN: ErrorCode = ErrorCode(-32000);

/// What is known of a client beside its message; an extension of its HTTP request.
#[derive(Debug, Clone, Default)]
pub struct ClientContext {
    /// W3C Trace Context.
    pub traceparent: Option<Arc<str>>,
    /// The size of the message.
    pub bytes: usize,
    /// What its values take.
    pub weight: usize,
    /// Fires when the client of a session has gone away and does not come back.
    pub gone: CancellationToken,
}

impl ClientContext {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        parts.and_then(|parts| parts.extensions.get::<Self>()).cloned().unwrap_or_default()
    }
}

impl Server {
    /// Runs a call; with a client that knows tasks, one of an `async` tool becomes a task.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let knows_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        let access = self.access(&context.extensions)?;
        let kind = Self::kind_of(&access, &request.name);
        let is_task = knows_tasks && kind.is_asynchronous;
        let caller = ClientContext::of(&context);
        let arguments = request.arguments.unwrap_or_default();
        // Over standard input nobody has counted.
        let bytes = if caller.bytes == 0 { json::size_of(&arguments) } else { caller.bytes };
        let size = Footprint { bytes, weight: caller.weight.max(bytes), ..Footprint::default() };
        let arguments = Some(Value::Object(arguments));
        let name = request.name.into_owned();
        let calls = vec![CallRequest { name, arguments, over_mcp: true, ..CallRequest::default() }];
        let wait = if is_task { Wait::Accepted } else { Wait::Result };
        let submission = Submission { calls, wait, traceparent: caller.traceparent, ..Submission::default() };
        let id = self.0.engine.new_id();
        if is_task {
            let mut submitted = self.0.engine.submit(&access, submission, vec![id], size).await.map_err(refused)?;
            submitted.accepted().await.map_err(not_accepted)?;
            return Self::created(&access, id).await.map(CallToolResponse::Task);
        }
        let token = context.meta.get_progress_token();
        // Whoever is to be told of everything listens before it begins.
        let watch = token.map(|token| {
            let reader = self.0.bus.subscribe(vec![id]);
            ProgressForwarder { reader, token, peer: context.peer.clone() }
        });
        let submitted = self.0.engine.submit(&access, submission, vec![id], size).await.map_err(refused)?;
        let call = self.ended(&access, submitted, id, watch, [&context.ct, &caller.gone]).await?;
        match &call.outcome.as_deref().and_then(|outcome| outcome.error.as_ref()) {
            // The protocol has an error of its own for it.
            Some(failure) if failure.code == Code::ToolNotFound => {
                Err(ErrorData::invalid_params(failure.text.clone(), None))
            }
            _ => Ok(result::of(&call, kind.has_output_schema).into()),
        }
    }

    /// Waits for the end, tells of progress, and cancels the call if its client wants no more of it.
    async fn ended(
        &self,
        access: &Access,
        submitted: InFlightCalls,
        id: Uuid,
        watch: Option<ProgressForwarder>,
        [unwanted, gone]: [&CancellationToken; 2],
    ) -> Result<Arc<Call>, ErrorData> {
        let mut ended = std::pin::pin!(submitted.wait_all());
        let is_watched = watch.is_some();
        // Beside the call and never before it: a client that reads slowly slows nothing.
        let mut watching = std::pin::pin!(async {
            if let Some(watch) = watch {
                watch.tell().await;
            }
        });
        let (mut is_cancelled, mut is_told) = (false, !is_watched);
        let end = loop {
            tokio::select! {
                biased;
                end = &mut ended => break end,
                () = async { tokio::select! { () = unwanted.cancelled() => {}, () = gone.cancelled() => {} } }, if !is_cancelled => {
                    is_cancelled = true;
                    // What cannot be cancelled now has ended, or ends by its own clocks.
                    if let Err(error) = self.0.engine.cancel(access.tenant(), id).await {
                        tracing::warn!(%error, call = %id, "a call could not be cancelled");
                    }
                }
                () = &mut watching, if !is_told => is_told = true,
            }
        };
        if !is_told && !is_cancelled {
            // A commit is acknowledged before it is published: what is missing is only not shown.
            let _ = tokio::time::timeout(LAST_PROGRESS, watching).await;
        }
        end.map_err(not_recorded)?.into_iter().next().ok_or_else(|| not_recorded(RecordError { accepted: true }))
    }
}

pub(super) fn refused(refusal: SubmitError) -> ErrorData {
    let (code, what) = match refusal {
        SubmitError::ShuttingDown => ("SHUTTING_DOWN", "the service is stopping and takes no new calls"),
        SubmitError::Failed => return ErrorData::internal_error("the call could not be checked", None),
        _ => ("OVERLOADED", "too many calls are in flight; nothing was accepted, try again"),
    };
    ErrorData::new(TRY_AGAIN, what, Some(serde_json::json!({"code": code, "retryable": true})))
}

fn not_accepted(not: AcceptError) -> ErrorData {
    match not {
        AcceptError::NotRecorded(not) => not_recorded(not),
        // Only keys can be taken, and these calls have none.
        AcceptError::Claimed => ErrorData::internal_error("the call could not be accepted", None),
    }
}

fn not_recorded(RecordError { accepted }: RecordError) -> ErrorData {
    let what = if accepted {
        "the database is away; the call was accepted, and its end is not known yet"
    } else {
        "the database is away; the call was not recorded"
    };
    ErrorData::new(TRY_AGAIN, what, Some(serde_json::json!({"code": "STORE_UNAVAILABLE", "retryable": !accepted})))
}
