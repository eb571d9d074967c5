//! Reports of external tools: one format for `POST /tool-calls/{id}/progress` and for the `progress` events of a
//! response.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::Emitter;
use super::emitter::Recorded;
use toolpost_core::domain::call::StatusUpdate;
use toolpost_core::domain::decode::{self, DecodeError};
use toolpost_core::domain::event::Emission;
use toolpost_core::domain::{ContentBlock, Progress, json};

/// Maximum length of the quoted part of an invalid report, in characters.
const SHOWN_CHARS: usize = 500;

/// One report of a running tool. All members are optional; `null` is the same as absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProgressReport)]
pub struct Report {
    /// One line for people; replaces the previous one.
    tip: Option<String>,
    /// Display parameters; merged deeply over the whole call.
    #[schema(value_type = Option<Object>)]
    params: Option<Map<String, Value>>,
    /// Metadata of the call; merged deeply over the whole call.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Progress of the tool; replaces the previous one.
    progress: Option<Step>,
    /// Content for subscribers, never part of `output`: a string, or an array of typed blocks.
    #[serde(default, deserialize_with = "content")]
    #[schema(value_type = String, extensions(("x-is" = json!({"anyOf": [{"type": "string"},
        {"type": "array", "items": {"$ref": "#/components/schemas/ContentBlock"}}, {"type": "null"}]}))))]
    content: Vec<ContentBlock>,
    /// Data for the user interface, in addition to `content`.
    #[schema(value_type = Option<Object>)]
    details: Option<Map<String, Value>>,
}

/// Progress of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReportedProgress)]
struct Step {
    /// Completed steps.
    current: f64,
    /// Total number of steps, if known.
    total: Option<f64>,
    /// Description of the current step.
    message: Option<String>,
}

impl Report {
    /// Parses a report.
    ///
    /// # Errors
    /// Returns the first invalid or unknown member.
    pub fn read(value: Value) -> Result<Self, DecodeError> {
        // The derived deserializer would accept an array of the members in order, and `null` for an empty report.
        if !value.is_object() {
            let message = format!("must be an object, not {}", json::type_name(&value));
            return Err(DecodeError { pointer: String::new(), message });
        }
        decode::expect_objects(&value, &["/params", "/metadata", "/progress", "/details"])?;
        decode::read(value)
    }

    /// Returns `true` if the report says only that the tool is still running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { tip, params, metadata, progress, content, details } = self;
        let has_no_members = [params, metadata, details].into_iter().flatten().all(Map::is_empty);
        tip.is_none() && progress.is_none() && content.is_empty() && has_no_members
    }

    /// Creates a replacement for an invalid report that shows the error to subscribers.
    #[must_use]
    pub fn invalid(fault: &DecodeError) -> Self {
        let fault = serde_json::json!({
            "pointer": json::shorten(&fault.pointer, SHOWN_CHARS), "message": json::shorten(&fault.message, SHOWN_CHARS),
        });
        let details = [("invalid_progress".to_owned(), fault)].into_iter().collect();
        Self { details: Some(details), ..Self::default() }
    }

    /// Creates a report that shows a text.
    #[must_use]
    pub fn text(text: String) -> Self {
        Self { content: vec![ContentBlock::Text(text)], ..Self::default() }
    }

    /// Sends the report to the running call: first the status, then the content. Waits while too many emissions are
    /// unrecorded. The returned receiver resolves once this report is recorded.
    pub async fn tell(self, emitter: &Emitter) -> Recorded {
        let Self { tip, params, metadata, progress, content, details } = self;
        let (waiter, recorded) = oneshot::channel();
        let status = StatusUpdate {
            tip,
            params: params.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
            progress: progress.map(|Step { current, total, message }| Progress { current, total, message }),
            phase: None,
        };
        let details = details.unwrap_or_default();
        if content.is_empty() && details.is_empty() {
            emitter.status_for(status, Some(waiter));
        } else {
            emitter.status(status);
            // The emission comes after the status in the journal, so it is recorded last.
            emitter.emit_for(Emission { content, details }, Some(waiter)).await;
        }
        recorded
    }
}

