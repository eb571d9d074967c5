//! Measurement of the time that a call waits and runs, with the monotonic clock, because the wall clock can jump.
//!
//! The monotonic clock does not span a restart. A duration that begins in one process and ends in another is estimated:
//! it is the difference of the timestamps, but at least the time that this process has measured since it resumed the
//! call. The estimate of a run is at most that time plus the timeouts of the earlier attempts.

use serde::{Deserialize, Serialize};

use super::super::Limits;
use super::super::time::{Moment, Tick, Time};

/// The names of the durations in `metadata.estimated`.
const QUEUED: &str = "queued_ms";
const DURATION: &str = "duration_ms";

/// The measured durations of a stored call, in milliseconds. A duration is present only if it differs from the
/// timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// From acceptance to the start of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// From the start of the tool to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The monotonic readings and measured durations of a call, in microseconds.
#[derive(Clone, Copy, Default)]
pub struct Stopwatch {
    /// The acceptance, if it happened in this process.
    accepted: Option<Tick>,
    /// The start of the tool, if it happened in this process.
    started: Option<Tick>,
    /// The time at which this process resumed a call that another process accepted.
    resumed: Option<Tick>,
    /// The number of attempts that other processes had started by then.
    attempts_before: u32,
    /// The time that the call waited, once it is known.
    pub(super) queued: Option<u64>,
    /// The time that the call ran, once it is known.
    pub(super) ran: Option<u64>,
}

/// Omits the readings, because they are meaningless outside of this process.
impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Stopwatch")
    }
}

impl Stopwatch {
    pub(super) fn accepted(now: Moment) -> Self {
        Self { accepted: now.tick, ..Self::default() }
    }

    /// Creates the stopwatch of a call that was read from the database.
    #[must_use]
    pub fn stored(measured: Measured) -> Self {
        let micros = |ms: Option<u64>| ms.map(|ms| ms.saturating_mul(1000));
        Self { queued: micros(measured.queued_ms), ran: micros(measured.duration_ms), ..Self::default() }
    }

    /// Starts the measurement in this process for a call that was read from the database.
    pub(super) fn resume(&mut self, now: Moment, attempts: u32) {
        (self.resumed, self.attempts_before) = (now.tick, attempts);
    }

    /// Returns the time that the call has waited.
    pub(super) fn waited(&self, created_at: Time, now: Moment) -> u64 {
        let waited = now.micros_since(Moment { at: created_at, tick: self.accepted });
        waited.max(self.since_resumed(now).unwrap_or(0))
    }

    pub(super) fn start(&mut self, created_at: Time, now: Moment) {
        self.started = now.tick;
        self.queued = Some(self.waited(created_at, now));
    }

    /// Ends the measurement. `started_at` is `None` if the tool never ran.
    pub(super) fn end(&mut self, created_at: Time, started_at: Option<Time>, limits: Option<&Limits>, now: Moment) {
        let Some(started_at) = started_at else {
            (self.queued, self.ran) = (Some(self.waited(created_at, now)), None);
            return;
        };
        let ran = now.micros_since(Moment { at: started_at, tick: self.started });
        self.ran = Some(match self.since_resumed(now).filter(|_| self.started.is_none()) {
            None => ran,
            Some(here) => {
                let allowed_ms =
                    limits.map_or(0, |limits| limits.timeout_ms).saturating_mul(self.attempts_before.into());
                ran.clamp(here, here.saturating_add(allowed_ms.saturating_mul(1000)))
            }
        });
    }

    fn since_resumed(&self, now: Moment) -> Option<u64> {
        Some(now.tick?.micros_since(self.resumed?))
    }

    /// Returns the name of the duration that spans a restart.
    pub(super) fn estimated(&self, started_at: Option<Time>) -> Option<&'static str> {
        // The process that started the tool measured the waiting time.
        let is_measured = started_at.is_some() && self.started.is_none();
        self.resumed.map(|_| if is_measured { DURATION } else { QUEUED })
    }
}
