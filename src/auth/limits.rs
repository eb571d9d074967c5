//! How much a caller may ask: requests a minute, requests at once, and event streams. Each node counts for itself.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::store::keys::StoredKey;

/// Keys whose counts are kept at most, although nobody uses them now.
const MOST_IDLE: usize = 10_000;
/// Seconds after which whoever does too much at once may try again.
const COME_AGAIN_S: u64 = 1;

/// Bounds of keys that have none of their own; 0 is no bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    /// Requests a minute.
    pub rate: u32,
    /// Requests at once.
    pub concurrency: u32,
    /// Event streams at once, of any key or subject.
    pub streams: usize,
}

/// A request among those that a key makes at once. Dropped, the next one has its place.
pub type Permit = OwnedSemaphorePermit;

/// A caller asks more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitExceeded {
    /// What there is too much of, for people.
    pub what: &'static str,
    /// Seconds after which it may ask again.
    pub retry_after_s: u64,
}

type Limiter = governor::DefaultDirectRateLimiter;

/// Requests a minute, and at once; 0 is no bound.
pub(super) type Bounds = (u32, u32);

/// The bounds of one caller, and how far it is from them.
#[derive(Debug)]
pub struct Limits {
    bounds: Bounds,
    rate: Option<Limiter>,
    permits: Option<Arc<Semaphore>>,
    streams: Option<Arc<Semaphore>>,
}

impl Limits {
    pub(super) fn new(bounds: Bounds, streams: usize) -> Self {
        let rate = NonZeroU32::new(bounds.0);
        let places = |most: usize| (most > 0).then(|| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        Self {
            bounds,
            rate: rate.map(|rate| RateLimiter::direct(Quota::per_minute(rate))),
            permits: places(bounds.1 as usize),
            streams: places(streams),
        }
    }

    /// Limits that bound nothing.
    pub(super) fn unbounded() -> Self {
        Self::new((0, 0), 0)
    }

    /// Counts an event stream; its place is free again once the permit is dropped.
    ///
    /// # Errors
    /// If there are too many.
    pub fn stream(&self) -> Result<Option<Permit>, LimitExceeded> {
        let busy =
            LimitExceeded { what: "too many event streams of this caller are open", retry_after_s: COME_AGAIN_S };
        self.streams.clone().map(|streams| streams.try_acquire_owned().map_err(|_| busy)).transpose()
    }

    /// Whether a request or a stream of it goes on.
    pub(super) fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Counts a request; its place is free again once the permit is dropped.
    ///
    /// # Errors
    /// If there are too many.
    pub fn admit(&self) -> Result<Option<Permit>, LimitExceeded> {
        let permit = match &self.permits {
            Some(places) => {
                let busy =
                    LimitExceeded { what: "too many requests of this caller at once", retry_after_s: COME_AGAIN_S };
                Some(places.clone().try_acquire_owned().map_err(|_| busy)?)
            }
            None => None,
        };
        if let Some(Err(not_until)) = self.rate.as_ref().map(Limiter::check) {
            let wait: Duration = not_until.wait_time_from(DefaultClock::default().now());
            let retry_after_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            return Err(LimitExceeded {
                what: "too many requests of this caller",
                retry_after_s: retry_after_s.max(1),
            });
        }
        Ok(permit)
    }
}

/// The bounds of all keys that were used. They outlive what else is known of a key: a change of another key resets no count.
#[derive(Debug)]
pub(super) struct AllLimits {
    defaults: Defaults,
    keys: Mutex<HashMap<Uuid, Arc<Limits>>>,
}

impl AllLimits {
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, keys: Mutex::default() }
    }

    /// Those of a key.
    pub fn of(&self, key: &StoredKey) -> Arc<Limits> {
        let Defaults { rate, concurrency, streams } = self.defaults;
        let bounds = (key.rate.unwrap_or(rate), key.concurrency.unwrap_or(concurrency));
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.get(&key.id).filter(|limits| limits.bounds == bounds).cloned();
        known.unwrap_or_else(|| {
            let limits = Arc::new(Limits::new(bounds, streams));
            keys.insert(key.id, limits.clone());
            limits
        })
    }

    /// Forgets keys that nobody uses, where there are too many.
    pub fn forget_idle(&self) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() > MOST_IDLE {
            keys.retain(|_, limits| limits.is_in_use());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_bounds_is_not_bounded() {
        let limits = Limits::new((0, 0), 0);
        assert!((0..1000).all(|_| limits.admit().unwrap().is_none() && limits.stream().unwrap().is_none()));
    }

    #[test]
    fn too_much_at_once_and_too_often_is_refused_with_the_time_to_come_again() {
        let limits = Limits::new((0, 2), 1);
        let held = (limits.admit().unwrap(), limits.admit().unwrap());
        assert_eq!(limits.admit().unwrap_err().retry_after_s, 1);
        drop(held);
        assert!(limits.admit().is_ok());
        let stream = limits.stream().unwrap();
        assert_eq!(limits.stream().unwrap_err().retry_after_s, 1);
        drop(stream);
        assert!(limits.stream().is_ok());
        let limits = Limits::new((2, 0), 0);
        assert!(limits.admit().is_ok() && limits.admit().is_ok());
        let busy = limits.admit().unwrap_err();
        assert!((1..=30).contains(&busy.retry_after_s), "{busy:?}");
    }
}
