//! How long a call waited and ran. Both are measured with the monotonic clock, since the wall clock may jump.
//!
//! No clock is monotonic across a restart. A duration that begins in one process and ends in another is estimated: the
//! difference of the timestamps, but at least the time that this process has measured itself since it resumed the call, and
//! for a run at most that plus the time that the attempts before were allowed.

use super::super::moment::{Moment, Tick};
use super::super::{Limits, Time};
use super::Measured;

/// Names of the durations in `metadata.estimated`.
const QUEUED: &str = "queued_ms";
const DURATION: &str = "duration_ms";

/// The monotonic side of a call's timestamps, and what was measured. Times are in microseconds.
#[derive(Clone, Copy, Default)]
pub struct Stopwatch {
    /// When it was accepted, if this process did it.
    accepted: Option<Tick>,
    /// When its tool started, if this process started it.
    started: Option<Tick>,
    /// When this process resumed it, if another one has accepted it.
    resumed: Option<Tick>,
    /// How many attempts others had begun by then.
    attempts_before: u32,
    /// How long it waited, once that is known.
    pub(super) queued: Option<u64>,
    /// How long it ran, once that is known.
    pub(super) ran: Option<u64>,
}

/// Shows nothing: its readings mean nothing outside of this process.
impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Stopwatch")
    }
}

impl Stopwatch {
    pub(super) fn accepted(now: Moment) -> Self {
        Self { accepted: now.tick, ..Self::default() }
    }

    /// A stopwatch of a call that is read back.
    #[must_use]
    pub fn stored(measured: Measured) -> Self {
        let micros = |ms: Option<u64>| ms.map(|ms| ms.saturating_mul(1000));
        Self { queued: micros(measured.queued_ms), ran: micros(measured.duration_ms), ..Self::default() }
    }

    /// This process goes on with a call that was read back.
    pub(super) fn resume(&mut self, now: Moment, attempts: u32) {
        (self.resumed, self.attempts_before) = (now.tick, attempts);
    }

    /// How long it has waited so far.
    pub(super) fn waited(&self, created_at: Time, now: Moment) -> u64 {
        let waited = now.micros_since(Moment { at: created_at, tick: self.accepted });
        waited.max(self.since_resumed(now).unwrap_or(0))
    }

    pub(super) fn start(&mut self, created_at: Time, now: Moment) {
        self.started = now.tick;
        self.queued = Some(self.waited(created_at, now));
    }

    /// It has ended, after a run that started then, if there was one.
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

    /// Which of its durations span a restart.
    pub(super) fn estimated(&self, started_at: Option<Time>) -> Vec<&'static str> {
        if self.resumed.is_none() {
            return Vec::new();
        }
        match (started_at, self.started) {
            // How long it waited was measured by the process that started it.
            (Some(_), None) => vec![DURATION],
            _ => vec![QUEUED],
        }
    }
}
