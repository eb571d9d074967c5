//! `toolpost approvals`: lists calls that wait for approval, and decides about them, also while the service runs.

use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use uuid::Uuid;

use super::error::CliError;
use super::options::Options;
use super::remote::ServerArgs;
use super::tenant::TenantArg;
use super::{Exit, print};
use crate::access::Access;
use crate::app::App;
use crate::domain::{ApprovalStatus, Call, Decision};
use crate::engine::{DecideError, DecisionRequest};
use crate::formats::native::ToolCall;
use crate::store::StoreError;
use crate::store::approvals::ApprovalFilter;

mod remote;
mod text;

use text::CallToDecide;

/// Maximum number of listed calls.
const MAX_LISTED: u32 = 500;

/// Arguments of `toolpost approvals`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    tenant: TenantArg,
    #[command(flatten)]
    server: ServerArgs,
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

impl From<Status> for ApprovalStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Approved => Self::Approved,
            Status::Rejected => Self::Rejected,
            Status::Expired => Self::Expired,
        }
    }
}

pub async fn run(Args { command, tenant, server }: Args, options: &Options) -> Result<Exit, CliError> {
    if let Some(service) = server.remote()? {
        tenant.expect_default()?;
        remote::run(&service, command).await?;
        return Ok(Exit::Success);
    }
    super::with_app(options.quiet_settings()?, async |app| {
        let access = tenant.access(app).await?;
        match &command {
            Command::List { status, session, name, json } => {
                let status = ApprovalStatus::from(*status);
                let (session, name, after) = (session.clone(), name.clone(), Uuid::nil());
                list(app, &access, ApprovalFilter { status, session, name, after, limit: MAX_LISTED }, *json).await
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
    print::result(&text::table(calls.iter().filter_map(CallToDecide::of)))
}

async fn show(app: &App, access: &Access, id: Uuid, json: bool) -> Result<(), CliError> {
    let call = find(app, access, id).await?;
    if json {
        return print::json(&ToolCall::from(&call));
    }
    let call = CallToDecide::of(&call).ok_or_else(text::not_needed)?;
    print::result(&text::details(&call))
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
    let shown = CallToDecide::of(&call).ok_or_else(text::not_needed)?;
    shown.note_changes(arguments.as_ref());
    let digest = shown.full_digest(digest);
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
    print::result(&text::details(&CallToDecide { approval: &approval, ..shown }))
}
