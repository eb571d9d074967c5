//! Approvals of a running service.

use serde_json::{Value, json};
use uuid::Uuid;

use super::text::{self, CallToDecide};
use super::{Command, DecisionArgs, MAX_LISTED, read_arguments};
use crate::cli::error::CliError;
use crate::cli::print;
use crate::cli::remote::{CallView, Query, Remote};
use crate::domain::{ApprovalStatus, Decision};

/// Runs a command.
pub async fn run(service: &Remote, command: Command) -> Result<(), CliError> {
    match command {
        Command::List { status, session, name, json } => {
            let query = Query::default().with("status", Some(print::word(&ApprovalStatus::from(status))));
            let query = query.with("session", session).with("name", name).with("limit", Some(MAX_LISTED));
            list(service, &query, json).await
        }
        Command::Show { id, json } => show(service, id, json).await,
        Command::Approve { decision, arguments, remember } => {
            let arguments = arguments.as_deref().map(read_arguments).transpose()?;
            decide(service, &decision, Decision::Approve, arguments, remember).await
        }
        Command::Reject { decision } => decide(service, &decision, Decision::Reject, None, false).await,
    }
}

async fn list(service: &Remote, query: &Query, json: bool) -> Result<(), CliError> {
    let mut page = service.get(&["approvals"], query).await?;
    let calls: Value = service.member(&mut page, "approvals")?;
    if json {
        return print::json(&calls);
    }
    let calls: Vec<CallView> = service.read(calls)?;
    print::result(&text::table(calls.iter().filter_map(CallToDecide::of_service)))
}

async fn show(service: &Remote, id: Uuid, json: bool) -> Result<(), CliError> {
    let call = service.get(&["tool-calls", &id.to_string()], &Query::default()).await?;
    if json {
        return print::json(&call);
    }
    let call: CallView = service.read(call)?;
    print::result(&text::details(&CallToDecide::of_service(&call).ok_or_else(text::not_needed)?))
}

async fn decide(
    service: &Remote,
    args: &DecisionArgs,
    decision: Decision,
    arguments: Option<Value>,
    is_remembered: bool,
) -> Result<(), CliError> {
    let DecisionArgs { id, digest, reason } = args;
    let id = id.to_string();
    let call: CallView = service.read(service.get(&["tool-calls", &id], &Query::default()).await?)?;
    let shown = CallToDecide::of_service(&call).ok_or_else(text::not_needed)?;
    shown.note_changes(arguments.as_ref());
    let body = json!({
        "decision": decision, "digest": shown.full_digest(digest), "reason": reason, "arguments": arguments,
        "remember": is_remembered.then_some("session"),
    });
    let decided: CallView = service.read(service.post(&["tool-calls", &id, "approval"], &body).await?)?;
    print::result(&text::details(&CallToDecide::of_service(&decided).ok_or_else(text::not_needed)?))
}