/// Deserializes a string or an array of typed blocks.
fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ContentBlock>, D::Error> {
    struct Content;

    impl<'de> Visitor<'de> for Content {
        type Value = Vec<ContentBlock>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string or an array of typed blocks")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![ContentBlock::Text(text.to_owned())])
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(blocks))
        }
    }

    deserializer.deserialize_any(Content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::executor::emitter::{self, Report as EngineReport};

    /// Returns the reports that the engine receives.
    async fn received(report: Value) -> Vec<EngineReport> {
        let (emitter, mut reports) = emitter::channel();
        drop(Report::read(report).unwrap().tell(&emitter).await);
        std::iter::from_fn(|| reports.take()).collect()
    }

    #[tokio::test]
    async fn status_is_sent_before_the_content() {
        let all = json!({
            "tip": "half way", "params": {"p": {"x": 1}}, "metadata": {"m": [1]},
            "progress": {"current": 1, "total": 2.5, "message": "one"},
            "content": [{"type": "text", "text": "a\u{0}😀"}, {"type": "resource", "uri": "x:y"}], "details": {"d": null},
        });
        let [EngineReport::Status(status), EngineReport::Emission(emission)] = &received(all).await[..] else {
            panic!("both, in order")
        };
        assert_eq!(status.tip.as_deref(), Some("half way"));
        assert_eq!(json!([status.params, status.metadata]), json!([{"p": {"x": 1}}, {"m": [1]}]));
        let progress = Progress { current: 1.0, total: Some(2.5), message: Some("one".into()) };
        assert_eq!((status.progress.as_ref(), status.phase), (Some(&progress), None));
        assert_eq!(json!(emission.content)[0], json!({"type": "text", "text": "a\u{0}😀"}));
        assert_eq!((emission.content.len(), json!(emission.details)), (2, json!({"d": null})));
    }

    #[tokio::test]
    async fn absent_members_are_not_sent() {
        assert_eq!(received(json!({})).await, []);
        let nothing =
            json!({"tip": null, "params": null, "metadata": {}, "progress": null, "content": null, "details": null});
        assert_eq!(received(nothing).await, []);
        assert!(matches!(&received(json!({"tip": "x", "content": []})).await[..], [EngineReport::Status(_)]));
        assert!(matches!(&received(json!({"details": {"a": 1}})).await[..], [EngineReport::Emission(_)]));
        let [EngineReport::Emission(text)] = &received(json!({"content": "hi"})).await[..] else { panic!("shown") };
        assert_eq!(text.content, [ContentBlock::Text("hi".into())]);
    }

    #[test]
    fn errors_name_the_invalid_member() {
        for (report, pointer, message) in [
            (json!({"tipp": "x"}), "/tipp", "unknown field `tipp`"),
            (json!({"progress": {"current": 1, "totl": 2}}), "/progress/totl", "unknown field `totl`"),
            (json!({"progress": {"total": 2}}), "/progress/current", "missing field `current`"),
            (json!({"progress": {"current": "1"}}), "/progress/current", "invalid type: string"),
            (json!({"progress": [1]}), "/progress", "must be an object, not array"),
            (json!({"params": []}), "/params", "must be an object, not array"),
            (json!({"metadata": "x"}), "/metadata", "must be an object, not string"),
            (json!({"details": 1}), "/details", "must be an object, not integer"),
            (json!({"tip": 1}), "/tip", "invalid type: integer"),
            (json!({"content": 1}), "/content", "expected a string or an array of typed blocks"),
            (json!({"content": {"type": "text", "text": "a"}}), "/content", "a string or an array of typed blocks"),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
                "/content/1",
                "not a typed content block",
            ),
            (json!(["x"]), "", "must be an object, not array"),
            (json!(null), "", "must be an object, not null"),
        ] {
            let fault = Report::read(report.clone()).unwrap_err();
            assert_eq!(fault.pointer, pointer, "{report}: {}", fault.message);
            assert!(fault.message.contains(message), "{report}: {}", fault.message);
        }
    }
}
