//! The context shared by all upstream servers of a node.

use std::sync::Arc;
use std::time::Duration;

use super::counts::UpstreamMetrics;
use crate::executor::{HttpClient, Processes, Secrets};
use toolpost_core::domain::{Clock, IdGenerator};

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
    pub timing: ServerTiming,
    /// The metrics of upstream servers.
    pub metrics: Arc<dyn UpstreamMetrics>,
}

/// Timeouts and delays in the life of an upstream server.
#[derive(Debug, Clone, Copy)]
pub struct ServerTiming {
    /// Timeout for a start, including the handshake.
    pub start: Duration,
    /// Maximum time that a call waits for a starting server.
    pub wait: Duration,
    /// Interval for listing the tools again without a notification.
    pub poll: Duration,
    /// Delay after the first failed start; it doubles with each further failure.
    pub initial_backoff: Duration,
    /// Maximum delay between starts.
    pub max_backoff: Duration,
    /// Number of consecutive failed starts after which the tools become unavailable until a start succeeds.
    pub give_up_after: u32,
}

impl ServerTiming {
    /// Returns the delay after this number of consecutive failures. `random`, from 0 to 1, varies it between half and
    /// all of the backoff.
    #[must_use]
    pub fn rest(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.initial_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        whole.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_vary_by_half() {
        let ms = Duration::from_millis;
        let timing = ServerTiming {
            start: ms(1),
            wait: ms(1),
            poll: ms(1),
            initial_backoff: ms(500),
            max_backoff: ms(5_000),
            give_up_after: 3,
        };
        let rests: Vec<u128> = (1..=6).map(|failures| timing.rest(failures, 0.0).as_millis()).collect();
        assert_eq!(rests, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(timing.rest(1, 1.0), ms(250));
        assert_eq!(timing.rest(u32::MAX, 0.0), ms(5_000));
    }
}
