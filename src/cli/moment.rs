//! Times on the command line.

use crate::domain::time::span_ms;
use crate::domain::{Clock, Time};

/// Parses an RFC 3339 time, a day in UTC, or an age such as `7d`.
pub fn moment(text: &str) -> Result<Time, String> {
    let age = span_ms(text).and_then(|millis| i64::try_from(millis).ok()?.checked_mul(1000));
    if let Some(micros) = age {
        return Ok(Time(Clock::system().now().0.saturating_sub(micros)));
    }
    let of_a_day = || Time::parse(&format!("{text}T00:00:00Z"));
    let time = Time::parse(text).or_else(of_a_day);
    time.ok_or_else(|| "must be an RFC 3339 time, a day such as 2026-01-31, or an age such as 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_is_its_start_in_utc() {
        assert_eq!(moment("2026-01-31"), moment("2026-01-31T00:00:00Z"));
        assert_eq!(moment("2026-01-31T01:00:00+01:00"), moment("2026-01-31"));
        for wrong in ["", "2026-13-01", "yesterday", "12:00", "0d", "7", "-7d"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn age_is_counted_from_now() {
        let (before, moment, after) = (Clock::system().now(), moment("7d").unwrap(), Clock::system().now());
        let week = 7 * 24 * 3600 * 1_000_000;
        assert!((before.0 - week..=after.0 - week).contains(&moment.0));
    }
}
