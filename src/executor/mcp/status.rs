//! How a server stands, what it says that it has, and who is told of that.

use std::sync::Arc;

use serde::Serialize;

use super::listed_tool::ListedTool;
use crate::domain::Time;
use crate::executor::BoxFuture;

/// How a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamState)]
pub enum ServerState {
    /// It is being started.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It is gone, and rests before it is started again; calls of its tools wait for that for a moment.
    Backoff,
    /// It was stopped, or is switched off.
    Stopped,
    /// It could not be started again and again. Its tools are not there until it is; it is tried further.
    Failed,
}

impl ServerState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Starting, Self::Ready, Self::Backoff, Self::Stopped, Self::Failed];

    /// As the API and metrics name it.
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

/// What a server said that it has.
#[derive(Debug, Default)]
pub struct ToolList {
    /// Its tools.
    pub tools: Vec<ListedTool>,
    /// What is none: what it is called, and why.
    pub left_out: Vec<(String, String)>,
}

/// Who is told which tools a server has now; `None` when it is gone for good.
pub trait ToolListObserver: Send + Sync + 'static {
    /// What it does is done before the server is said to be ready.
    fn tools_changed(&self, server: &str, listed: Option<Arc<ToolList>>) -> BoxFuture<()>;
}

/// What is known of a server.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// How it stands.
    pub state: ServerState,
    /// Since when.
    pub since: Time,
    /// The process that keeps its program.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// What went wrong last, and when.
    pub last_error: Option<(String, Time)>,
    /// The revision of the protocol that is spoken.
    pub protocol_version: Option<String>,
    /// What it calls itself, and its version.
    pub implementation: Option<(String, String)>,
}
