//! `POST /workers/{queue}/results`: the results of several calls of a worker.

use axum::extract::Path;
use axum::http::HeaderMap;
use futures_util::future::join_all;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::responses::{InvalidBody, Unavailable};
use super::super::{Api, AppState, BodyErrors, HttpResult, JsonBody, Problem, reply};
use crate::domain::{ToolOutput, decode};
use crate::engine::ControlOutcome;

/// Maximum number of results of one request.
const MAX_RESULTS: usize = 64;

/// Results of a worker.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewResults)]
pub(in super::super) struct ResultsBody {
    /// The name of the worker.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$")]
    worker: String,
    /// The results, each of another call.
    #[schema(min_items = 1, max_items = 64)]
    results: Vec<NewResult>,
}

/// The result of one call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct NewResult {
    /// The id that the service gave the call.
    id: Uuid,
    /// The token of the attempt.
    token: String,
    /// The result, converted like a JSON body of `POST /tool-calls/{id}/result`. Absent if the tool returned nothing.
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
}

/// Reads a value that may be `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The effect of each result.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ResultReceipts)]
struct ReceiptsView {
    /// The effects, in the order of the results.
    results: Vec<ReceiptView>,
}

/// The effect of one result.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ResultOutcome)]
struct ReceiptView {
    /// The id of the call.
    id: Uuid,
    /// What became of the result.
    outcome: Effect,
}

/// The fate of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ResultEffect)]
enum Effect {
    /// It is recorded.
    Recorded,
    /// Another result or the end of the call came first.
    Ignored,
    /// The service cannot accept it now; the worker sends it again.
    Retry,
    /// The token is not valid for this call.
    Refused,
}

/// Posts the results of several calls of a worker.
///
/// Each result has the effect of `POST /tool-calls/{id}/result`, and the results share a request and commits. Each counts by
/// itself.
#[utoipa::path(post, path = "/workers/{queue}/results", operation_id = "post_results", tag = "workers",
    security(("api_key" = ["work"])),
    params(("queue" = String, Path, example = "mail", description = "The queue")),
    request_body(content = ResultsBody, example = json!({"worker": "mailer-1", "results": [
        {"id": "01a215b1-db95-751a-ab93-d04fbcf58000", "token": "1.c2lnbmF0dXJl", "result": {"output": "sent"}}]})),
    responses((status = 200, description = "The effect of each result", body = ReceiptsView),
        (status = 404, description = "The name of the queue is invalid"),
        BodyErrors, InvalidBody, Unavailable))]
pub(in super::super) async fn post(
    Api { state, access }: Api,
    Path(queue): Path<String>,
    headers: HeaderMap,
    mut body: JsonBody,
) -> HttpResult {
    let queue = super::queue_of(&access, &queue)?;
    decode::expect_strings(&body.value, &["/worker"])?;
    let ResultsBody { worker, results } = body.read()?;
    let worker = super::worker_of(&worker)?;
    if !(1..=MAX_RESULTS).contains(&results.len()) {
        return Err(Problem::field("/results", format!("must have 1 to {MAX_RESULTS} results")));
    }
    for (index, NewResult { id, .. }) in results.iter().enumerate() {
        if results[..index].iter().any(|known| known.id == *id) {
            return Err(Problem::field(format!("/results/{index}/id"), "is repeated; a call has one result"));
        }
    }
    state.engine.workers().see(access.tenant(), &queue, &worker, super::sdk_of(&headers));
    let posting = results.into_iter().map(async |NewResult { id, token, result }| {
        // The token proves that the sender has the call, so the key need not reach it.
        let outcome = match state.signing_key.attempt_of_token(id, &token) {
            Some(attempt) => {
                let answer = result.map_or(ToolOutput::Nothing, ToolOutput::Json);
                effect_of(&state, (id, attempt), answer).await
            }
            None => Effect::Refused,
        };
        ReceiptView { id, outcome }
    });
    Ok(reply::ok(&ReceiptsView { results: join_all(posting).await }))
}

async fn effect_of(state: &AppState, attempt: (Uuid, u32), answer: ToolOutput) -> Effect {
    match state.engine.control().answer_of_worker(attempt, answer).await {
        Ok(ControlOutcome::Delivered | ControlOutcome::Ended(_)) => Effect::Recorded,
        Ok(ControlOutcome::Busy) => Effect::Retry,
        Ok(
            ControlOutcome::TooLate
            | ControlOutcome::NotExternal
            | ControlOutcome::NotApproved
            | ControlOutcome::NoSuchCall,
        ) => Effect::Ignored,
        Err(error) => {
            tracing::debug!(id = %attempt.0, %error, "cannot store a result");
            Effect::Retry
        }
    }
}
