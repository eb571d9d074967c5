//! The [`Executor`] trait, its implementations, and the input of a run.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Agent, AllowList, Failure, Naming, Session, Tenant, ToolOutput};

pub mod emitter;
#[cfg(feature = "executors")]
mod envelope;
#[cfg(feature = "executors")]
pub mod external;
#[cfg(feature = "executors")]
pub mod http;
#[cfg(feature = "executors")]
pub mod images;
pub mod instances;
#[cfg(feature = "executors")]
pub mod mcp;
pub mod posted_result;
#[cfg(feature = "executors")]
pub mod process;
pub mod redaction;
pub mod report;
pub mod result_slot;
#[cfg(feature = "executors")]
pub mod secrets;
#[cfg(feature = "executors")]
pub mod signing_key;
#[cfg(feature = "executors")]
pub mod vault;

pub use emitter::Emitter;
#[cfg(feature = "executors")]
pub use external::ExternalExecutor;
#[cfg(feature = "executors")]
pub use http::{Egress, HttpClient, Reporting};
pub use instances::{InstanceScope, Instances, Pool};
pub use posted_result::PostedResult;
#[cfg(feature = "executors")]
pub use process::Processes;
pub use redaction::Redaction;
pub use result_slot::{RecordedEnd, RecordedPost, ResultSlot};
#[cfg(feature = "executors")]
pub use secrets::{Secrets, SecretsFile};
#[cfg(feature = "executors")]
pub use vault::Vault;

/// A boxed future that owns its data.
pub type BoxFuture<T> = futures_util::future::BoxFuture<'static, T>;

/// One run of a tool. `Debug` shows neither arguments nor context.
#[derive(Clone)]
pub struct Invocation {
    /// The id that this service gave the call.
    pub id: Uuid,
    /// The tenant that owns the call.
    pub tenant: Tenant,
    /// The tools that the caller may call; `None` means all tools of the tenant.
    pub allowed: Option<Arc<AllowList>>,
    /// The id that the caller gave the call.
    pub call_id: Arc<str>,
    /// The name of the tool.
    pub name: Arc<str>,
    /// The names under which the caller sees tools; after a restart, the tools' own names.
    pub naming: Naming,
    /// The validated arguments including presets, as a JSON object.
    pub arguments: Arc<Value>,
    /// The context objects that the tool lists in `context`.
    pub context: Arc<Map<String, Value>>,
    /// The agent on whose behalf the call is made.
    pub agent: Option<Arc<Agent>>,
    /// The id of the call's session.
    pub session: Option<Arc<str>>,
    /// The session as it was stored when the call was submitted; `None` after a restart.
    pub session_snapshot: Option<Arc<Session>>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Timeout of the run, in milliseconds.
    pub timeout_ms: u64,
    /// The part of the timeout that passed before a restart, in milliseconds.
    pub elapsed_ms: u64,
    /// Maximum time without a report, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// Bounds of the output that a model is shown.
    pub output: Bounds,
    /// W3C Trace Context of the request, forwarded to the tool.
    pub traceparent: Option<Arc<str>>,
    /// The sender of the run's reports.
    pub emitter: Emitter,
    /// Whether the work was handed out before a restart, so that only its result is awaited.
    pub awaits_external: bool,
    /// The slot that receives a result posted over the API.
    pub result_slot: ResultSlot,
    /// Fires when the run must stop because of a timeout, a cancellation or a shutdown. The future is dropped as well;
    /// the token is for work that continues after the drop.
    pub cancel: CancellationToken,
    /// The secrets among the arguments. The engine redacts everything that the tool returns; an executor applies this
    /// only before it cuts a text.
    pub redaction: Option<Arc<Redaction>>,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, name, attempt, .. } = self;
        formatter.debug_struct("Invocation").field("id", id).field("name", name).field("attempt", attempt).finish()
    }
}

/// The role of a tool that operates on other tools or on its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRole {
    /// Finds tools.
    Search,
    /// Forwards to the tool that the arguments name; the executor of this tool never runs.
    Forward,
    /// Acts on the session of the call, and exists only in sessions that list the tool.
    Session(SystemTool),
}

/// A tool that acts on the session of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemTool {
    /// Ends the session's task.
    AttemptCompletion,
    /// Creates a session for a task and waits until it ends.
    NewTask,
    /// Activates and deactivates groups of the session.
    ResetEquippedTools,
}

/// A predicate that returns `true` if a session has the tool.
pub type Available = Arc<dyn Fn(&Session) -> bool + Send + Sync>;

/// The code that runs the calls of one tool.
pub trait Executor: Send + Sync + 'static {
    /// Runs one call. Dropping the future cancels the work.
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>>;

    /// Returns the role of a tool that operates on other tools or on its session.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// Creates a separate executor for one registry entry if the executor keeps state per tool; `None` if it can be
    /// shared.
    fn for_entry(&self, instances: &Instances) -> Option<Arc<dyn Executor>> {
        let _ = instances;
        None
    }

    /// Returns the pool of instances, if the executor keeps any.
    fn pool(&self) -> Option<Arc<dyn Pool>> {
        None
    }

    /// Returns the predicate for sessions that have the tool; `None` means every session.
    fn is_available(&self) -> Option<Available> {
        None
    }
}
