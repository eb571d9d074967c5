//! Counters of hook runs since the start of this node.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

use toolpost_core::domain::HookEvent;

/// The outcome of running a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutcome {
    /// The hook succeeded and did not block.
    Ok,
    /// The hook blocked the call.
    Blocked,
    /// The hook failed.
    Failed,
    /// The hook timed out.
    Timeout,
    /// The response of the hook was invalid.
    Unreadable,
    /// The hook was not run, because too many notifications waited.
    Dropped,
}

impl HookOutcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [Self::Ok, Self::Blocked, Self::Failed, Self::Timeout, Self::Unreadable, Self::Dropped];

    /// Returns the label value used in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Unreadable => "unreadable",
            Self::Dropped => "dropped",
        }
    }
}

/// Counters of one node, or of one hook on it. They never decrease.
#[derive(Debug, Default)]
pub struct Counts {
    invocations: AtomicU64,
    /// Runs by event and outcome.
    ended: [[AtomicU64; HookOutcome::ALL.len()]; HookEvent::ALL.len()],
}

/// The counters of a hook that callers see.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct HookCounts {
    /// Number of runs on this node since its start.
    #[serde(rename = "asked_count")]
    invocation_count: u64,
    /// Number of these runs that failed or timed out.
    failed_count: u64,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HookCounts { invocation_count: self.invocations(), failed_count: self.failed() }.serialize(serializer)
    }
}

impl Counts {
    /// Returns the number of hook runs.
    #[must_use]
    pub fn invocations(&self) -> u64 {
        self.invocations.load(Ordering::Relaxed)
    }

    /// Returns the number of runs that failed or timed out.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total(HookOutcome::Failed) + self.total(HookOutcome::Timeout) + self.total(HookOutcome::Unreadable)
    }

    /// Returns the number of calls blocked by a hook.
    #[must_use]
    pub fn blocked(&self) -> u64 {
        self.total(HookOutcome::Blocked)
    }

    /// Returns the number of after-hooks that were not run, because too many notifications waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.total(HookOutcome::Dropped)
    }

    /// Returns the number of runs with this event and outcome.
    #[must_use]
    pub fn ended(&self, event: HookEvent, outcome: HookOutcome) -> u64 {
        self.ended[event as usize][outcome as usize].load(Ordering::Relaxed)
    }

    fn total(&self, outcome: HookOutcome) -> u64 {
        HookEvent::ALL.into_iter().map(|event| self.ended(event, outcome)).sum()
    }

    pub(super) fn count_invocation(&self) {
        self.invocations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a run, and returns the number of runs with this event and outcome.
    pub(super) fn count_ended(&self, event: HookEvent, outcome: HookOutcome) -> u64 {
        self.ended[event as usize][outcome as usize].fetch_add(1, Ordering::Relaxed) + 1
    }
}
