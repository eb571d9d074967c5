//! The status of a server and its list of tools.

use std::sync::Arc;

use serde::Serialize;

use super::listed_tool::ListedTool;
use crate::domain::Time;
use crate::executor::BoxFuture;

/// The state of an upstream server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamState)]
pub enum ServerState {
    /// The server is starting.
    Starting,
    /// The tools of the server can be called.
    Ready,
    /// The connection was lost and a restart is pending. Calls of the tools wait for it for a short time.
    Backoff,
    /// The server was stopped or is disabled.
    #[default]
    Stopped,
    /// The server failed to start several times in a row. Its tools are unavailable until a further attempt succeeds.
    Failed,
}

impl ServerState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Starting, Self::Ready, Self::Backoff, Self::Stopped, Self::Failed];

    /// Returns the name of the state in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Backoff => "backoff",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The tools that a server listed.
#[derive(Debug, Default)]
pub struct ToolList {
    /// Valid tools.
    pub tools: Vec<ListedTool>,
    /// Invalid tools: the name (or position) and the reason.
    pub left_out: Vec<(String, String)>,
}

/// An observer of the tool lists of servers.
pub trait ToolListObserver: Send + Sync + 'static {
    /// Handles a new list; `None` means that the tools are unavailable, because the server was stopped or failed to start
    /// several times in a row. A starting server becomes ready only after the returned future has completed.
    fn tools_changed(&self, server: &str, listed: Option<Arc<ToolList>>) -> BoxFuture<()>;
}

/// The status of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerStatus {
    /// Current state.
    pub state: ServerState,
    /// Time of the last change of the state.
    pub since: Time,
    /// Process id of the program's helper.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// Message and time of the last error.
    pub last_error: Option<(String, Time)>,
    /// Negotiated protocol version.
    pub protocol_version: Option<String>,
    /// Name and version that the server reported.
    pub implementation: Option<(String, String)>,
}
