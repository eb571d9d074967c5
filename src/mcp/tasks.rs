//! Tasks of the protocol (SEP-2663) for `async` calls: a task is a call with the same id.

use rmcp::ErrorData;
use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Server;
use super::result::{self, Promise};
use crate::access::Access;
use crate::domain::{Call, Code, Phase};
use crate::engine::ControlOutcome;
use crate::store::StoreError;

/// Polling interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

impl Server {
    /// Returns the task of an accepted call.
    pub(super) async fn created(access: &Access, id: Uuid) -> Result<CreateTaskResult, ErrorData> {
        let call = Self::stored(access, id).await?;
        Ok(CreateTaskResult::new(task(&call, TaskStatus::Working)))
    }

    /// Returns the status of a task, with its result once it has ended.
    pub(super) async fn task(&self, access: &Access, id: &str) -> Result<GetTaskResult, ErrorData> {
        let call = Self::stored(access, id_of(id)?).await?;
        let payload = payload(&call, Self::promise_of(access, &call, true));
        Ok(GetTaskResult::new(DetailedTask::new(task(&call, payload.status()), payload)))
    }

    /// Requests the cancellation of a task; has no effect on an ended task.
    pub(super) async fn cancel(&self, access: &Access, id: &str) -> Result<(), ErrorData> {
        let call = id_of(id)?;
        if !access.may_reach_id(call).await.map_err(|error| store_error(&error))? {
            return Err(no_such_task(id));
        }
        match self.0.engine.control().cancel(access.tenant(), call).await.map_err(|error| store_error(&error))? {
            ControlOutcome::NoSuchCall => Err(no_such_task(id)),
            _ => Ok(()),
        }
    }

    /// Returns a call that the client may reach.
    pub(super) async fn stored(access: &Access, id: Uuid) -> Result<Call, ErrorData> {
        let call = access.call(id).await.map_err(|error| store_error(&error))?;
        call.ok_or_else(|| no_such_task(&id.to_string()))
    }
}

fn task(call: &Call, status: TaskStatus) -> Task {
    let updated_at = call.ended_at.or(call.started_at).unwrap_or(call.created_at);
    let mut task = Task::new(call.id.to_string(), status, call.created_at.to_string(), updated_at.to_string())
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    let progress = call.progress.as_ref().and_then(|progress| progress.message.clone());
    let waits = || (call.phase == Phase::Approval).then(|| "waiting for approval".to_owned());
    task.status_message = call.tip.clone().or(progress).or_else(waits);
    task
}

/// Returns the payload of a task. A failed tool call completes the task with an error result; only a failure of the
/// service fails the task.
fn payload(call: &Call, promise: Promise) -> TaskPayload {
    let Some(outcome) = call.outcome.as_deref() else { return TaskPayload::Working };
    match &outcome.error {
        Some(failure) if failure.code == Code::Cancelled => TaskPayload::Cancelled,
        Some(failure) if matches!(failure.code, Code::OutcomeUnknown | Code::ShuttingDown | Code::Overloaded) => {
            let error = json!({"code": -32603, "message": failure.text, "data": {"code": failure.code.as_str()}});
            TaskPayload::Failed { error: object(error) }
        }
        _ => {
            // The value came from JSON, so serialization cannot fail.
            let result = serde_json::to_value(result::build_result(call, promise)).unwrap_or_default();
            TaskPayload::Completed { result: object(result) }
        }
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

fn id_of(text: &str) -> Result<Uuid, ErrorData> {
    text.parse().map_err(|_| no_such_task(text))
}

fn no_such_task(id: &str) -> ErrorData {
    let id = crate::domain::json::shorten(id, 64);
    ErrorData::invalid_params(format!("unknown task {id}"), None)
}

pub(super) fn store_error(error: &StoreError) -> ErrorData {
    tracing::error!(%error, "the store failed");
    ErrorData::internal_error("the database is unavailable; retry later", None)
}
