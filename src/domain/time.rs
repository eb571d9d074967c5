//! Points in time as the service keeps and shows them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z; shown as RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, utoipa::ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000Z")]
pub struct Time(pub i64);

impl Time {
    /// The minute that this time falls into, as minutes since the epoch.
    #[must_use]
    pub fn minute(self) -> i64 {
        self.0.div_euclid(60_000_000)
    }

    /// Whole milliseconds from `earlier` to `self`, never negative.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from((self.0 - earlier.0) / 1000).unwrap_or(0)
    }

    /// So many milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX / 1000).saturating_mul(1000)))
    }

    /// Parses an RFC 3339 timestamp; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|timestamp| Self(timestamp.as_microsecond()))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc_with_milliseconds() {
        assert_eq!(Time(1_700_000_000_123_456).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Time(1_700_000_000_000_000).to_string(), "2023-11-14T22:13:20.000Z");
        assert_eq!(Time::parse("2023-11-14T22:13:20.123Z"), Some(Time(1_700_000_000_123_000)));
    }
}
