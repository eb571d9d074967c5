//! What runs a tool: the trait, and what a run is given.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::limits::Bounds;
use crate::domain::{Agent, AllowList, Failure, Naming, Session, Tenant, ToolOutput};

pub mod emitter;
pub mod external;
pub mod http;
pub mod images;
pub mod instances;
pub mod mcp;
pub mod process;
pub mod redaction;
pub mod report;
pub mod result_slot;
pub mod secrets;
pub mod signing_key;
pub mod vault;

pub use emitter::Emitter;
pub use external::ExternalExecutor;
pub use http::{Egress, HttpClient, HttpExecutor, Reporting};
pub use instances::{InstanceScope, Instances, Pool};
pub use process::{ProcessExecutor, Processes};
pub use redaction::Redaction;
pub use result_slot::ResultSlot;
pub use secrets::{Secrets, SecretsFile};
pub use vault::Vault;

/// A boxed future that owns all it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// One run of a tool. What it is given is not shown by `Debug`.
#[derive(Clone)]
pub struct Invocation {
    /// Our id of the call.
    pub id: Uuid,
    /// Whose it is.
    pub tenant: Tenant,
    /// The tools that there are for the caller; `None`: all of the tenant.
    pub allowed: Option<Arc<AllowList>>,
    /// The caller's id of the call.
    pub call_id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The names under which its caller is shown tools; each tool's own after a restart.
    pub naming: Naming,
    /// Valid arguments, with the presets in them: a JSON object.
    pub arguments: Arc<Value>,
    /// The context objects that the tool names.
    pub context: Arc<Map<String, Value>>,
    /// On whose behalf the call is made.
    pub agent: Option<Arc<Agent>>,
    /// The conversation that it belongs to.
    pub session: Option<Arc<str>>,
    /// The same as it was stored when the call was asked for; `None` after a restart.
    pub session_snapshot: Option<Arc<Session>>,
    /// Counted from 1.
    pub attempt: u32,
    /// How long the run may take, in milliseconds.
    pub timeout_ms: u64,
    /// How much of that is over, in milliseconds: the work was handed out before a restart.
    pub elapsed_ms: u64,
    /// How long it may be silent, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// How much of its result a model is shown.
    pub output: Bounds,
    /// W3C Trace Context of the request, to be passed on.
    pub traceparent: Option<Arc<str>>,
    /// Where the run reports what it is doing.
    pub emitter: Emitter,
    /// The work was handed out before a restart: only its result is awaited.
    pub awaits_external: bool,
    /// Where a result arrives that someone outside posts.
    pub result_slot: ResultSlot,
    /// Fires when the run must stop: its clock, or the end of the service. The future is dropped as well; this is for
    /// work that a dropped future does not stop.
    pub cancel: CancellationToken,
    /// The secrets among the arguments, which nobody is to hear. It is applied to whatever the tool says; an executor needs
    /// it only before it cuts a text.
    pub redaction: Option<Arc<Redaction>>,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, name, attempt, .. } = self;
        formatter.debug_struct("Invocation").field("id", id).field("name", name).field("attempt", attempt).finish()
    }
}

/// What a tool stands for that is there for the sake of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRole {
    /// It finds tools.
    Search,
    /// A call of it is one of the tool that its arguments name; it is never run itself.
    Forward,
    /// It acts on the session of its call, and is there only in sessions that name it.
    Session(SystemTool),
}

/// The tools that act on the session of their call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemTool {
    /// Ends the session's task.
    AttemptCompletion,
    /// Makes a session for a task, and waits for its end.
    NewTask,
    /// Switches the session's groups.
    ResetEquippedTools,
}

/// Whether a session has a tool.
pub type Available = Arc<dyn Fn(&Session) -> bool + Send + Sync>;

/// Runs calls of one tool.
pub trait Executor: Send + Sync + 'static {
    /// Runs one call. Dropping the future stops the work.
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>>;

    /// What it stands for, if it is there for the sake of other tools.
    fn role(&self) -> Option<ToolRole> {
        None
    }

    /// One like it for each tool that uses it, where it keeps something for that tool; `None` if one will do for all.
    fn for_entry(&self, instances: &Instances) -> Option<Arc<dyn Executor>> {
        let _ = instances;
        None
    }

    /// The instances that it keeps, if it does.
    fn pool(&self) -> Option<Arc<dyn Pool>> {
        None
    }

    /// Which sessions have the tool; `None`: all.
    fn is_available(&self) -> Option<Available> {
        None
    }
}
