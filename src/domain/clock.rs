//! The one way in for time and identity, so that tests decide both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::Time;
use super::moment::{Moment, Tick};

/// Tells the wall-clock time, and measures durations by a clock that never jumps. Cheap to clone; all clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<TimeSource>);

#[derive(Debug)]
enum TimeSource {
    /// The machine's clocks; the monotonic one is counted from here.
    System(Instant),
    Manual {
        wall: AtomicI64,
        ticks: AtomicU64,
    },
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(TimeSource::System(Instant::now())))
    }

    /// A clock that stands still until [`Clock::advance_ms`] or [`Clock::jump_ms`] moves it.
    #[must_use]
    pub fn manual(start: Time) -> Self {
        Self(Arc::new(TimeSource::Manual { wall: AtomicI64::new(start.0), ticks: AtomicU64::new(0) }))
    }

    /// The time now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Time {
        match &*self.0 {
            TimeSource::System(_) => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
            }
            TimeSource::Manual { wall, .. } => Time(wall.load(Ordering::Relaxed)),
        }
    }

    /// The time now, and what the monotonic clock says, for a duration that begins or ends now.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let micros = match &*self.0 {
            TimeSource::System(origin) => u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX),
            TimeSource::Manual { ticks, .. } => ticks.load(Ordering::Relaxed),
        };
        Moment { at: self.now(), tick: Some(Tick::after_micros(micros)) }
    }

    /// Lets time pass on a manual clock; the machine's clock is left alone.
    pub fn advance_ms(&self, millis: i64) {
        if let TimeSource::Manual { wall, ticks } = &*self.0 {
            wall.fetch_add(millis * 1000, Ordering::Relaxed);
            ticks.fetch_add(millis.unsigned_abs() * 1000, Ordering::Relaxed);
        }
    }

    /// Sets a manual wall clock forward or back while no time passes, as an operator or NTP does.
    pub fn jump_ms(&self, millis: i64) {
        if let TimeSource::Manual { wall, .. } = &*self.0 {
            wall.fetch_add(millis * 1000, Ordering::Relaxed);
        }
    }
}

/// Makes the ids of calls and batches: UUIDv7 (RFC 9562, section 5.7), increasing within one process.
#[derive(Clone, Debug)]
pub struct IdGenerator(Arc<IdSource>);

#[derive(Debug)]
enum IdSource {
    Random,
    Counted(AtomicU64),
}

impl IdGenerator {
    /// Ids from the machine's clock and randomness.
    #[must_use]
    pub fn random() -> Self {
        Self(Arc::new(IdSource::Random))
    }

    /// Predictable ids for tests: version 7, counted up from 1.
    #[must_use]
    pub fn counted() -> Self {
        Self(Arc::new(IdSource::Counted(AtomicU64::new(0))))
    }

    /// The next id.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    pub fn next(&self) -> Uuid {
        match &*self.0 {
            IdSource::Random => Uuid::now_v7(),
            IdSource::Counted(last) => {
                let number = last.fetch_add(1, Ordering::Relaxed) + 1;
                Uuid::from_u128((0x7 << 76) | (0x2 << 62) | u128::from(number))
            }
        }
    }
}
