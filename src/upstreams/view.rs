//! Servers as the API shows them: never a value that they are given.

use serde::Serialize;

use super::{ChangeKind, Origin, UpstreamRecord, Upstreams};
use crate::domain::Time;
use crate::domain::tool::OutputCheck;
use crate::domain::upstream::UpstreamTransport;
use crate::executor::mcp::ServerState;

/// An upstream MCP server.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Upstream)]
pub struct UpstreamView {
    /// Its name: its tools are `NAME.tool`.
    pub name: String,
    /// Who has declared it.
    pub source: Origin,
    /// `stdio` or `http`; `null` where it cannot be used.
    pub transport: Option<&'static str>,
    /// The program, without its arguments.
    pub command: Option<String>,
    /// The address, without its query.
    pub url: Option<String>,
    /// The names of its environment variables.
    pub env: Vec<String>,
    /// The names of its headers.
    pub headers: Vec<String>,
    /// Whether a changed tool rests until it is accepted.
    pub pin: bool,
    /// What a result means that does not match its tool's output schema.
    pub output_check: OutputCheck,
    /// How it stands.
    pub state: ServerState,
    /// Since when.
    pub since: Time,
    /// The process that keeps its program, on this node.
    pub pid: Option<u32>,
    /// How often it was started again, by this node.
    pub restarts: u64,
    /// What went wrong last.
    pub last_error: Option<LastError>,
    /// The revision of the protocol that is spoken.
    pub protocol_version: Option<String>,
    /// What it calls itself.
    pub implementation: Option<Implementation>,
    /// Its tools that are there, by our names.
    pub tools: Vec<String>,
    /// Those that rest until their changed definition is accepted.
    pub quarantined: Vec<String>,
    /// What it offers and cannot be had here.
    pub left_out: Vec<LeftOut>,
    /// When it was declared; for one of the settings, when the service started.
    pub created_at: Time,
}

/// An upstream MCP server with what happened to it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamDetails)]
pub struct UpstreamDetails {
    #[serde(flatten)]
    view: UpstreamView,
    /// The last lines of its program's standard error, without what it was given.
    stderr: Vec<String>,
    /// The last changes of what it offers, oldest first; since this node started.
    changes: Vec<ChangeView>,
}

/// What went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamError)]
pub struct LastError {
    /// What.
    pub message: String,
    /// When.
    pub at: Time,
}

/// What a server calls itself.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamImplementation)]
pub struct Implementation {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A tool that cannot be had.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamLeftOut)]
pub struct LeftOut {
    /// Its name there.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// A change of what a server offers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamChange)]
pub struct ChangeView {
    /// The tool, by our name.
    tool: String,
    /// What has become of it.
    change: ChangeKind,
    /// Which of its members are different, where that is known.
    members: Vec<&'static str>,
    /// Whether it rests until it is accepted.
    quarantined: bool,
    /// When.
    at: Time,
}

impl Upstreams {
    /// All servers, by name.
    #[must_use]
    pub fn list(&self) -> Vec<UpstreamView> {
        self.book().held.iter().map(|(name, held)| view(name, held)).collect()
    }

    /// One server.
    #[must_use]
    pub fn details(&self, name: &str) -> Option<UpstreamDetails> {
        let book = self.book();
        let held = book.held.get(name)?;
        let changes = held.changes.iter().map(|change| ChangeView {
            tool: format!("{name}.{}", change.tool),
            change: change.kind,
            members: change.members.clone(),
            quarantined: change.is_withheld,
            at: change.at,
        });
        let stderr = held.server.as_ref().map(|server| server.stderr()).unwrap_or_default();
        Some(UpstreamDetails { view: view(name, held), stderr, changes: changes.collect() })
    }
}

fn view(name: &str, held: &UpstreamRecord) -> UpstreamView {
    let shown = held.server.as_ref().map(|server| server.shown());
    let upstream = held.server.as_ref().map(|server| &server.upstream);
    let full = |tool: &str| format!("{name}.{tool}");
    let offered = held.offered.iter().filter(|_| !held.is_gone).map(String::as_str);
    let (withheld, free): (Vec<&str>, Vec<&str>) = offered.partition(|tool| held.withheld.contains(*tool));
    let (mut command, mut url, mut env, mut headers, mut transport) = (None, None, Vec::new(), Vec::new(), None);
    match upstream.map(|upstream| &upstream.transport) {
        Some(UpstreamTransport::Stdio { command: program, env: variables, .. }) => {
            command = Some(program.clone());
            env = variables.keys().cloned().collect();
            transport = Some("stdio");
        }
        Some(UpstreamTransport::Http { url: address, headers: named }) => {
            // What stands behind it is often a key.
            url = Some(address.split(['?', '#']).next().unwrap_or_default().to_owned());
            headers = named.keys().cloned().collect();
            transport = Some("http");
        }
        None => {}
    }
    let fault = held.fault.clone().map(|message| LastError { message, at: held.created_at });
    let last_error = shown.as_ref().and_then(|shown| shown.last_error.clone());
    let implementation = shown.as_ref().and_then(|shown| shown.implementation.clone());
    UpstreamView {
        name: name.to_owned(),
        source: held.origin,
        transport,
        command,
        url,
        env,
        headers,
        pin: upstream.is_some_and(|upstream| upstream.pin),
        output_check: upstream.map(|upstream| upstream.output_check).unwrap_or_default(),
        state: shown.as_ref().map_or(ServerState::Failed, |shown| shown.state),
        since: shown.as_ref().map_or(held.created_at, |shown| shown.since),
        pid: shown.as_ref().and_then(|shown| shown.pid),
        restarts: shown.as_ref().map_or(0, |shown| shown.restarts),
        last_error: fault.or_else(|| last_error.map(|(message, at)| LastError { message, at })),
        protocol_version: shown.as_ref().and_then(|shown| shown.protocol_version.clone()),
        implementation: implementation.map(|(name, version)| Implementation { name, version }),
        tools: free.into_iter().map(full).collect(),
        quarantined: withheld.into_iter().map(full).collect(),
        left_out: held
            .refused
            .iter()
            .map(|(tool, reason)| LeftOut { tool: tool.clone(), reason: reason.clone() })
            .collect(),
        created_at: held.created_at,
    }
}
