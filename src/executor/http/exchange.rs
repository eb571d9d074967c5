//! One run: a request, and whatever comes first, its answer or a result that the tool posts.

use reqwest::header::AUTHORIZATION;
use reqwest::{Response, StatusCode};

use super::client::HttpClient;
use super::fault::Fault;
use super::plan::{Outgoing, Plan};
use super::{answer, read, status};
use crate::domain::ToolOutput;
use crate::domain::call::{Phase, StatusUpdate};
use crate::executor::Invocation;

/// What a request was answered.
enum ExchangeResult {
    /// The result.
    Complete(ToolOutput),
    /// 202: the result will be posted.
    Deferred(Response),
}

/// Runs one call. The details of a fault name the URL as it was declared: what stands in the placeholders may be secret.
pub async fn run(plan: &Plan, client: &HttpClient, invocation: &Invocation) -> Result<ToolOutput, Fault> {
    outcome(plan, client, invocation).await.map_err(|mut fault| {
        fault.details.insert("url".to_owned(), plan.declared_url().into());
        fault
    })
}

async fn outcome(plan: &Plan, client: &HttpClient, invocation: &Invocation) -> Result<ToolOutput, Fault> {
    let Invocation { result_slot: outside, .. } = invocation;
    let outgoing = plan.request(invocation, &client.secrets, &client.reporting).map_err(Fault::unsent)?;
    // The tool may post its result before it answers, and one of an earlier attempt may be here already.
    outside.open();
    let answered = tokio::select! {
        biased;
        // Dropping the request closes its connection.
        posted = outside.result() => return Ok(posted),
        answered = ask(client, outgoing, invocation) => answered?,
    };
    match answered {
        ExchangeResult::Complete(answer) => Ok(outside.answered().unwrap_or(answer)),
        ExchangeResult::Deferred(response) => {
            invocation.emitter.status(StatusUpdate { phase: Some(Phase::External), ..StatusUpdate::default() });
            let mut posted = std::pin::pin!(outside.result());
            tokio::select! {
                biased;
                posted = &mut posted => return Ok(posted),
                // What a 202 says besides is read, so that the server can finish, and ignored.
                _ = read::beginning(response, status::READ_BYTES) => {}
            }
            Ok(posted.await)
        }
    }
}

/// Sends the request and reads its answer.
async fn ask(client: &HttpClient, outgoing: Outgoing, invocation: &Invocation) -> Result<ExchangeResult, Fault> {
    let hide = |text: String| match &invocation.redaction {
        Some(redaction) => redaction.text(&text).into_owned(),
        None => text,
    };
    let credential = outgoing.private.get(AUTHORIZATION).and_then(status::secret_part);
    let hidden: Vec<String> = credential.into_iter().chain(client.reporting.token(outgoing.call)).collect();
    let response = client.send(outgoing).await?;
    match response.status() {
        StatusCode::ACCEPTED if client.reporting.is_reachable() => Ok(ExchangeResult::Deferred(response)),
        StatusCode::ACCEPTED => Err(Fault::terminal(
            "the server answered 202 Accepted, but there is no running service to which it could post a result later",
        )),
        success if success.is_success() => {
            answer::read(response, &invocation.emitter, hide).await.map(ExchangeResult::Complete)
        }
        _ => Err(status::fault(response, client.clock.now(), &hidden, hide).await),
    }
}
