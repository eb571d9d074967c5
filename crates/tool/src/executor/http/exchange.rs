//! One run: a request, and the first of its response and a result that the tool posts.

use reqwest::header::AUTHORIZATION;
use reqwest::{Response, StatusCode};

use super::client::{HttpClient, Outgoing};
use super::fault::Fault;
use super::plan::Plan;
use super::read::{self, BodyError, MAX_ANSWER_BYTES, Media, check_encoding};
use super::{status, stream};
use crate::executor::Invocation;
use toolpost_core::domain::ToolOutput;
use toolpost_core::domain::call::{Phase, StatusUpdate};

/// The result of a request.
enum ExchangeResult {
    /// The output of the tool.
    Complete(ToolOutput),
    /// A 202 response: the tool posts the result later.
    Deferred(Response),
}

/// Runs one call. Fault details contain the URL as it was declared, because argument values may be secret.
pub async fn run(plan: &Plan, client: &HttpClient, invocation: &Invocation) -> Result<ToolOutput, Fault> {
    outcome(plan, client, invocation).await.map_err(|mut fault| {
        fault.details.insert("url".to_owned(), plan.url.declared.as_str().into());
        fault
    })
}

async fn outcome(plan: &Plan, client: &HttpClient, invocation: &Invocation) -> Result<ToolOutput, Fault> {
    let Invocation { result_slot, .. } = invocation;
    let outgoing = plan.request(invocation, &client.secrets, &client.reporting).map_err(Fault::unsent)?;
    // The tool may post its result before it responds, and an earlier attempt may have posted a result already.
    result_slot.open();
    let answered = tokio::select! {
        biased;
        // Dropping the request closes its connection.
        posted = result_slot.result() => return Ok(posted),
        answered = send(client, outgoing, invocation) => answered?,
    };
    match answered {
        ExchangeResult::Complete(answer) => Ok(result_slot.answered().unwrap_or(answer)),
        ExchangeResult::Deferred(response) => {
            invocation.emitter.status(StatusUpdate { phase: Some(Phase::External), ..StatusUpdate::default() });
            let mut posted = std::pin::pin!(result_slot.result());
            tokio::select! {
                biased;
                posted = &mut posted => return Ok(posted),
                // Reads and ignores the body of a 202, so that the server can finish sending it.
                _ = read::beginning(response, status::READ_BYTES) => {}
            }
            Ok(posted.await)
        }
    }
}

/// Sends the request and reads the response.
async fn send(client: &HttpClient, outgoing: Outgoing, invocation: &Invocation) -> Result<ExchangeResult, Fault> {
    let redaction = invocation.redaction.as_deref();
    let credential = outgoing.private.get(AUTHORIZATION).and_then(status::secret_part);
    let hidden: Vec<String> = credential.into_iter().chain(client.reporting.token(invocation.id)).collect();
    let response = client.send(outgoing).await?;
    match response.status() {
        StatusCode::ACCEPTED if client.reporting.is_reachable() => Ok(ExchangeResult::Deferred(response)),
        StatusCode::ACCEPTED => Err(Fault::terminal(
            "the server answered 202 Accepted, but no running service could receive a later result",
        )),
        success if success.is_success() => read(response, invocation).await.map(ExchangeResult::Complete),
        _ => Err(status::fault(response, client.clock.now(), &hidden, redaction).await),
    }
}

/// Reads a 2xx response: an event stream, or a body that is read completely.
async fn read(mut response: Response, invocation: &Invocation) -> Result<ToolOutput, Fault> {
    let media = Media::of(response.headers());
    check_encoding(response.headers())?;
    if media.essence == "text/event-stream" {
        return stream::answer(response, &invocation.emitter, invocation.redaction.as_deref()).await;
    }
    let bytes = read::body(&mut response, MAX_ANSWER_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => read::too_large(),
        BodyError::Incomplete => Fault::of_body(response.url()),
    })?;
    read::parsed(bytes.len(), move || media.read(bytes)).await?.map_err(Fault::terminal)
}
