//! Failed attempts to authenticate, counted by client address, so that nobody can try keys without end.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use super::LimitExceeded;
use crate::domain::{Clock, Time};

/// The time over which failures are counted, from the first one on, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Maximum number of addresses that are counted. Further ones replace the addresses whose windows have ended, or else
/// those with the fewest failures.
const MAX_ADDRESSES: usize = 10_000;

/// The failures of one address.
#[derive(Debug, Clone, Copy)]
struct Count {
    since: Time,
    failed: u32,
}

/// The failures of all addresses, on this node.
#[derive(Debug)]
pub(super) struct Failures {
    clock: Clock,
    /// Failures of one address in a minute after which further attempts are refused; 0 means unlimited.
    max: u32,
    counts: Mutex<HashMap<IpAddr, Count>>,
}

impl Failures {
    pub fn new(clock: Clock, max: u32) -> Self {
        Self { clock, max, counts: Mutex::default() }
    }

    /// Returns a refusal if the address has failed too often.
    pub fn refusal(&self, address: IpAddr) -> Option<LimitExceeded> {
        if self.max == 0 {
            return None;
        }
        let now = self.clock.now();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&network(address)).filter(|count| is_open(count, now) && count.failed >= self.max)?;
        let retry_after_s = count.since.plus_millis(WINDOW_MS).millis_since(now).div_ceil(1000).max(1);
        Some(LimitExceeded { what: "too many invalid keys from this address; try again later", retry_after_s })
    }

    /// Counts a failure.
    pub fn record(&self, address: IpAddr) {
        if self.max == 0 {
            return;
        }
        let (now, address) = (self.clock.now(), network(address));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        // An address that is counted already must not lose its own count.
        let is_new = !counts.contains_key(&address);
        if is_new && counts.len() >= MAX_ADDRESSES {
            counts.retain(|_, count| is_open(count, now));
        }
        if is_new
            && counts.len() >= MAX_ADDRESSES
            && let Some(fewest) = counts.iter().min_by_key(|(_, count)| count.failed).map(|(address, _)| *address)
        {
            counts.remove(&fewest);
        }
        let count = counts.entry(address).or_insert(Count { since: now, failed: 0 });
        if !is_open(count, now) {
            *count = Count { since: now, failed: 0 };
        }
        count.failed = count.failed.saturating_add(1);
    }
}

/// Returns `true` while failures are added to this count. A clock that was set back ends it as well.
fn is_open(count: &Count, now: Time) -> bool {
    (count.since..count.since.plus_millis(WINDOW_MS)).contains(&now)
}

/// Returns the address, or the /64 network of an IPv6 address, which one client usually has for itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures() -> (Failures, Clock) {
        let clock = Clock::manual(Time(1_000_000));
        (Failures::new(clock.clone(), 10), clock)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn address_with_ten_failures_is_rejected_for_a_minute() {
        let (failures, clock) = failures();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        for _ in 0..10 {
            assert_eq!(failures.refusal(one), None);
            failures.record(one);
            clock.advance_ms(1000);
        }
        assert_eq!(failures.refusal(one).unwrap().retry_after_s, 50);
        assert_eq!(failures.refusal(other), None);
        clock.advance_ms(49_999);
        assert_eq!(failures.refusal(one).unwrap().retry_after_s, 1);
        clock.advance_ms(1);
        assert_eq!(failures.refusal(one), None);
        failures.record(one);
        assert_eq!(failures.refusal(one), None, "a new minute has begun");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let (failures, _) = failures();
        for last in 0..10 {
            failures.record(address(&format!("2001:db8::{last}")));
            failures.record(address(&format!("::ffff:192.0.2.{last}")));
        }
        assert!(failures.refusal(address("2001:db8::ff")).is_some());
        assert!(failures.refusal(address("2001:db8:0:1::1")).is_none());
        assert!(failures.refusal(address("192.0.2.1")).is_none(), "each had one failure");
    }

    #[test]
    fn memory_is_bounded_and_zero_means_unlimited() {
        let (failures, _) = failures();
        let worst = address("10.200.0.1");
        (0..10).for_each(|_| failures.record(worst));
        for number in 0..20_000_u32 {
            failures.record(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into());
        }
        assert_eq!(failures.counts.lock().unwrap().len(), MAX_ADDRESSES);
        assert!(failures.refusal(worst).is_some(), "an address with many failures is kept");
        // The table is full of addresses with one failure each.
        let last = std::net::Ipv4Addr::from_bits(0x0a00_0000 + 19_999).into();
        (0..9).for_each(|_| failures.record(last));
        assert!(failures.refusal(last).is_some(), "an address keeps its count in a full table");
        let unlimited = Failures::new(Clock::manual(Time(0)), 0);
        (0..100).for_each(|_| unlimited.record(worst));
        assert_eq!(unlimited.refusal(worst), None);
    }
}
