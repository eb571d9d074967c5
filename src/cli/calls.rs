//! `toolpost calls`: lists, shows, watches, cancels and repeats calls of a running service.

use clap::Subcommand;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::CliError;
use super::follow::{self, Display, OnSignal};
use super::remote::{CallView, Query, Remote, ServerArgs};
use super::signals::Signals;
use super::{Exit, print};

mod cancel;
mod list;
mod show;

/// Arguments of `toolpost calls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List calls, newest first
    List(Box<list::ListArgs>),
    /// Show a call
    Show {
        /// Id of the call
        id: Uuid,
        /// Print JSON, as returned by `GET /tool-calls/ID`
        #[arg(long)]
        json: bool,
    },
    /// Follow a call until it ends: its progress on standard error, its output on standard output
    Watch {
        /// Id of the call
        id: Uuid,
        /// Print each event as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Cancel calls that have not ended: by their ids, or all calls that match
    Cancel(cancel::CancelArgs),
    /// Run a new call with the tool and the arguments of an ended call, and print the id of the new call
    Rerun {
        /// Id of the ended call
        id: Uuid,
        /// Replace the arguments by this JSON
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// Follow the new call until it ends, as `watch` does
        #[arg(long)]
        watch: bool,
        /// Print JSON: the new call, or each of its events with --watch
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(Args { command, server }: Args) -> Result<Exit, CliError> {
    match command {
        Command::List(args) => list::run(&server.required("calls list")?, &args).await?,
        Command::Show { id, json } => {
            let remote = server.required("calls show")?;
            let call = remote.get(&["tool-calls", &id.to_string()], &Query::default()).await?;
            if json {
                print::json(&call)?;
            } else {
                print::result(&show::text(&remote.read(call)?))?;
            }
        }
        Command::Watch { id, json } => return watch(&server.required("calls watch")?, id, json).await,
        Command::Cancel(args) => cancel::run(&server.required("calls cancel")?, &args).await?,
        Command::Rerun { id, arguments, watch: is_watched, json } => {
            let remote = server.required("calls rerun")?;
            let call = rerun(&remote, id, arguments.as_deref()).await?;
            let new: CallView = remote.read(call.clone())?;
            if is_watched {
                print::note(&format!("call {}", new.id));
                return watch(&remote, new.id, json).await;
            }
            if json {
                print::json(&call)?;
            } else {
                print::result(&new.id.to_string())?;
            }
        }
    }
    Ok(Exit::Success)
}

async fn watch(remote: &Remote, id: Uuid, json: bool) -> Result<Exit, CliError> {
    let display = if json { Display::EventsJson } else { Display::Text };
    follow::follow(remote, id, display, OnSignal::Leave, &mut Signals::new()?).await
}

async fn rerun(remote: &Remote, id: Uuid, arguments: Option<&str>) -> Result<Value, CliError> {
    let body = match arguments {
        Some(text) => {
            let arguments = crate::domain::json::parse(text.as_bytes());
            let arguments = arguments.map_err(|error| CliError::usage(format!("--arguments: {error}")))?;
            json!({ "arguments": arguments })
        }
        None => json!({}),
    };
    remote.post(&["tool-calls", &id.to_string(), "rerun"], &body).await
}
