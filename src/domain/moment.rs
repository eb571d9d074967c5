//! Moments on two clocks: the wall clock says when something happened, and the monotonic clock how long it took.

use std::num::NonZeroU64;

use super::Time;

/// A reading of this process's monotonic clock, in microseconds. It means nothing to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(NonZeroU64);

impl Tick {
    /// The reading at so many microseconds after the clock was created.
    #[must_use]
    pub fn after_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Microseconds from `earlier` to `self`.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

/// A moment, read from both clocks at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock's time. It may jump.
    pub at: Time,
    /// The monotonic clock's reading; `None` for a moment that another process has recorded.
    pub tick: Option<Tick>,
}

impl From<Time> for Moment {
    fn from(at: Time) -> Self {
        Self { at, tick: None }
    }
}

impl Moment {
    /// Microseconds from `earlier` to `self`, never negative: by the monotonic clock if this process has read it both
    /// times, and else by the wall clock.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        match (self.tick, earlier.tick) {
            (Some(now), Some(then)) => now.micros_since(then),
            _ => u64::try_from(self.at.0.saturating_sub(earlier.at.0)).unwrap_or(0),
        }
    }
}
