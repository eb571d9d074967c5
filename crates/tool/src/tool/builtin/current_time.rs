//! `current_time`: the current time in any time zone.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError};
use toolpost_core::domain::{Clock, Outcome, Time};

/// The compiled-in time zones, so that all nodes agree regardless of what their machines have installed.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The tool `current_time` with the clock that it reads.
#[derive(Debug, Clone)]
pub struct CurrentTime(pub Clock);

/// Returns the current date and time in a time zone, as RFC 3339 with the offset of the zone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurrentTimeArgs {
    /// The IANA name of the time zone, like "Europe/Berlin".
    #[serde(default = "utc")]
    #[schemars(length(max = 100))]
    pub timezone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Tool for CurrentTime {
    const NAME: &'static str = "current_time";
    type Args = CurrentTimeArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Current time")
            .category(super::CATEGORY)
            .example(json!({}), "2026-01-31T12:00:00+00:00")
            .example(json!({"timezone": "Europe/Berlin"}), "2026-01-31T13:00:00+01:00")
            .read_only()
            .closed_world()
    }

    fn validate(&self, args: &CurrentTimeArgs) -> Result<(), Vec<InvalidArgument>> {
        find(&args.timezone).map(drop).map_err(|message| vec![InvalidArgument::at("/timezone", message)])
    }

    async fn call(&self, args: CurrentTimeArgs, _: Run) -> Result<Outcome, ToolError> {
        let zone = find(&args.timezone)?;
        let now = self.0.now();
        let local = jiff::Timestamp::from_microsecond(now.0)?.to_zoned(zone);
        let time = format!("{:.0}", local.timestamp().display_with_offset(local.offset()));
        let structured = json!({
            "time": time,
            "timezone": local.time_zone().iana_name(),
            "utc": Time(now.0),
            "unix_ms": now.0.div_euclid(1000),
            "weekday": local.strftime("%A").to_string(),
        });
        Ok(Outcome { structured: Some(structured.into()), ..Outcome::text(time) })
    }
}

/// Finds a time zone by name, ignoring case, or returns the error message.
fn find(name: &str) -> Result<TimeZone, String> {
    ZONES.get(name.trim()).map_err(|_| {
        let shown = toolpost_core::domain::json::shorten(name, 100);
        match nearest(name.trim()) {
            Some(near) => format!("unknown time zone \"{shown}\"; did you mean \"{near}\"?"),
            None => format!("unknown time zone \"{shown}\"; use an IANA name such as \"Europe/Berlin\" or \"UTC\""),
        }
    })
}

/// Returns the most similar zone name. Only the city may be given ("Berlin"), and typos are allowed ("Europe/Berln").
fn nearest(name: &str) -> Option<String> {
    /// Minimum similarity for a suggestion, from 0 to 1.
    const MIN_SIMILARITY: f64 = 0.75;
    let wanted = name.to_lowercase().replace(' ', "_");
    ZONES
        .available()
        .map(|zone| {
            let lower = zone.as_str().to_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            let alike = |other| strsim::normalized_damerau_levenshtein(&wanted, other);
            (alike(&lower).max(alike(city)), zone.to_string())
        })
        .filter(|(alike, _)| *alike >= MIN_SIMILARITY)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, zone)| zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::BuiltinTool;
    use serde_json::Value;
    use toolpost_core::domain::ToolOutput;

    async fn at_noon(arguments: Value) -> Outcome {
        let clock = Clock::manual(Time::parse("2026-01-31T12:00:00.250Z").unwrap());
        match BuiltinTool::new(CurrentTime(clock)).invoke(arguments).await {
            Ok(ToolOutput::Outcome(outcome)) => *outcome,
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Outcome::failed(failure),
        }
    }

    #[tokio::test]
    async fn time_is_returned_in_any_zone() {
        let outcome = at_noon(json!({"timezone": "europe/berlin"})).await;
        assert_eq!(outcome.output, "2026-01-31T13:00:00+01:00");
        let expected = json!({
            "time": "2026-01-31T13:00:00+01:00", "timezone": "Europe/Berlin", "utc": "2026-01-31T12:00:00.250Z",
            "unix_ms": 1_769_860_800_250_i64, "weekday": "Saturday",
        });
        assert_eq!(outcome.structured.as_deref(), Some(&expected));
        assert_eq!(at_noon(json!({"timezone": "Asia/Kathmandu"})).await.output, "2026-01-31T17:45:00+05:45");
        assert_eq!(at_noon(json!({"timezone": "Pacific/Kiritimati"})).await.output, "2026-02-01T02:00:00+14:00");
    }

    #[tokio::test]
    async fn default_zone_is_utc() {
        let outcome = at_noon(json!({})).await;
        assert_eq!(outcome.output, "2026-01-31T12:00:00+00:00");
        assert_eq!(outcome.structured.unwrap()["timezone"], "UTC");
    }

    #[tokio::test]
    async fn unknown_zone_is_rejected_with_a_suggestion() {
        for (given, meant) in
            [("Berlin", "Europe/Berlin"), ("Europe/Berln", "Europe/Berlin"), ("new york", "America/New_York")]
        {
            let text = at_noon(json!({"timezone": given})).await.output;
            let line = format!("- /timezone: unknown time zone \"{given}\"; did you mean \"{meant}\"?");
            assert_eq!(text, format!("Error: Invalid parameters for tool \"current_time\"\n{line}"));
        }
        let text = at_noon(json!({"timezone": "Middle-earth"})).await.output;
        assert!(text.ends_with("use an IANA name such as \"Europe/Berlin\" or \"UTC\""), "{text}");
    }
}
