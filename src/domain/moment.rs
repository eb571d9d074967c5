//! Readings of both clocks: the wall clock for timestamps, and the monotonic clock for durations.

use std::num::NonZeroU64;

use super::Time;

/// A reading of this process's monotonic clock, in microseconds. It is meaningless in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(NonZeroU64);

impl Tick {
    /// Returns the reading `micros` microseconds after the creation of the clock.
    #[must_use]
    pub fn after_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Returns the microseconds from `earlier` to `self`.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

/// A simultaneous reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall-clock time, which can jump.
    pub at: Time,
    /// The monotonic reading; `None` for a moment that another process recorded.
    pub tick: Option<Tick>,
}

impl From<Time> for Moment {
    fn from(at: Time) -> Self {
        Self { at, tick: None }
    }
}

impl Moment {
    /// Returns the microseconds from `earlier` to `self`, at least 0. Uses the monotonic clock if both readings have
    /// it, and otherwise the wall clock.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        match (self.tick, earlier.tick) {
            (Some(now), Some(then)) => now.micros_since(then),
            _ => u64::try_from(self.at.0.saturating_sub(earlier.at.0)).unwrap_or(0),
        }
    }
}
