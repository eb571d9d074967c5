//! `toolpost approvals`: lists calls that wait for approval, and decides about them, also while the service runs.

use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use uuid::Uuid;

use super::error::CliError;
use super::options::Options;
use super::tenant::TenantArg;
use super::{Exit, print};
use crate::access::Access;
use crate::app::App;
use crate::domain::json::pointer_token;
use crate::domain::{Approval, ApprovalStatus, Call, Decision};
use crate::engine::{DecideError, DecisionRequest};
use crate::formats::native::ToolCall;
use crate::store::StoreError;
use crate::store::approvals::ApprovalFilter;

/// Maximum number of listed calls.
const MOST: u32 = 500;
/// Maximum length of arguments in the table, in characters.
const LONGEST: usize = 60;
/// Minimum length of an abbreviated digest, without `sha256:`.
const SHORTEST_DIGEST: usize = 8;

/// Arguments of `toolpost approvals`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    tenant: TenantArg,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List calls that wait for approval, oldest first
    List {
        /// List approvals in this state
        #[arg(long, value_enum, default_value_t = Status::Pending)]
        status: Status,
        /// List only calls of this session
        #[arg(long)]
        session: Option<String>,
        /// List only calls of this tool
        #[arg(long, value_name = "TOOL")]
        name: Option<String>,
        /// Print JSON, as returned by `GET /approvals`
        #[arg(long)]
        json: bool,
    },
    /// Show a call with its approval
    Show {
        /// Id of the call
        id: Uuid,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve a call
    Approve {
        #[command(flatten)]
        decision: DecisionArgs,
        /// Replace the arguments by this JSON object; the changes are shown
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// Approve equal calls for the rest of the session, too
        #[arg(long)]
        remember: bool,
    },
    /// Reject a call
    Reject {
        #[command(flatten)]
        decision: DecisionArgs,
    },
}

#[derive(Debug, clap::Args)]
struct DecisionArgs {
    /// Id of the call
    id: Uuid,
    /// Digest of the approval as `list` and `show` print it, or at least its first 8 digits
    #[arg(long)]
    digest: String,
    /// Reason; the model sees the reason of a rejection
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Pending,
    Approved,
    Rejected,
    Expired,
}

pub async fn run(Args { command, tenant }: Args, options: &Options) -> Result<Exit, CliError> {
    super::with_app(options.quiet_settings()?, async |app| {
        let access = tenant.access(app).await?;
        match &command {
            Command::List { status, session, name, json } => {
                let status = match status {
                    Status::Pending => ApprovalStatus::Pending,
                    Status::Approved => ApprovalStatus::Approved,
                    Status::Rejected => ApprovalStatus::Rejected,
                    Status::Expired => ApprovalStatus::Expired,
                };
                let (session, name, after) = (session.clone(), name.clone(), Uuid::nil());
                list(app, &access, ApprovalFilter { status, session, name, after, limit: MOST }, *json).await
            }
            Command::Show { id, json } => show(app, &access, *id, *json).await,
            Command::Approve { decision, arguments, remember } => {
                let arguments = arguments.as_deref().map(read_arguments).transpose()?;
                decide(app, &access, decision, Decision::Approve, arguments, *remember).await
            }
            Command::Reject { decision } => decide(app, &access, decision, Decision::Reject, None, false).await,
        }
    })
    .await?;
    Ok(Exit::Success)
}

fn read_arguments(text: &str) -> Result<Value, CliError> {
    serde_json::from_str(text).map_err(|error| CliError::usage(format!("--arguments: {error}")))
}

async fn list(app: &App, access: &Access, filter: ApprovalFilter, json: bool) -> Result<(), CliError> {
    let calls = async {
        let ids = access.store().approvals(&filter).await?;
        let mut calls = access.store().calls_of(&ids).await?;
        calls.sort_unstable_by_key(|call| call.id);
        Ok::<_, StoreError>(calls)
    };
    let calls = calls.await.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
    if json {
        return print::json(&calls.iter().map(ToolCall::from).collect::<Vec<_>>());
    }
    let rows = calls.iter().filter_map(|call| {
        let approval = call.approval.as_deref()?;
        Some(vec![
            call.id.to_string(),
            print::one_line(&call.name, 32),
            arguments_of(call),
            short(&approval.digest),
            format!("{}/{}", approval.decisions.len(), approval.min_approvals),
            approval.expires_at.to_string(),
        ])
    });
    print::result(&print::table(&["ID", "TOOL", "ARGUMENTS", "DIGEST", "DECISIONS", "EXPIRES"], rows, usize::MAX))
}

async fn show(app: &App, access: &Access, id: Uuid, json: bool) -> Result<(), CliError> {
    let call = find(app, access, id).await?;
    if json {
        return print::json(&ToolCall::from(&call));
    }
    let Some(approval) = call.approval.as_deref() else { return Err(CliError::usage("the call needs no approval")) };
    print::result(&text(&call, approval))
}

