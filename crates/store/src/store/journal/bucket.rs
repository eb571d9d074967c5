//! Histogram buckets for durations. The counts of a bucket can be added across minutes and nodes.

use std::sync::LazyLock;

use hdrhistogram::Histogram;

/// One hour. Longer durations share the last bucket.
const LONGEST_MS: u64 = 3_600_000;
/// Significant digits. With two, each millisecond below 256 has its own bucket, and wider buckets span at most 1 % of
/// their value. Must never change once rows exist.
const DIGITS: u8 = 2;
/// Number of buckets per doubling of the width; determined by `DIGITS`.
const HALF: u64 = 128;

static SHAPE: LazyLock<Histogram<u64>> = LazyLock::new(|| {
    // The bounds are valid constants; a test covers them.
    #[expect(clippy::unwrap_used, reason = "constants")]
    Histogram::new_with_bounds(1, LONGEST_MS, DIGITS).unwrap()
});

/// Returns the bucket of a duration. Durations in one bucket count as equal.
#[must_use]
pub fn bucket_of(duration_ms: u64) -> i32 {
    let value = duration_ms.min(LONGEST_MS);
    let lowest = SHAPE.lowest_equivalent(value);
    let width = SHAPE.equivalent_range(lowest);
    // Buckets below 256 have width 1; each doubling of the width adds `HALF` buckets.
    let doublings = u64::from(width.trailing_zeros());
    i32::try_from(lowest / width + doublings * HALF).unwrap_or(i32::MAX)
}

/// Returns the longest duration of a bucket, in milliseconds.
#[must_use]
pub fn upper_end_ms(bucket: i32) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(0);
    if bucket < 2 * HALF {
        return bucket;
    }
    let doublings = bucket / HALF - 1;
    let lowest = (bucket - doublings * HALF) << doublings;
    SHAPE.highest_equivalent(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_at_most_one_percent_wide() {
        let mut last = -1;
        for duration in (0..4096).chain((4096..LONGEST_MS).step_by(977)) {
            let bucket = bucket_of(duration);
            assert!(bucket >= last, "{duration}");
            last = bucket;
            let end = upper_end_ms(bucket);
            assert!(end >= duration && end - duration <= duration / 100 + 1, "{duration}: {bucket} ends at {end}");
        }
        assert_eq!(upper_end_ms(bucket_of(255)), 255);
    }
}
