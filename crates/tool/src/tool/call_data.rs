//! One run of a tool outside of a service: its data, its output and its reports.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Report;
use crate::executor::emitter::{self, Emitter, ReportReceiver};
use crate::executor::instances::CallInstanceGuard;
use crate::executor::{BoxFuture, Executor, Invocation, ResultSlot};
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Agent, Failure, Naming, Tenant, ToolOutput};

/// The data of one call: what a tool reads of it through its [`Run`](super::Run).
#[derive(Clone)]
pub struct CallData {
    /// The id that the service gave the call.
    pub id: Uuid,
    /// The id that the caller gave the call.
    pub call_id: String,
    /// The name of the tool.
    pub name: String,
    /// The validated arguments, as a JSON object.
    pub arguments: Value,
    /// The context objects that the tool lists.
    pub context: Map<String, Value>,
    /// The agent on whose behalf the call is made.
    pub agent: Option<Agent>,
    /// The session of the call.
    pub session: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Maximum duration of the run, in milliseconds. The tool can read it; the caller of
    /// [`ToolSet::run`](super::ToolSet::run) enforces it.
    pub timeout_ms: u64,
}

impl Default for CallData {
    fn default() -> Self {
        Self {
            id: Uuid::nil(),
            call_id: String::new(),
            name: String::new(),
            arguments: Value::Object(Map::new()),
            context: Map::new(),
            agent: None,
            session: None,
            attempt: 1,
            timeout_ms: u64::MAX,
        }
    }
}

impl fmt::Debug for CallData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, attempt, .. } = self;
        formatter.debug_struct("CallData").field("id", id).field("name", name).field("attempt", attempt).finish()
    }
}

impl CallData {
    fn invocation(self, emitter: Emitter, cancel: CancellationToken) -> Invocation {
        Invocation {
            id: self.id,
            tenant: Tenant::default(),
            allowed: None,
            call_id: self.call_id.into(),
            name: self.name.into(),
            naming: Naming::default(),
            arguments: Arc::new(self.arguments),
            context: Arc::new(self.context),
            agent: self.agent.map(Arc::new),
            redaction: None,
            session: self.session.map(Arc::from),
            session_snapshot: None,
            attempt: self.attempt,
            idle_timeout_ms: None,
            elapsed_ms: 0,
            awaits_external: false,
            result_slot: ResultSlot::default(),
            output: Bounds::default(),
            timeout_ms: self.timeout_ms,
            traceparent: None,
            emitter,
            cancel,
        }
    }
}

/// A started run of a tool.
pub struct ToolRun {
    /// The work, which begins when it is polled. Dropping it stops the run.
    pub output: BoxFuture<Result<ToolOutput, Failure>>,
    /// The reports of the run.
    pub reports: Reports,
}

impl fmt::Debug for ToolRun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToolRun").finish_non_exhaustive()
    }
}

/// The reports of one run, in order.
///
/// Status updates that were not received yet are merged, so the newest wins. A tool that emits more than 4 MiB waits
/// until its emissions are received. Dropping the receiver discards further reports.
#[derive(Debug)]
pub struct Reports(ReportReceiver);

impl Reports {
    /// Waits for the next report; never returns once the tool stops reporting. An empty [`Report::Status`] says that the
    /// tool is still running.
    ///
    /// # Cancel safety
    /// No report is lost if the future is dropped.
    pub async fn next(&mut self) -> Report {
        self.0.next().await
    }

    /// Returns the next report; `None` if none waits.
    pub fn try_next(&mut self) -> Option<Report> {
        self.0.take()
    }
}

/// Starts a run that no service accompanies: the schema is not checked and no timeout applies. `cancel` is what
/// [`Run::is_cancelled`](super::Run::is_cancelled) reads.
pub(super) fn start(executor: &dyn Executor, call: CallData, cancel: CancellationToken) -> ToolRun {
    let (emitter, reports) = emitter::forwarding_channel();
    let instance = executor.pool().map(|pool| CallInstanceGuard { pool, call: call.id });
    let work = executor.execute(call.invocation(emitter, cancel));
    let output = Box::pin(async move {
        let _released_at_the_end = instance;
        work.await
    });
    ToolRun { output, reports: Reports(reports) }
}
