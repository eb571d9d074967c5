//! Counters of the calls of an upstream server. The metrics of the service own them.

use std::fmt::Debug;

use metrics::Counter;

/// The metrics of upstream servers.
pub trait UpstreamMetrics: Debug + Send + Sync {
    /// Returns the counters of the server of this name.
    fn upstream(&self, name: &str) -> UpstreamCounts;
}

/// The outcome of an attempt to call a tool of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamOutcome {
    /// The server returned a result.
    Ok,
    /// The server reported that the tool failed.
    Error,
    /// The connection was lost, or the response was invalid.
    Failed,
    /// The call was not sent, because the server is unavailable or the tool is quarantined.
    Unavailable,
    /// The call timed out or was cancelled.
    GivenUp,
}

impl UpstreamOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Error, Self::Failed, Self::Unavailable, Self::GivenUp];

    /// Returns the value of the label `outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::GivenUp => "given_up",
        }
    }
}

/// The counters of a server. A server that is declared again with the same name continues them.
#[derive(Debug)]
pub struct UpstreamCounts {
    /// The calls by their outcome, in the order of [`UpstreamOutcome::ALL`].
    pub calls: [Counter; UpstreamOutcome::ALL.len()],
    /// Restarts of the server.
    pub restarts: Counter,
    /// Errors of the server itself.
    pub errors: Counter,
}

impl UpstreamCounts {
    /// Starts counting a call. A call that is dropped without an outcome counts as given up.
    #[must_use]
    pub fn call(&self) -> UpstreamCall<'_> {
        UpstreamCall { counts: self, outcome: UpstreamOutcome::GivenUp }
    }
}

/// A call in progress, which is counted when it is dropped.
#[derive(Debug)]
pub struct UpstreamCall<'c> {
    counts: &'c UpstreamCounts,
    outcome: UpstreamOutcome,
}

impl UpstreamCall<'_> {
    /// Ends the call with an outcome.
    pub fn ended(mut self, outcome: UpstreamOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for UpstreamCall<'_> {
    fn drop(&mut self) {
        // The order is that of `ALL`.
        if let Some(counter) = self.counts.calls.get(self.outcome as usize) {
            counter.increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_order() {
        for (number, outcome) in UpstreamOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number);
        }
    }
}
