//! What all upstream servers of a node share.

use super::timing::ServerTiming;
use crate::domain::{Clock, IdGenerator};
use crate::executor::{HttpClient, Processes, Secrets};
use crate::telemetry::Metrics;

/// What servers are reached with.
#[derive(Debug, Clone)]
pub struct ServerContext {
    /// For those with HTTP.
    pub client: HttpClient,
    /// For those that are programs.
    pub processes: Processes,
    /// What is put into their texts.
    pub secrets: Secrets,
    /// The time.
    pub clock: Clock,
    /// Chance.
    pub ids: IdGenerator,
    /// Their clocks.
    pub pace: ServerTiming,
    /// Where they are counted.
    pub metrics: Metrics,
}
