//! Limits of a caller: requests per minute, concurrent requests and event streams. Each node counts separately.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::store::keys::StoredKey;

/// Number of keys above which the counts of unused keys are removed.
const MOST_IDLE: usize = 10_000;
/// Seconds after which a caller above a concurrency limit may retry.
const RETRY_AFTER_S: u64 = 1;

/// Default limits of keys; 0 means unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    /// Requests per minute.
    pub rate: u32,
    /// Concurrent requests.
    pub concurrency: u32,
    /// Concurrent event streams of any key or subject.
    pub streams: usize,
}

/// A permit for one concurrent request or stream, released when it is dropped.
pub type Permit = OwnedSemaphorePermit;

/// A caller has exceeded one of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitExceeded {
    /// The exceeded limit, as text.
    pub what: &'static str,
    /// Seconds after which the caller may retry.
    pub retry_after_s: u64,
}

type Limiter = governor::DefaultDirectRateLimiter;

/// Requests per minute and concurrent requests; 0 means unlimited.
pub(super) type Bounds = (u32, u32);

/// The limits of one caller and their current use.
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
        let semaphore = |most: usize| (most > 0).then(|| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        Self {
            bounds,
            rate: rate.map(|rate| RateLimiter::direct(Quota::per_minute(rate))),
            permits: semaphore(bounds.1 as usize),
            streams: semaphore(streams),
        }
    }

    /// Creates limits that are never exceeded.
    pub(super) fn unbounded() -> Self {
        Self::new((0, 0), 0)
    }

    /// Acquires a permit for an event stream, or `None` if streams are not limited.
    ///
    /// # Errors
    /// Returns an error if the caller has too many open streams.
    pub fn stream(&self) -> Result<Option<Permit>, LimitExceeded> {
        let busy = LimitExceeded { what: "too many open event streams of this caller", retry_after_s: RETRY_AFTER_S };
        self.streams.clone().map(|streams| streams.try_acquire_owned().map_err(|_| busy)).transpose()
    }

    /// Returns `true` if a request or a stream of the caller is open.
    pub(super) fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Counts a request and acquires its permit, or `None` if concurrency is not limited.
    ///
    /// # Errors
    /// Returns an error if the rate or the concurrency limit is exceeded.
    pub fn admit(&self) -> Result<Option<Permit>, LimitExceeded> {
        let permit = match &self.permits {
            Some(semaphore) => {
                let busy =
                    LimitExceeded { what: "too many concurrent requests of this caller", retry_after_s: RETRY_AFTER_S };
                Some(semaphore.clone().try_acquire_owned().map_err(|_| busy)?)
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

/// The limits of all keys that were used. They outlive the cached keys, so that a change of another key resets no
/// count.
#[derive(Debug)]
pub(super) struct AllLimits {
    defaults: Defaults,
    keys: Mutex<HashMap<Uuid, Arc<Limits>>>,
}

impl AllLimits {
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, keys: Mutex::default() }
    }

    /// Returns the limits of a key.
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

    /// Removes the limits of unused keys if there are too many.
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
    fn key_without_limits_is_unlimited() {
        let limits = Limits::new((0, 0), 0);
        assert!((0..1000).all(|_| limits.admit().unwrap().is_none() && limits.stream().unwrap().is_none()));
    }

    #[test]
    fn exceeded_limit_returns_the_retry_delay() {
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
