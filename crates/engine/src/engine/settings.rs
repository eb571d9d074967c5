//! The settings and the load of an engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::admission::AdmissionControl;
use super::context::ContextObjects;
use crate::budgets::Budgets;
use crate::dispatch::Rates;
use crate::hooks::Hooks;
use crate::policies::Policies;
use toolpost_core::domain::limits::{PauseRule, ServerLimits};
use toolpost_telemetry::{Metrics, Tracer};
use toolpost_tool::executor::{Secrets, Vault};

/// The settings of an engine.
#[derive(Debug)]
pub struct Settings {
    /// The name of this node, which the record of each call contains.
    pub node: Arc<str>,
    /// Server-wide defaults and maximums for the limits of calls.
    pub limits: ServerLimits,
    /// Maximum time that a caller waits for the database.
    pub store_timeout: Duration,
    /// Maximum memory of requests in flight, in KiB. Further requests are rejected.
    pub memory_kib: usize,
    /// Admission control for new calls.
    pub admission: AdmissionControl,
    /// Rate limits of tools.
    pub rates: Rates,
    /// Maximum number of detached calls, running or waiting. Further calls are rejected.
    pub max_queued: usize,
    /// Maximum number of detached calls that run at once.
    pub max_running: usize,
    /// Whether the key or subject that made a call may approve it.
    pub allows_self_approval: bool,
    /// The URL that receives notifications about approvals, unless a tool has its own.
    pub approvals_url: Option<Arc<str>>,
    /// Maximum time without a new chunk of streamed arguments.
    pub silence: Duration,
    /// Time after which an idle session is deleted, in milliseconds; 0 means never.
    pub session_idle_ms: u64,
    /// The rule that pauses tools after repeated timeouts.
    pub pause: PauseRule,
    /// Maximum memory of cached results, in bytes.
    pub results_bytes: u64,
    /// Wakes the sender of callbacks after the end of a call with a callback is committed.
    pub callbacks_due: Arc<Notify>,
    /// The hooks around calls.
    pub hooks: Arc<Hooks>,
    /// The policies for calls.
    pub policies: Arc<Policies>,
    /// The budgets for calls.
    pub budgets: Arc<Budgets>,
    /// The configured secrets to which presets and executors refer.
    pub secrets: Secrets,
    /// Decrypts stored preset values.
    pub vault: Vault,
    /// Context objects of the server. Those of a session or a request take precedence.
    pub context: ContextObjects,
    /// The metrics of the service.
    pub metrics: Metrics,
    /// The tracer of the service.
    pub tracer: Tracer,
}

/// The load of an engine at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Memory of requests in flight, in KiB.
    pub memory_kib: usize,
    /// Maximum memory of requests in flight, in KiB.
    pub max_memory_kib: usize,
    /// Number of calls that wait to be recorded.
    pub backlog: usize,
    /// Number of detached calls, running or waiting.
    pub queued: usize,
    /// Maximum number of detached calls.
    pub most_queued: usize,
    /// Number of calls that wait for a slot.
    pub waiting: usize,
}
