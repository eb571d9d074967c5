//! Selection of the callbacks to attempt next, so that a slow receiver does not delay other receivers.

use std::collections::HashMap;
use std::sync::Arc;

use toolpost_store::store::callbacks::{DueCallback, ExcludedTargets};

/// Maximum number of concurrent attempts.
pub const SLOTS: usize = 64;
/// Maximum number of concurrent retries; the other slots are reserved for first attempts.
const RETRIES: usize = SLOTS / 2;
/// Maximum number of concurrent attempts to one host and to one URL. A receiver that hangs blocks no more slots, and
/// leaves slots for other URLs of its host.
const PER_HOST: usize = 8;
const PER_URL: usize = 4;
/// Maximum size of the calls in flight, in bytes; a larger call is sent alone.
const BYTES: usize = 128 * 1024 * 1024;

/// The occupied slots.
#[derive(Debug, Default)]
pub struct Slots {
    occupied: usize,
    retries: usize,
    bytes: usize,
    hosts: HashMap<Arc<str>, usize>,
    urls: HashMap<Arc<str>, usize>,
}

impl Slots {
    /// Returns the slots that these attempts and `idle` others occupy.
    pub fn occupied_by<'a>(running: impl Iterator<Item = &'a DueCallback>, idle: usize) -> Self {
        let mut slots = Self { occupied: idle, ..Self::default() };
        // An attempt in flight is already counted in `attempts`.
        running.for_each(|due| slots.occupy(due, due.attempts > 1));
        slots
    }

    /// Returns `true` if all slots are occupied.
    pub fn are_full(&self) -> bool {
        self.occupied >= SLOTS
    }

    /// Returns the targets that have no free slot, which a query can exclude.
    pub fn busy(&self) -> ExcludedTargets {
        let full = |counts: &HashMap<Arc<str>, usize>, max| {
            counts.iter().filter(|(_, count)| **count >= max).map(|(key, _)| key.clone()).collect()
        };
        ExcludedTargets {
            hosts: full(&self.hosts, PER_HOST),
            urls: full(&self.urls, PER_URL),
            retries: self.retries >= RETRIES,
        }
    }

    /// Selects due callbacks that have a free slot and occupies it. First attempts come first, then the host with the
    /// fewest attempts in flight, then the URL.
    pub fn choose(&mut self, mut due: Vec<DueCallback>) -> Vec<DueCallback> {
        let mut chosen = Vec::new();
        loop {
            let fitting = due.iter().enumerate().filter(|(_, one)| self.has_slot_for(one));
            let best = fitting.min_by_key(|(index, one)| {
                (is_retry(one), count(&self.hosts, &one.host), count(&self.urls, &one.url), *index)
            });
            let Some((index, _)) = best else { return chosen };
            let one = due.remove(index);
            self.occupy(&one, is_retry(&one));
            chosen.push(one);
        }
    }

    fn has_slot_for(&self, due: &DueCallback) -> bool {
        let is_out = self.are_full() || is_retry(due) && self.retries >= RETRIES;
        !is_out
            && count(&self.hosts, &due.host) < PER_HOST
            && count(&self.urls, &due.url) < PER_URL
            && (self.bytes == 0 || self.bytes + due.bytes <= BYTES)
    }

    fn occupy(&mut self, due: &DueCallback, is_retry: bool) {
        self.occupied += 1;
        self.retries += usize::from(is_retry);
        self.bytes += due.bytes;
        *self.hosts.entry(due.host.clone()).or_default() += 1;
        *self.urls.entry(due.url.clone()).or_default() += 1;
    }
}

fn is_retry(due: &DueCallback) -> bool {
    due.attempts > 0
}

fn count(counts: &HashMap<Arc<str>, usize>, key: &Arc<str>) -> usize {
    counts.get(key).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn due(host: &str, path: &str, attempts: u32) -> DueCallback {
        let url = format!("http://{host}/{path}").into();
        DueCallback {
            call_id: Uuid::nil(),
            url,
            host: host.into(),
            event_id: Uuid::nil(),
            attempts,
            lost: 0,
            bytes: 1000,
            has_body: false,
        }
    }

    fn urls(chosen: &[DueCallback]) -> Vec<&str> {
        chosen.iter().map(|due| &*due.url).collect()
    }

    #[test]
    fn slow_url_delays_no_other_url_or_host() {
        let mut slots = Slots::default();
        let mut all = vec![due("bad", "hangs", 0); 500];
        all.extend([due("bad", "good", 0), due("good", "x", 0)]);
        let chosen = slots.choose(all);
        let of = |url: &str| urls(&chosen).iter().filter(|found| **found == url).count();
        assert_eq!((of("http://bad/hangs"), of("http://bad/good"), of("http://good/x")), (4, 1, 1));
        assert_eq!(
            slots.busy(),
            ExcludedTargets { urls: vec!["http://bad/hangs".into()], ..ExcludedTargets::default() }
        );
        let more = slots.choose((0..500).map(|n| due("bad", &n.to_string(), 0)).collect());
        assert_eq!((more.len(), slots.busy().hosts), (3, vec!["bad".into()]));
        assert_eq!(slots.choose(vec![due("bad", "good", 0), due("third", "x", 0)]).len(), 1);
    }

    #[test]
    fn retries_leave_half_of_the_slots_to_first_attempts() {
        let mut slots = Slots::default();
        let failed = (0..200).map(|n| due(&format!("h{n}"), "x", 3)).collect();
        assert_eq!(slots.choose(failed).len(), RETRIES);
        assert!(slots.busy().retries && !slots.are_full());
        let first = (0..200).map(|n| due(&format!("n{n}"), "x", 0)).collect();
        assert_eq!(slots.choose(first).len(), SLOTS - RETRIES);
        assert!(slots.are_full());
    }

    #[test]
    fn last_slot_goes_to_the_least_busy_host() {
        let running: Vec<DueCallback> = (0..SLOTS - 1).map(|n| due(&format!("h{}", n % 9), "x", 1)).collect();
        let mut slots = Slots::occupied_by(running.iter(), 0);
        assert_eq!(slots.retries, 0, "first attempts in flight");
        let chosen = slots.choose(vec![due("new", "x", 2), due("h0", "y", 0), due("other", "x", 0)]);
        assert_eq!(urls(&chosen), ["http://other/x"]);
        assert!(Slots::occupied_by(running.iter(), 1).are_full());
    }

    #[test]
    fn memory_is_bounded_and_an_oversized_call_is_sent_alone() {
        let large = |host: &str, bytes| DueCallback { bytes, ..due(host, "x", 0) };
        let mut slots = Slots::default();
        assert_eq!(slots.choose(vec![large("a", BYTES * 2), large("b", 1)]).len(), 1);
        let mut slots = Slots::default();
        let chosen = slots.choose(vec![large("a", BYTES / 2), large("b", BYTES / 2), large("c", 1)]);
        assert_eq!(urls(&chosen), ["http://a/x", "http://b/x"]);
    }
}
