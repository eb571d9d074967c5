//! The schedule of attempts and their timeouts.

use std::time::Duration;

use uuid::Uuid;

use toolpost_core::domain::Time;

/// The timing of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct AttemptTiming {
    /// Time from the start of the previous attempt to the start of this one. If the previous attempt takes longer, this
    /// one follows immediately.
    pub wait: Duration,
    /// Timeout of the attempt.
    pub timeout: Duration,
}

/// The attempts of a callback, which is abandoned after the last one. The third attempt starts within 30 s even if the
/// first two time out, and the last one more than a day after the first.
///
/// | attempt | latest start after the first |
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

/// Maximum reduction of a wait, in percent, so that callbacks that failed together are not retried together.
const JITTER_PERCENT: u64 = 5;

const fn after(wait: u64, timeout: u64) -> AttemptTiming {
    AttemptTiming { wait: Duration::from_secs(wait), timeout: Duration::from_secs(timeout) }
}

/// Returns the attempt with this number, counted from 1. A number beyond the last one occurs only if a crash lost the
/// end of the last attempt.
#[must_use]
pub fn nth(attempt: u32) -> AttemptTiming {
    let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    TRIES[index.min(TRIES.len() - 1)]
}

/// Returns the time of the next attempt after this one has failed, or `None` after the last one. Attempts whose end was
/// lost are not counted.
#[must_use]
pub fn next_at(event: Uuid, attempt: u32, started: Time, now: Time) -> Option<Time> {
    let wait = TRIES.get(usize::try_from(attempt).ok()?)?.wait;
    let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    let jitter = wait / 100 * i64::try_from(share(event, attempt)).unwrap_or(0) / 1000;
    Some(Time((started.0 + wait - jitter).max(now.0)))
}

/// Returns a jitter from 0 to [`JITTER_PERCENT`], in thousandths of a percent, which is constant for an attempt of an
/// event.
fn share(event: Uuid, attempt: u32) -> u64 {
    // The low half of a UUIDv7 is random; multiplying by the golden ratio spreads it over the high bits.
    let (_, low) = event.as_u64_pair();
    let mixed = (low ^ u64::from(attempt)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed % (JITTER_PERCENT * 1000 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolpost_core::domain::IdGenerator;

    const SECOND: i64 = 1_000_000;

    /// Returns the start of each attempt, in microseconds after the first, if every attempt takes this long to fail.
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
    fn nine_attempts_take_more_than_a_day() {
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
    fn three_attempts_start_within_half_a_minute_despite_timeouts() {
        let ids = IdGenerator::random();
        for _ in 0..1000 {
            let starts = starts(ids.next(), |one| i64::try_from(one.timeout.as_micros()).unwrap());
            // Leaves time for two polls, one second apart.
            assert!(starts[2] <= 27 * SECOND, "{starts:?}");
            assert!(
                starts.windows(2).all(|pair| pair[1] >= pair[0] + 10 * SECOND),
                "no attempt before the last has ended"
            );
        }
    }

    #[test]
    fn jitter_spreads_events_and_is_constant_for_an_attempt() {
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
    fn attempt_beyond_the_last_uses_the_last_timing() {
        assert_eq!(next_at(Uuid::nil(), 8, Time(0), Time(0)).map(|at| at.0 > 0), Some(true));
        assert_eq!(next_at(Uuid::nil(), 9, Time(0), Time(0)), None);
        assert_eq!(next_at(Uuid::nil(), 10, Time(0), Time(0)), None);
        assert_eq!(nth(10).timeout, nth(9).timeout);
        assert_eq!(nth(0).timeout, nth(1).timeout);
    }
}
