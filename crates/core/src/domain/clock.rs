//! The only source of time and ids, so that tests can control both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::cursor::Shard;
use super::time::{Moment, Tick, Time};

/// A source of wall-clock time and of monotonic readings for durations. Clones are cheap and share the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<TimeSource>);

#[derive(Debug)]
enum TimeSource {
    /// The clocks of the machine. Monotonic readings count from this instant.
    System(Instant),
    Manual {
        wall: AtomicI64,
        ticks: AtomicU64,
    },
}

impl Clock {
    /// Returns the clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(TimeSource::System(Instant::now())))
    }

    /// Returns a clock that only moves through [`Clock::advance_ms`] and [`Clock::jump_ms`].
    #[must_use]
    pub fn manual(start: Time) -> Self {
        Self(Arc::new(TimeSource::Manual { wall: AtomicI64::new(start.0), ticks: AtomicU64::new(0) }))
    }

    /// Returns the current wall-clock time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the machine's clock")]
    pub fn now(&self) -> Time {
        match &*self.0 {
            TimeSource::System(_) => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
            }
            TimeSource::Manual { wall, .. } => Time(wall.load(Ordering::Relaxed)),
        }
    }

    /// Returns the current time with a monotonic reading, for a duration that begins or ends now.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let micros = match &*self.0 {
            TimeSource::System(origin) => u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX),
            TimeSource::Manual { ticks, .. } => ticks.load(Ordering::Relaxed),
        };
        Moment { at: self.now(), tick: Some(Tick::after_micros(micros)) }
    }

    /// Advances a manual clock. Has no effect on the machine's clock.
    pub fn advance_ms(&self, millis: i64) {
        if let TimeSource::Manual { wall, ticks } = &*self.0 {
            wall.fetch_add(millis * 1000, Ordering::Relaxed);
            ticks.fetch_add(millis.unsigned_abs() * 1000, Ordering::Relaxed);
        }
    }

    /// Changes the wall-clock time of a manual clock without a passage of time, as an operator or NTP does.
    pub fn jump_ms(&self, millis: i64) {
        if let TimeSource::Manual { wall, .. } = &*self.0 {
            wall.fetch_add(millis * 1000, Ordering::Relaxed);
        }
    }
}

/// A generator of ids for calls and batches: UUIDv7 (RFC 9562, section 5.7), increasing within one process.
#[derive(Clone, Debug)]
pub struct IdGenerator(Arc<IdSource>);

#[derive(Debug)]
enum IdSource {
    Random,
    Counted(AtomicU64),
}

impl IdGenerator {
    /// Returns a generator that uses the machine's clock and random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(Arc::new(IdSource::Random))
    }

    /// Returns a generator of predictable ids for tests: version 7, counted from 1.
    #[must_use]
    pub fn counted() -> Self {
        Self(Arc::new(IdSource::Counted(AtomicU64::new(0))))
    }

    /// Generates the next id.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only place that generates ids")]
    pub fn next(&self) -> Uuid {
        match &*self.0 {
            IdSource::Random => Uuid::now_v7(),
            IdSource::Counted(last) => {
                let number = last.fetch_add(1, Ordering::Relaxed) + 1;
                Uuid::from_u128((0x7 << 76) | (0x2 << 62) | u128::from(number))
            }
        }
    }

    /// Generates the next id of a call of this shard.
    #[must_use]
    pub fn next_call(&self, shard: Shard) -> Uuid {
        match &*self.0 {
            IdSource::Random => shard.id_within(self.next()),
            // Keeps the numbers apart from the shard.
            IdSource::Counted(_) => {
                let number = self.next().as_u128() & u128::from(u32::MAX);
                shard.id_within(Uuid::from_u128((0x7 << 76) | (0x2 << 62) | (number << 12)))
            }
        }
    }
}
