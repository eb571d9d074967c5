//! The settings of an engine, and how busy it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::admission::AdmissionControl;
use super::context::ContextObjects;
use super::pauses::PauseRule;
use super::rates::Rates;
use crate::domain::limits::ServerLimits;
use crate::executor::{Secrets, Vault};
use crate::hooks::Hooks;
use crate::telemetry::{Metrics, Tracer};

/// What the engine is told at its start.
#[derive(Debug)]
pub struct Settings {
    /// This node's name, in every call's record.
    pub node: Arc<str>,
    /// Bounds where nobody says otherwise.
    pub limits: ServerLimits,
    /// How long a caller waits for the database before it is told that it is away.
    pub store_patience: Duration,
    /// Memory that requests in flight may hold, in KiB; more are refused.
    pub room_kib: usize,
    /// How many are taken while others wait to be recorded.
    pub rush: AdmissionControl,
    /// How often tools may be called.
    pub rates: Rates,
    /// Most calls that nobody waits for, running and waiting; more are refused.
    pub max_queued: usize,
    /// How many of them run at once.
    pub max_running: usize,
    /// How long arguments that come piece by piece may be silent.
    pub silence: Duration,
    /// Time after which a session that is not used is deleted, in milliseconds; 0 means never.
    pub session_idle_ms: u64,
    /// When a tool that times out again and again rests.
    pub pause: PauseRule,
    /// Memory that kept results may take, in bytes.
    pub results_bytes: u64,
    /// Wakes the sender of callbacks, once the end of a call that has one is on disk.
    pub callbacks_kick: Arc<Notify>,
    /// Who is asked around calls.
    pub hooks: Arc<Hooks>,
    /// Where the secrets of presets come from.
    pub secrets: Secrets,
    /// Opens the stored values of presets.
    pub vault: Vault,
    /// Objects for tools that name them; a session's and a call's own come first.
    pub context: ContextObjects,
    /// What is counted.
    pub metrics: Metrics,
    /// What is traced.
    pub tracer: Tracer,
}

/// How busy an engine is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Memory that requests in flight are counted with, in KiB.
    pub room_kib: usize,
    /// Most of it.
    pub most_room_kib: usize,
    /// Calls that wait to be recorded.
    pub backlog: usize,
    /// Accepted calls that nobody waits for.
    pub queued: usize,
    /// Most of them.
    pub most_queued: usize,
    /// Calls that wait for their place.
    pub waiting: usize,
}
