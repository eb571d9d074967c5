//! Delays between tries.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const MAX: Duration = Duration::from_secs(8);
/// The longest delay that the service can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Returns the delay after the given try, counted from 0: 0.5 s, doubled each time up to 8 s, less up to a quarter at
/// random. A delay that the service asks for takes precedence.
pub(crate) fn delay(attempt: u32, retry_after: Option<Duration>) -> Duration {
    if let Some(delay) = retry_after {
        return delay.min(MAX_RETRY_AFTER);
    }
    let delay = FIRST.saturating_mul(1 << attempt.min(10)).min(MAX);
    // Without randomness the delays are only less spread.
    let random = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    delay.mul_f64(1.0 - random / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_their_maximum() {
        for (attempt, full) in [(0, 500), (1, 1000), (4, 8000), (5, 8000), (u32::MAX, 8000)] {
            let full = Duration::from_millis(full);
            let delay = delay(attempt, None);
            assert!((full.mul_f64(0.749)..=full).contains(&delay), "{attempt}: {delay:?}");
        }
        assert_eq!(delay(0, Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(delay(0, Some(Duration::from_secs(3600))), MAX_RETRY_AFTER);
    }
}
