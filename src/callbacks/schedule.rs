//! When a callback is tried, and for how long.

use std::time::Duration;

use uuid::Uuid;

use crate::domain::Time;

/// One try.
#[derive(Debug, Clone, Copy)]
pub struct AttemptTiming {
    /// From the start of the try before to the start of this one. A try that takes longer than that is followed at once.
    pub wait: Duration,
    /// How long it may take.
    pub timeout: Duration,
}

/// After the last of them, a callback is given up. The third try begins within 30 s even if the first two are never
/// answered, and the last one more than a day after the first.
///
/// | try | at the latest after the first |
/// |---|---|
/// | 2, 3 | 5 s, 20 s |
/// | 4, 5, 6 | 2 min, 10 min, 1 h |
/// | 7, 8, 9 | 4 h, 12 h, 26 h |
pub const TRIES: [AttemptTiming; 9] = [
    after(0, 10),
    after(5, 10),
    after(15, 15),
    after(100, 15),
    after(8 * 60, 15),
    after(50 * 60, 15),
    after(3 * 3600, 15),
    after(8 * 3600, 15),
    after(14 * 3600, 15),
];

/// By how much of itself a wait may be shortened, in percent, so that what failed together does not come back together.
const JITTER_PERCENT: u64 = 5;

const fn after(wait: u64, timeout: u64) -> AttemptTiming {
    AttemptTiming { wait: Duration::from_secs(wait), timeout: Duration::from_secs(timeout) }
}

/// The try of this number, counted from 1. One beyond the last is only made where a crash took the end of the last.
#[must_use]
pub fn nth(attempt: u32) -> AttemptTiming {
    let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    TRIES[place.min(TRIES.len() - 1)]
}

/// When to try again after the try at this step has failed; `None` gives up. Tries whose end was lost are no steps.
#[must_use]
pub fn next_at(event: Uuid, attempt: u32, started: Time, now: Time) -> Option<Time> {
    let wait = TRIES.get(usize::try_from(attempt).ok()?)?.wait;
    let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    let jitter = wait / 100 * i64::try_from(share(event, attempt)).unwrap_or(0) / 1000;
    Some(Time((started.0 + wait - jitter).max(now.0)))
}

/// Between 0 and [`JITTER_PERCENT`], in thousandths of a percent: always the same for one try of one event.
fn share(event: Uuid, attempt: u32) -> u64 {
    // The low half of a UUIDv7 is random; multiplying by the golden ratio spreads it over the high bits.
    let (_, low) = event.as_u64_pair();
    let mixed = (low ^ u64::from(attempt)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed % (JITTER_PERCENT * 1000 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::IdGenerator;

    const SECOND: i64 = 1_000_000;

    /// When each try begins, in microseconds after the first, if every one takes this long to fail.
    fn starts(event: Uuid, takes: impl Fn(AttemptTiming) -> i64) -> Vec<i64> {
        let (mut starts, mut at) = (vec![0], 0);
        for attempt in 1.. {
            let Some(next) = next_at(event, attempt, Time(at), Time(at + takes(nth(attempt)))) else { return starts };
            at = next.0;
            starts.push(at);
        }
        starts
    }

    #[test]
    fn there_are_nine_tries_over_more_than_a_day_and_none_is_late() {
        let ids = IdGenerator::random();
        for _ in 0..1000 {
            let starts = starts(ids.next(), |_| 0);
            let latest = [0, 5, 20, 120, 600, 3600, 4 * 3600, 12 * 3600, 26 * 3600].map(|seconds| seconds * SECOND);
            assert_eq!(starts.len(), latest.len());
            for (start, latest) in starts.iter().zip(latest) {
                assert!(*start <= latest && *start >= latest / 100 * 95, "{starts:?}");
            }
            assert!(starts[8] > 24 * 3600 * SECOND, "{starts:?}");
        }
    }

    #[test]
    fn a_receiver_that_never_answers_is_tried_three_times_within_half_a_minute() {
        let ids = IdGenerator::random();
        for _ in 0..1000 {
            let starts = starts(ids.next(), |one| i64::try_from(one.timeout.as_micros()).unwrap());
            // With room for two looks for what is due, a second apart.
            assert!(starts[2] <= 27 * SECOND, "{starts:?}");
            assert!(starts.windows(2).all(|pair| pair[1] >= pair[0] + 10 * SECOND), "no try before the last has ended");
        }
    }

    #[test]
    fn what_failed_together_comes_back_apart_and_the_same_try_at_the_same_time() {
        let ids = IdGenerator::random();
        let of = |event| next_at(event, 5, Time(0), Time(0)).unwrap();
        let mut times: Vec<Time> = (0..100).map(|_| of(ids.next())).collect();
        times.sort_unstable();
        times.dedup();
        assert!(times.len() > 50, "{times:?}");
        let event = ids.next();
        assert_eq!(of(event), of(event));
    }

    #[test]
    fn a_try_that_a_crash_repeats_behind_the_last_is_the_last() {
        assert_eq!(next_at(Uuid::nil(), 8, Time(0), Time(0)).map(|at| at.0 > 0), Some(true));
        assert_eq!(next_at(Uuid::nil(), 9, Time(0), Time(0)), None);
        assert_eq!(next_at(Uuid::nil(), 10, Time(0), Time(0)), None);
        assert_eq!(nth(10).timeout, nth(9).timeout);
        assert_eq!(nth(0).timeout, nth(1).timeout);
    }
}
