//! Rate limits of tools, shared by all callers.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{Quota, RateLimiter};

use crate::registry::Entry;
use toolpost_core::domain::{Call, Failure, Tenant};

/// Number of tenants above which unused counters are removed.
const MAX_UNUSED: usize = 1_000;

/// The counters of one tool name: one for the server's tool, and one for each tenant that registered a tool of this
/// name.
type Limiter = RateLimiter<Option<Tenant>, governor::state::keyed::HashMapStateStore<Option<Tenant>>, DefaultClock>;

/// The tools that have a rate limit.
#[derive(Debug, Default)]
pub struct Rates(HashMap<String, (NonZeroU32, Limiter)>);

impl Rates {
    /// Creates rate limits from the maximum number of calls per minute of each tool; 0 means no limit.
    pub fn new(rates: impl IntoIterator<Item = (String, u32)>) -> Self {
        let limiter = |rate| RateLimiter::hashmap(Quota::per_minute(rate));
        let rates = rates.into_iter().filter_map(|(name, rate)| Some((name, NonZeroU32::new(rate)?)));
        Self(rates.map(|(name, rate)| (name, (rate, limiter(rate)))).collect())
    }

    /// Counts a call.
    ///
    /// # Errors
    /// Returns the limit per minute and the time until the next call is allowed, if the limit is reached.
    fn count(&self, tool: &str, owner: Option<&Tenant>) -> Result<(), (u32, Duration)> {
        let Some((rate, limiter)) = self.0.get(tool) else { return Ok(()) };
        if limiter.len() > MAX_UNUSED {
            limiter.retain_recent();
        }
        let counted = limiter.check_key(&owner.cloned());
        counted.map_err(|not_until| (rate.get(), not_until.wait_time_from(DefaultClock::default().now())))
    }

    /// Counts a call that is about to run.
    ///
    /// # Errors
    /// Returns the [`Failure`] of the call if the rate limit of the tool is reached.
    pub(crate) fn admit(&self, call: &Call, entry: &Entry) -> Result<(), Box<Failure>> {
        self.count(&entry.name, entry.owner(&call.tenant)).map_err(|(rate, wait)| {
            let message =
                format!("Tool \"{}\" is called more than {rate} times a minute; the call was not run", entry.name);
            let wait_ms = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            let details = serde_json::json!({ "rate_per_minute": rate });
            Failure::overloaded(&message).retryable(Some(wait_ms.max(1))).with_details(details).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_and_each_tenant_has_its_own_counter() {
        let rates = Rates::new([("mail".to_owned(), 2), ("other".to_owned(), 1), ("any".to_owned(), 0)]);
        let tenant = Tenant::stored("one");
        assert!((0..2).all(|_| rates.count("mail", None).is_ok()));
        let (rate, wait) = rates.count("mail", None).unwrap_err();
        assert!(rate == 2 && wait > Duration::ZERO && wait <= Duration::from_secs(30), "{wait:?}");
        assert!(rates.count("mail", Some(&tenant)).is_ok() && rates.count("other", None).is_ok());
        assert!((0..100).all(|_| rates.count("any", None).is_ok() && rates.count("unnamed", None).is_ok()));
    }
}
