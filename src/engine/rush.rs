//! Who is taken while the database is behind: as many as it will soon have recorded, and a few more in a rush.
//!
//! A call that is taken waits for the database behind all that were taken before. If more come than can be recorded, those
//! who wait become ever more, and all of them are answered late. So beyond a bound calls are refused at once. That alone
//! would refuse part of every rush, though it would be over in a moment; so some are taken beyond it, as many a minute as
//! there is credit for. A lasting overload uses that up.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Decides whether calls are taken.
#[derive(Debug)]
pub struct Rush {
    most: usize,
    credit: Option<DefaultDirectRateLimiter>,
}

impl Rush {
    /// So many may wait to be recorded, 0 for any number; `burst` a minute are taken beyond that.
    #[must_use]
    pub fn new(most: usize, burst: u32) -> Self {
        let most = if most == 0 { usize::MAX } else { most };
        let credit = NonZeroU32::new(burst).map(|burst| RateLimiter::direct(Quota::per_minute(burst)));
        Self { most, credit }
    }

    /// Whether so many more calls are taken while others wait. A request that is larger than the bound is taken if nobody
    /// waits.
    pub(super) fn takes(&self, calls: usize, waiting: usize) -> bool {
        let beyond = waiting.saturating_add(calls).saturating_sub(self.most);
        if beyond == 0 || waiting == 0 {
            return true;
        }
        let Some(credit) = &self.credit else { return false };
        let beyond = u32::try_from(beyond.min(calls)).ok().and_then(NonZeroU32::new);
        beyond.is_some_and(|beyond| matches!(credit.check_n(beyond), Ok(Ok(()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_the_bound_all_are_taken_and_beyond_it_none() {
        let rush = Rush::new(4, 0);
        assert!(rush.takes(1, 0) && rush.takes(1, 3) && rush.takes(2, 2));
        assert!(!rush.takes(1, 4) && !rush.takes(2, 3) && !rush.takes(1, 5000));
        assert!(rush.takes(1, 3), "it is over");
    }

    #[test]
    fn a_rush_is_taken_and_not_what_lasts() {
        let rush = Rush::new(4, 3);
        assert!((4..7).all(|waiting| rush.takes(1, waiting)));
        assert!(!rush.takes(1, 7) && !rush.takes(1, 4));
        assert!(rush.takes(1, 3));
    }

    #[test]
    fn a_large_request_is_taken_alone_and_pays_for_what_of_it_is_beyond() {
        let rush = Rush::new(4, 10);
        assert!(rush.takes(100, 0) && !rush.takes(100, 1));
        assert!(rush.takes(8, 4) && !rush.takes(3, 4) && rush.takes(2, 4));
    }

    #[test]
    fn without_a_bound_all_are_taken() {
        assert!(Rush::new(0, 0).takes(1024, 1_000_000));
    }
}
