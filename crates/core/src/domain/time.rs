//! Timestamps, and readings of both clocks: the wall clock for timestamps, and the monotonic clock for durations.

use std::cell::Cell;
use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;
/// Length of the text up to the seconds.
const SECOND_LENGTH: usize = "1970-01-01T00:00:00".len();

/// Microseconds since 1970-01-01T00:00:00Z, displayed as RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, utoipa::ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000Z")]
pub struct Time(pub i64);

impl Time {
    /// Returns the minute of this time, counted from the epoch.
    #[must_use]
    pub fn minute(self) -> i64 {
        self.0.div_euclid(60_000_000)
    }

    /// Returns the whole milliseconds from `earlier` to `self`, at least 0.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from((self.0 - earlier.0) / 1000).unwrap_or(0)
    }

    /// Returns the time without the fraction of a millisecond, as it is displayed.
    #[must_use]
    pub fn whole_millis(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1000))
    }

    /// Returns the time `millis` milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX / 1000).saturating_mul(1000)))
    }

    /// Appends the displayed text. Consecutive times mostly have the same second, so its text is cached per thread.
    pub fn write(self, out: &mut Vec<u8>) {
        thread_local! {
            static LAST: Cell<(i64, [u8; SECOND_LENGTH])> = const { Cell::new((i64::MIN, [0; SECOND_LENGTH])) };
        }
        let (second, millis) = (self.0.div_euclid(SECOND), self.0.rem_euclid(SECOND) / 1000);
        let (last, mut text) = LAST.get();
        if last != second {
            let whole = self.to_string();
            let is_usual = (0..=jiff::Timestamp::MAX.as_microsecond()).contains(&self.0);
            match whole.as_bytes().first_chunk() {
                Some(start) if is_usual => text = *start,
                _ => return out.extend_from_slice(whole.as_bytes()),
            }
            LAST.set((second, text));
        }
        out.extend_from_slice(&text);
        let digit = |of: i64| b'0' + (of % 10) as u8;
        out.extend_from_slice(&[b'.', digit(millis / 100), digit(millis / 10), digit(millis), b'Z']);
    }

    /// Parses an RFC 3339 timestamp. Returns `None` if it is invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|timestamp| Self(timestamp.as_microsecond()))
    }
}

/// Parses a duration such as `30d`, in milliseconds: a positive number of seconds, minutes, hours, days or weeks.
#[must_use]
pub fn span_ms(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    number.checked_mul(seconds * 1000)
}

impl std::fmt::Display for Time {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = jiff::Timestamp::from_microsecond(self.0).unwrap_or_default();
        write!(formatter, "{whole:.3}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

/// A reading of this process's monotonic clock, in microseconds. It is meaningless in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(NonZeroU64);

impl Tick {
    /// Returns the reading `micros` microseconds after the creation of the clock.
    #[must_use]
    pub fn after_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Returns the microseconds from `earlier` to `self`.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

/// A simultaneous reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall-clock time, which can jump.
    pub at: Time,
    /// The monotonic reading; `None` for a moment that another process recorded.
    pub tick: Option<Tick>,
}

impl From<Time> for Moment {
    fn from(at: Time) -> Self {
        Self { at, tick: None }
    }
}

impl Moment {
    /// Returns the microseconds from `earlier` to `self`, at least 0. Uses the monotonic clock if both readings have
    /// it, and otherwise the wall clock.
    #[must_use]
    pub fn micros_since(self, earlier: Self) -> u64 {
        match (self.tick, earlier.tick) {
            (Some(now), Some(then)) => now.micros_since(then),
            _ => u64::try_from(self.at.0.saturating_sub(earlier.at.0)).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc_with_milliseconds() {
        assert_eq!(Time(1_700_000_000_123_456).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Time(1_700_000_000_000_000).to_string(), "2023-11-14T22:13:20.000Z");
        assert_eq!(Time::parse("2023-11-14T22:13:20.123Z"), Some(Time(1_700_000_000_123_000)));
    }

    proptest::proptest! {
        #[test]
        fn times_sort_as_text_in_their_order(
            start in proptest::prelude::any::<i64>(), steps in proptest::collection::vec(-2_000_000_i64..2_000_000, 1..9)
        ) {
            for near in [start, start % 400_000_000_000_000_000, start % 10_000_000] {
                for step in &steps {
                    let (time, mut written) = (Time(near.saturating_add(*step)), Vec::new());
                    time.write(&mut written);
                    proptest::prop_assert_eq!(String::from_utf8(written).unwrap(), time.to_string());
                }
            }
        }
    }
}
