//! Limits of a caller: requests per minute, concurrent requests and event streams. Each node counts separately.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::domain::Tenant;
use crate::domain::idempotency::hash;
use crate::store::keys::StoredKey;

/// Number of callers above which idle callers are removed.
const SWEEP_ABOVE: usize = 10_000;
/// Time without requests after which all counts are back at their initial value.
const IDLE: Duration = Duration::from_secs(60);
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
    /// Invalid keys and tokens of one address in a minute.
    pub failures: u32,
}

/// A permit for one concurrent request or stream, released when it is dropped.
pub type Permit = OwnedSemaphorePermit;

/// A caller has exceeded one of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
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
    rate: Option<Limiter>,
    permits: Option<Arc<Semaphore>>,
    streams: Option<Arc<Semaphore>>,
}

impl Limits {
    pub(super) fn new(bounds: Bounds, streams: usize) -> Self {
        let rate = NonZeroU32::new(bounds.0);
        let semaphore = |max: usize| (max > 0).then(|| Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))));
        Self {
            rate: rate.map(|rate| RateLimiter::direct(Quota::per_minute(rate))),
            permits: semaphore(bounds.1 as usize),
            streams: semaphore(streams),
        }
    }

    /// Acquires a permit for an event stream, or `None` if streams are not limited.
    ///
    /// # Errors
    /// Returns an error if the caller has too many open streams.
    pub fn stream(&self) -> Result<Option<Permit>, LimitExceeded> {
        acquire(self.streams.as_ref(), "too many open event streams of this caller")
    }

    /// Counts a request and acquires its permit, or `None` if concurrency is not limited.
    ///
    /// # Errors
    /// Returns an error if the rate or the concurrency limit is exceeded.
    pub fn admit(&self) -> Result<Option<Permit>, LimitExceeded> {
        let permit = acquire(self.permits.as_ref(), "too many concurrent requests of this caller")?;
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

/// Acquires a permit, or `None` if the number is not limited.
fn acquire(semaphore: Option<&Arc<Semaphore>>, what: &'static str) -> Result<Option<Permit>, LimitExceeded> {
    let permit = semaphore.map(|semaphore| semaphore.clone().try_acquire_owned()).transpose();
    permit.map_err(|_| LimitExceeded { what, retry_after_s: RETRY_AFTER_S })
}

/// The limits of all callers that have sent a request. They outlive the cached keys, so that a change of another key
/// resets no count.
#[derive(Debug)]
pub(super) struct LimitTable {
    defaults: Defaults,
    known: Mutex<KnownCallers>,
}

#[derive(Debug)]
struct KnownCallers {
    /// Keyed by a hash of the caller and its limits, because the name of a subject can be long.
    limits: HashMap<[u8; 32], (Arc<Limits>, Instant)>,
    /// The number of callers at which idle callers are removed next.
    sweep_at: usize,
}

impl LimitTable {
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, known: Mutex::new(KnownCallers { limits: HashMap::new(), sweep_at: SWEEP_ABOVE }) }
    }

    /// Returns the limits of a key.
    pub fn of_key(&self, key: &StoredKey) -> Arc<Limits> {
        let Defaults { rate, concurrency, .. } = self.defaults;
        self.get_or_insert(&[key.id.as_bytes()], (key.rate.unwrap_or(rate), key.concurrency.unwrap_or(concurrency)))
    }

    /// Returns the limits of the subject of an issuer's tokens, which belongs to a tenant and may have several tokens.
    /// Tokens of one subject with different limits are counted separately, so that alternating between them resets no
    /// count.
    pub fn of_subject(&self, tenant: &Tenant, subject: &str, bounds: Bounds) -> Arc<Limits> {
        self.get_or_insert(&[tenant.as_str().as_bytes(), subject.as_bytes()], bounds)
    }

    fn get_or_insert(&self, caller: &[&[u8]], bounds: Bounds) -> Arc<Limits> {
        let (rate, concurrency) = (bounds.0.to_le_bytes(), bounds.1.to_le_bytes());
        let id = hash(&[caller, &[&rate[..], &concurrency[..]]].concat());
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.limits.len() >= known.sweep_at {
            // Limits in use have further references.
            known.limits.retain(|_, (limits, at)| Arc::strong_count(limits) > 1 || now.duration_since(*at) < IDLE);
            known.sweep_at = SWEEP_ABOVE.max(2 * known.limits.len());
        }
        let new = || (Arc::new(Limits::new(bounds, self.defaults.streams)), now);
        let (limits, at) = known.limits.entry(id).or_insert_with(new);
        *at = now;
        limits.clone()
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

    #[tokio::test(start_paused = true)]
    async fn subject_is_counted_per_tenant_and_removed_when_idle() {
        let subjects = LimitTable::new(Defaults::default());
        let (one, other) = (Tenant::stored("one"), Tenant::stored("other"));
        let mine = subjects.of_subject(&one, "me", (1, 0));
        assert!(mine.admit().is_ok());
        assert!(subjects.of_subject(&one, "me", (1, 0)).admit().is_err());
        assert!(subjects.of_subject(&one, "you", (1, 0)).admit().is_ok());
        assert!(subjects.of_subject(&other, "me", (1, 0)).admit().is_ok());
        assert!(subjects.of_subject(&one, "me", (2, 0)).admit().is_ok(), "the token sets other limits");
        for n in 0..SWEEP_ABOVE {
            subjects.of_subject(&one, &n.to_string(), (1, 0));
        }
        assert!(subjects.of_subject(&one, "me", (1, 0)).admit().is_err(), "the subject has sent a request recently");
        tokio::time::advance(IDLE).await;
        for n in 0..=2 * SWEEP_ABOVE {
            subjects.of_subject(&other, &n.to_string(), (1, 0));
        }
        let known = subjects.known.lock().unwrap();
        assert!(known.limits.len() <= 2 * SWEEP_ABOVE + 2, "{}", known.limits.len());
        drop(known);
        assert!(Arc::ptr_eq(&subjects.of_subject(&one, "me", (1, 0)), &mine), "the limits are in use");
    }
}
