//! One claimed call: its run, its reports and its result.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use toolpost_core::domain::{Failure, ToolOutput};
use toolpost_tool::tool::{CallData, Report, Reports, ToolRun};

use crate::output::{self, ResultBody};
use crate::running::RunningGuard;
use crate::service::{ClaimedCall, RequestError, ResultEffect, Service};
use crate::worker::Shared;
use crate::{backoff, report, results};

/// The tries to deliver a result. The service gives the call out again, or settles it, when its lease ends.
const RESULT_TRIES: u32 = 12;
/// A longer result has a request of its own.
const MAX_SHARED_BYTES: usize = 64 * 1024;
/// The tries to deliver a report.
const REPORT_TRIES: u32 = 3;
/// Maximum time for the reports that are left when a tool has ended.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// Runs a call to its end and posts its result. Stops without a result if the call is abandoned. Releases the slot when the tool
/// has ended.
pub(crate) async fn run(
    worker: Arc<Shared>,
    mut call: ClaimedCall,
    running: RunningGuard,
    slot: Option<OwnedSemaphorePermit>,
) {
    let work = async {
        let data = data_of(&mut call);
        let Some(result) = result_of(&worker, &call, data, &running.abandon).await else { return };
        drop(slot);
        post_result(&worker, &call, output::body_of(result)).await;
    };
    tokio::select! {
        biased;
        () = running.abandon.cancelled() => {}
        () = work => {}
    }
}

/// Runs the tool and forwards its reports. Returns `None` if the time of the attempt is over, because the service has
/// ended it.
async fn result_of(
    worker: &Shared,
    call: &ClaimedCall,
    data: CallData,
    abandon: &CancellationToken,
) -> Option<Result<ToolOutput, Failure>> {
    // Fires at the end of the call, for any reason, so that threads of the tool stop.
    let cancel = abandon.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let Some(run) = worker.tools.run(data, cancel) else {
        let message = format!("worker has no tool \"{}\"", call.name);
        return Some(Err(Failure::execution(&call.name, message)));
    };
    let work = with_reports(&worker.service, call, run);
    if call.deadline_ms == 0 {
        return Some(work.await);
    }
    let result = tokio::time::timeout(Duration::from_millis(call.deadline_ms), work).await.ok();
    if result.is_none() {
        tracing::warn!(id = %call.id, tool = call.name, "the time of the call is over");
    }
    result
}

/// Moves the data of the call out of it.
fn data_of(call: &mut ClaimedCall) -> CallData {
    CallData {
        id: call.id,
        call_id: std::mem::take(&mut call.call_id),
        name: call.name.clone(),
        arguments: std::mem::take(&mut call.arguments),
        context: std::mem::take(&mut call.context),
        agent: std::mem::take(&mut call.agent),
        session: std::mem::take(&mut call.session),
        attempt: call.attempt,
        timeout_ms: call.deadline_ms,
    }
}

/// Runs the tool. Its reports are posted one at a time, and status updates are merged meanwhile.
async fn with_reports(service: &Service, call: &ClaimedCall, run: ToolRun) -> Result<ToolOutput, Failure> {
    let ToolRun { output, mut reports } = run;
    let ended = CancellationToken::new();
    let work = async {
        let result = output.await;
        ended.cancel();
        result
    };
    let sending = async {
        let too_late = async {
            ended.cancelled().await;
            tokio::time::sleep(LAST_REPORTS).await;
        };
        tokio::select! {
            () = send_reports(service, call, &mut reports, &ended) => {}
            () = too_late => tracing::warn!(id = %call.id, tool = call.name, "reports were dropped"),
        }
    };
    tokio::join!(work, sending).0
}

/// Posts reports until the tool has ended and none is left.
async fn send_reports(service: &Service, call: &ClaimedCall, reports: &mut Reports, ended: &CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            next = reports.next() => next,
            () = ended.cancelled() => return,
        };
        send_report(service, call, &next).await;
    }
}

/// Posts a report. A lost report does not change the result.
async fn send_report(service: &Service, call: &ClaimedCall, report: &Report) {
    let Ok(body) = report::body_of(report) else { return };
    for attempt in 0..REPORT_TRIES {
        match service.report(call, body.clone()).await {
            Ok(()) => return,
            // A report that may have arrived is not repeated.
            Err(error @ RequestError::Unavailable { is_unsent: true, .. }) if attempt + 1 < REPORT_TRIES => {
                tokio::time::sleep(backoff::delay(attempt, error.retry_after())).await;
            }
            // The heartbeat stops a call that has ended.
            Err(RequestError::Refused(refusal)) if refusal.status == 409 => return,
            Err(error) => {
                tracing::warn!(id = %call.id, tool = call.name, %error, "a report was not delivered");
                return;
            }
        }
    }
}

/// Posts a result. A result that the service rejects becomes a failure that says so.
async fn post_result(worker: &Arc<Shared>, call: &ClaimedCall, body: ResultBody) {
    let (mut body, mut is_replaced) = (body, false);
    for attempt in 0..RESULT_TRIES {
        let error = match deliver(worker, call, &body).await {
            Ok(false) => return,
            Ok(true) => {
                tracing::debug!(id = %call.id, tool = call.name, "the result came too late");
                return;
            }
            Err(error) => error,
        };
        match error {
            RequestError::Refused(refusal) if !is_replaced && matches!(refusal.status, 400 | 413 | 415 | 422) => {
                is_replaced = true;
                let message = format!("the result was rejected: {}", refusal.detail);
                body = output::failed(&Failure::execution(&call.name, message));
            }
            RequestError::Refused(_) => {
                tracing::error!(id = %call.id, tool = call.name, %error, "the result was refused");
                return;
            }
            RequestError::Unavailable { .. } => {
                tracing::warn!(id = %call.id, tool = call.name, %error, "the result is not delivered yet");
                tokio::time::sleep(backoff::delay(attempt, error.retry_after())).await;
            }
        }
    }
    tracing::error!(id = %call.id, tool = call.name, "the result was not delivered");
}

/// Delivers a result, together with others if it is small. Returns `true` if it came too late to count.
async fn deliver(worker: &Arc<Shared>, call: &ClaimedCall, body: &ResultBody) -> Result<bool, RequestError> {
    if body.media_type == "application/json" && body.bytes.len() <= MAX_SHARED_BYTES {
        match results::send(worker, call.id, call.token.clone(), body.bytes.clone()).await {
            Ok(ResultEffect::Recorded) => return Ok(false),
            Ok(ResultEffect::Ignored) => return Ok(true),
            Ok(ResultEffect::Retry) => return Err(RequestError::lost("the service cannot accept the result now")),
            Err(error @ RequestError::Unavailable { .. }) => return Err(error),
            // Another result of the request may be invalid, or the service is older than shared results.
            Ok(ResultEffect::Refused) | Err(RequestError::Refused(_)) => {}
        }
    }
    worker.service.result(call, body).await
}
