//! The one way in for time and identity, so that tests decide both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::Time;

/// Tells the wall-clock time. Cheap to clone; all clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Hands>);

#[derive(Debug)]
enum Hands {
    System,
    Manual(AtomicI64),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Hands::System))
    }

    /// A clock that stands still until [`Clock::advance_ms`] moves it.
    #[must_use]
    pub fn manual(start: Time) -> Self {
        Self(Arc::new(Hands::Manual(AtomicI64::new(start.0))))
    }

    /// The time now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> Time {
        match &*self.0 {
            Hands::System => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Time(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
            }
            Hands::Manual(at) => Time(at.load(Ordering::Relaxed)),
        }
    }

    /// Moves a manual clock forward; the machine's clock is left alone.
    pub fn advance_ms(&self, millis: i64) {
        if let Hands::Manual(at) = &*self.0 {
            at.fetch_add(millis * 1000, Ordering::Relaxed);
        }
    }
}

/// Makes the ids of calls and batches: UUIDv7 (RFC 9562, section 5.7), increasing within one process.
#[derive(Clone, Debug)]
pub struct Ids(Arc<Maker>);

#[derive(Debug)]
enum Maker {
    Random,
    Counted(AtomicU64),
}

impl Ids {
    /// Ids from the machine's clock and randomness.
    #[must_use]
    pub fn random() -> Self {
        Self(Arc::new(Maker::Random))
    }

    /// Predictable ids for tests: version 7, counted up from 1.
    #[must_use]
    pub fn counted() -> Self {
        Self(Arc::new(Maker::Counted(AtomicU64::new(0))))
    }

    /// The next id.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    pub fn next(&self) -> Uuid {
        match &*self.0 {
            Maker::Random => Uuid::now_v7(),
            Maker::Counted(last) => {
                let number = last.fetch_add(1, Ordering::Relaxed) + 1;
                Uuid::from_u128((0x7 << 76) | (0x2 << 62) | u128::from(number))
            }
        }
    }
}