async fn find(app: &App, access: &Access, id: Uuid) -> Result<Call, CliError> {
    let call = access.call(id).await.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
    call.ok_or_else(|| {
        CliError::usage(format!("unknown call {id}")).hint("List the calls that wait with `toolpost approvals list`.")
    })
}

async fn decide(
    app: &App,
    access: &Access,
    args: &DecisionArgs,
    decision: Decision,
    arguments: Option<Value>,
    is_remembered: bool,
) -> Result<(), CliError> {
    let DecisionArgs { id, digest, reason } = args;
    let call = find(app, access, *id).await?;
    let Some(approval) = call.approval.as_deref() else { return Err(CliError::usage("the call needs no approval")) };
    if let (Some(new), Some(old)) = (&arguments, call.effective_arguments.as_deref()) {
        difference("", Some(old), Some(new)).iter().for_each(|line| print::note(line));
    }
    let digest = full_digest(digest, &approval.digest);
    let request = DecisionRequest { decision, digest, reason: reason.clone(), arguments, is_remembered };
    let decided = app.engine.approvals().decide(access, &call, request).await;
    let approval = decided.map_err(|error| match error {
        DecideError::Store(error) => CliError::store(&error, &app.config.database_url()),
        DecideError::Invalid(violations) => {
            let lines = violations.iter().map(|one| format!("{}: {}", one.pointer, one.message));
            CliError::usage(format!("--arguments: {}", lines.collect::<Vec<_>>().join("; ")))
        }
        error => CliError::usage(error.to_string()).hint("Read the call again with `toolpost approvals show`."),
    })?;
    print::result(&text(&call, &approval))
}

/// Returns the pending digest if `given` abbreviates it, and otherwise what was given.
fn full_digest(given: &str, pending: &str) -> String {
    let digits = given.strip_prefix("sha256:").unwrap_or(given);
    let known = pending.strip_prefix("sha256:").unwrap_or(pending);
    if digits.len() >= SHORTEST_DIGEST && known.starts_with(digits) { pending.to_owned() } else { given.to_owned() }
}

fn short(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(12).collect()
}

fn arguments_of(call: &Call) -> String {
    call.effective_arguments.as_deref().map_or_else(String::new, |value| print::one_line(&value.to_string(), LONGEST))
}

fn text(call: &Call, approval: &Approval) -> String {
    let mut facts = vec![
        ("id", call.id.to_string()),
        ("tool", call.name.to_string()),
        ("approval", print::word(&approval.status)),
        ("digest", approval.digest.clone()),
        ("decisions", format!("{} of {}", approval.decisions.len(), approval.min_approvals)),
        ("expires", approval.expires_at.to_string()),
    ];
    facts.extend(approval.policy.clone().map(|policy| ("policy", policy)));
    facts.extend(approval.reason.as_deref().map(|reason| ("reason", print::one_line(reason, LONGEST))));
    let arguments = call.effective_arguments.as_deref().map_or_else(String::new, |value| format!("{value:#}"));
    format!("{}\n\nArguments:\n{arguments}", print::facts(&facts))
}

/// Returns a line for each value that differs, with its JSON Pointer (RFC 6901).
fn difference(pointer: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    match (old, new) {
        (Some(old), Some(new)) if old == new => Vec::new(),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            let names = old.keys().chain(added);
            let within = |name: &String| format!("{pointer}/{}", pointer_token(name));
            names.flat_map(|name| difference(&within(name), old.get(name), new.get(name))).collect()
        }
        (old, new) => {
            let line = |sign, value: &Value| format!("{sign} {pointer}: {}", print::one_line(&value.to_string(), 200));
            old.map(|value| line('-', value)).into_iter().chain(new.map(|value| line('+', value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn difference_names_what_changed() {
        let old = json!({"a": 1, "b": {"c": [1], "d": true}, "e": "same"});
        let new = json!({"a": 2, "b": {"c": [1, 2], "x": null}, "e": "same"});
        let lines = difference("", Some(&old), Some(&new));
        assert_eq!(lines, ["- /a: 1", "+ /a: 2", "- /b/c: [1]", "+ /b/c: [1,2]", "- /b/d: true", "+ /b/x: null"]);
    }

    #[test]
    fn digest_is_abbreviated_by_its_first_digits_only() {
        let pending = "sha256:0123456789abcdef";
        assert_eq!(full_digest("01234567", pending), pending);
        assert_eq!(full_digest("sha256:0123456789", pending), pending);
        for other in ["0123456", "1234567890", "sha256:ff"] {
            assert_eq!(full_digest(other, pending), other);
        }
    }
}
