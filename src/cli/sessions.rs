//! `toolpost sessions`: lists, shows, aborts and removes sessions of a running service.

use std::collections::BTreeMap;

use clap::{Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::CliError;
use super::remote::{Query, Remote, ServerArgs};
use super::{Exit, print};
use crate::domain::{Status, Time};

/// Maximum length of a text in a table, in characters.
const SHORT: usize = 60;
/// Maximum length of a property, in characters.
const LONGEST: usize = 500;

/// Arguments of `toolpost sessions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List sessions, newest first
    List {
        /// List only sessions in this state
        #[arg(long, value_enum)]
        state: Option<State>,
        /// List only sessions with this parent
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// List at most this number of sessions
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Continue after the previous page, with the cursor that it printed
        #[arg(long)]
        cursor: Option<String>,
        /// Print JSON, as returned by `GET /sessions`
        #[arg(long)]
        json: bool,
    },
    /// Show a session with its newest calls
    Show {
        /// Id of the session
        id: String,
        /// Print JSON, as returned by `GET /sessions/ID`
        #[arg(long)]
        json: bool,
    },
    /// Cancel all calls of a session that have not ended
    Abort {
        /// Id of the session
        id: String,
    },
    /// Abort and remove a session; its calls stay in the list of calls
    Remove {
        /// Id of the session
        id: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Active,
    Completed,
    Aborted,
}

/// The shown members of a session.
#[derive(Debug, Deserialize)]
struct SessionView {
    id: String,
    state: String,
    parent: Option<String>,
    #[serde(default)]
    context: Vec<String>,
    #[serde(default)]
    groups: BTreeMap<String, bool>,
    tools: Option<Vec<String>>,
    created_at: Time,
    updated_at: Time,
}

/// The shown members of a call in a session.
#[derive(Debug, Deserialize)]
struct SessionCall {
    id: Uuid,
    name: String,
    status: Status,
    arguments: Value,
    created_at: Time,
}

pub async fn run(Args { command, server }: Args) -> Result<Exit, CliError> {
    match command {
        Command::List { state, parent, limit, cursor, json } => {
            let state = state.and_then(|state| state.to_possible_value()).map(|state| state.get_name().to_uppercase());
            let query = Query::default().with("state", state).with("parent", parent);
            let query = query.with("limit", Some(limit)).with("cursor", cursor);
            list(&server.required("sessions list")?, &query, json).await?;
        }
        Command::Show { id, json } => show(&server.required("sessions show")?, &id, json).await?,
        Command::Abort { id } => {
            let remote = server.required("sessions abort")?;
            let answer = remote.post(&["sessions", &id, "abort"], &json!({})).await?;
            let session: SessionView = remote.read(answer)?;
            print::result(&format!("{} {}", print::one_line(&session.id, LONGEST), session.state))?;
        }
        Command::Remove { id } => {
            server.required("sessions remove")?.delete(&["sessions", &id]).await?;
            print::result(&format!("removed {}", print::one_line(&id, LONGEST)))?;
        }
    }
    Ok(Exit::Success)
}

async fn list(remote: &Remote, query: &Query, json: bool) -> Result<(), CliError> {
    let mut page = remote.get(&["sessions"], query).await?;
    if json {
        return print::json(&page);
    }
    let sessions: Vec<SessionView> = remote.member(&mut page, "sessions")?;
    let rows = sessions.iter().map(|session| {
        vec![
            print::one_line(&session.id, SHORT),
            print::one_line(&session.state, SHORT),
            print::one_line(session.parent.as_deref().unwrap_or_default(), SHORT),
            session.created_at.to_string(),
            session.updated_at.to_string(),
        ]
    });
    print::result(&print::table(&["ID", "STATE", "PARENT", "CREATED", "UPDATED"], rows, usize::MAX))?;
    if let Value::String(cursor) = &page["next_cursor"] {
        print::note(&format!("more sessions: --cursor {}", print::one_line(cursor, LONGEST)));
    }
    Ok(())
}

async fn show(remote: &Remote, id: &str, json: bool) -> Result<(), CliError> {
    let mut detail = remote.get(&["sessions", id], &Query::default()).await?;
    if json {
        return print::json(&detail);
    }
    let calls: Vec<SessionCall> = remote.member(&mut detail, "tool_calls")?;
    let counts: BTreeMap<String, u64> = remote.member(&mut detail, "counts")?;
    let session: SessionView = remote.read(detail)?;
    let rows = calls.iter().map(|call| {
        vec![
            call.id.to_string(),
            call.created_at.to_string(),
            print::one_line(&call.name, 32),
            call.status.as_str().to_owned(),
            print::one_line(&call.arguments.to_string(), SHORT),
        ]
    });
    let table = print::table(&["ID", "ACCEPTED", "TOOL", "STATUS", "ARGUMENTS"], rows, usize::MAX);
    print::result(&format!("{}\n\n{table}", print::facts(&facts(&session, &counts))))
}

fn facts(session: &SessionView, counts: &BTreeMap<String, u64>) -> Vec<(&'static str, String)> {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let groups = session.groups.iter().map(|(name, active)| format!("{name} {}", if *active { "on" } else { "off" }));
    let mut facts = vec![
        ("id", session.id.clone()),
        ("state", session.state.clone()),
        ("created", session.created_at.to_string()),
        ("updated", session.updated_at.to_string()),
        ("calls", counts.join(", ")),
    ];
    facts.extend(session.parent.clone().map(|parent| ("parent", parent)));
    facts.extend(session.tools.as_ref().map(|tools| ("tools", tools.join(", "))));
    facts.push(("context", session.context.join(", ")));
    facts.push(("groups", groups.collect::<Vec<_>>().join(", ")));
    let known = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
    known.map(|(name, fact)| (name, print::one_line(&fact, LONGEST))).collect()
}
