//! The context shared by all upstream servers of a node.

use super::timing::ServerTiming;
use crate::domain::{Clock, IdGenerator};
use crate::executor::{HttpClient, Processes, Secrets};
use crate::telemetry::Metrics;

/// The services and settings that upstream servers need.
#[derive(Debug, Clone)]
pub struct ServerContext {
    /// The client for HTTP servers.
    pub client: HttpClient,
    /// The settings for stdio servers.
    pub processes: Processes,
    /// The secrets for placeholders.
    pub secrets: Secrets,
    /// The clock of the service.
    pub clock: Clock,
    /// The source of randomness for delays.
    pub ids: IdGenerator,
    /// Timeouts and delays.
    pub pace: ServerTiming,
    /// The metrics of upstream servers.
    pub metrics: Metrics,
}
