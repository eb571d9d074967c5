//! Servers as the API shows them, without the values of environment variables and headers.

use std::collections::HashMap;

use serde::Serialize;

use super::{Change, Origin, UpstreamRecord, Upstreams};
use crate::domain::Time;
use crate::domain::tool::OutputCheck;
use crate::domain::upstream::UpstreamTransport;
use crate::executor::mcp::ServerState;

/// An upstream MCP server.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Upstream)]
pub struct UpstreamView {
    /// Name of the server; its tools are called `NAME.tool`.
    pub name: String,
    /// Where the server is declared.
    pub source: Origin,
    /// `stdio` or `http`; `null` if the declaration is invalid.
    pub transport: Option<&'static str>,
    /// The program, without its arguments.
    pub command: Option<String>,
    /// The URL, without its query.
    pub url: Option<String>,
    /// The names of the environment variables.
    pub env: Vec<String>,
    /// The names of the headers.
    pub headers: Vec<String>,
    /// Whether a changed tool is quarantined until it is accepted.
    pub pin: bool,
    /// How results are treated that do not match the output schema of their tool.
    pub output_check: OutputCheck,
    /// The current state.
    pub state: ServerState,
    /// The time of the last change of the state.
    pub since: Time,
    /// The id of the process that supervises the program, on this node.
    pub pid: Option<u32>,
    /// The number of restarts by this node.
    pub restarts: u64,
    /// The last error.
    pub last_error: Option<LastError>,
    /// The negotiated protocol version.
    pub protocol_version: Option<String>,
    /// The name and version that the server reports.
    pub implementation: Option<Implementation>,
    /// The available tools, by their names in Toolpost.
    pub tools: Vec<String>,
    /// The tools that are quarantined until their changed definition is accepted.
    pub quarantined: Vec<String>,
    /// The tools that the server offers and that cannot be used.
    pub left_out: Vec<LeftOut>,
    /// The tools that are offered in another form than the server lists them, with what was corrected.
    pub corrected: Vec<UpstreamCorrection>,
    /// The time of the registration; for a server of the settings, the start of the service.
    pub created_at: Time,
}

/// An upstream MCP server with its recent output and changes.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamDetails)]
pub struct UpstreamDetails {
    #[serde(flatten)]
    view: UpstreamView,
    /// The last lines of the program's standard error, without secret values.
    stderr: Vec<String>,
    /// The last changes of the tools since the start of this node, oldest first.
    changes: Vec<Change>,
}

/// The last error of a server.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamError)]
pub struct LastError {
    /// The message.
    pub message: String,
    /// The time of the error.
    pub at: Time,
}

/// The name and version that a server reports.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamImplementation)]
pub struct Implementation {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// A tool that cannot be used.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamLeftOut)]
pub struct LeftOut {
    /// The name of the tool at the server.
    pub tool: String,
    /// The reason.
    pub reason: String,
}

/// A tool that is offered in another form than its server lists it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamCorrection)]
pub struct UpstreamCorrection {
    /// The name of the tool at the server.
    pub tool: String,
    /// What was corrected.
    pub note: String,
}

/// Returns the tools of a server whose names were replaced or whose schemas were corrected.
fn corrected(server: &str, record: &UpstreamRecord) -> Vec<UpstreamCorrection> {
    let renamed = record.listed.iter().flat_map(|listed| listed.renamed());
    let note = |shown: &str| format!("its name is not a valid tool name; it is called \"{server}.{shown}\"");
    let renamed = renamed.map(|item| UpstreamCorrection { tool: item.name.clone(), note: note(&item.shown) });
    let schemas =
        record.corrected.iter().map(|(tool, note)| UpstreamCorrection { tool: tool.clone(), note: note.clone() });
    renamed.chain(schemas).collect()
}

impl Upstreams {
    /// Returns all servers, sorted by name.
    #[must_use]
    pub fn list(&self) -> Vec<UpstreamView> {
        self.table().records.iter().map(|(name, record)| view(name, record)).collect()
    }

    /// Returns one server.
    #[must_use]
    pub fn details(&self, name: &str) -> Option<UpstreamDetails> {
        let table = self.table();
        let record = table.records.get(name)?;
        let stderr = record.server.as_ref().map(|server| server.stderr()).unwrap_or_default();
        Some(UpstreamDetails { view: view(name, record), stderr, changes: record.changes.iter().cloned().collect() })
    }
}

fn view(name: &str, record: &UpstreamRecord) -> UpstreamView {
    let shown = record.server.as_ref().map(|server| server.shown());
    let upstream = record.server.as_ref().map(|server| &server.upstream);
    let renamed_tools = record.listed.iter().flat_map(|listed| listed.renamed());
    let shown_names: HashMap<&str, &str> =
        renamed_tools.map(|item| (item.name.as_str(), item.shown.as_str())).collect();
    let full = |tool: &str| format!("{name}.{}", shown_names.get(tool).copied().unwrap_or(tool));
    let offered = record.offered.iter().filter(|_| !record.is_gone).map(String::as_str);
    let (quarantined, free): (Vec<&str>, Vec<&str>) = offered.partition(|tool| record.quarantined.contains(*tool));
    let (mut command, mut url, mut env, mut headers, mut transport) = (None, None, Vec::new(), Vec::new(), None);
    match upstream.map(|upstream| &upstream.transport) {
        Some(UpstreamTransport::Stdio { command: program, env: variables, .. }) => {
            command = Some(program.clone());
            env = variables.keys().cloned().collect();
            transport = Some("stdio");
        }
        Some(UpstreamTransport::Http { url: address, headers: named }) => {
            // The query often contains a key.
            url = Some(address.split(['?', '#']).next().unwrap_or_default().to_owned());
            headers = named.keys().cloned().collect();
            transport = Some("http");
        }
        None => {}
    }
    let fault = record.fault.clone().map(|message| LastError { message, at: record.created_at });
    let last_error = shown.as_ref().and_then(|shown| shown.last_error.clone());
    let implementation = shown.as_ref().and_then(|shown| shown.implementation.clone());
    UpstreamView {
        name: name.to_owned(),
        source: record.origin,
        transport,
        command,
        url,
        env,
        headers,
        pin: upstream.is_some_and(|upstream| upstream.pin),
        output_check: upstream.map(|upstream| upstream.output_check).unwrap_or_default(),
        state: shown.as_ref().map_or(ServerState::Failed, |shown| shown.state),
        since: shown.as_ref().map_or(record.created_at, |shown| shown.since),
        pid: shown.as_ref().and_then(|shown| shown.pid),
        restarts: shown.as_ref().map_or(0, |shown| shown.restarts),
        last_error: fault.or_else(|| last_error.map(|(message, at)| LastError { message, at })),
        protocol_version: shown.as_ref().and_then(|shown| shown.protocol_version.clone()),
        implementation: implementation.map(|(name, version)| Implementation { name, version }),
        tools: free.into_iter().map(full).collect(),
        quarantined: quarantined.into_iter().map(full).collect(),
        left_out: record
            .refused
            .iter()
            .map(|(tool, reason)| LeftOut { tool: tool.clone(), reason: reason.clone() })
            .collect(),
        corrected: if record.is_gone { Vec::new() } else { corrected(name, record) },
        created_at: record.created_at,
    }
}
