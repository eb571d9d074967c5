//! Reports of tools as bodies of `POST /tool-calls/{id}/progress`.

use serde::Serialize;
use serde_json::{Map, Value};
use toolpost_core::domain::{ContentBlock, Progress};
use toolpost_tool::tool::Report;

#[derive(Default, Serialize)]
struct ReportBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tip: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "is_empty")]
    params: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "is_empty")]
    metadata: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    content: &'a [ContentBlock],
    #[serde(skip_serializing_if = "is_empty")]
    details: Option<&'a Map<String, Value>>,
}

fn is_empty(members: &Option<&Map<String, Value>>) -> bool {
    members.is_none_or(Map::is_empty)
}

/// Returns the body of a report. An empty one says only that the tool is still running.
pub(crate) fn body_of(report: &Report) -> Result<Vec<u8>, serde_json::Error> {
    let body = match report {
        Report::Status(status) => ReportBody {
            tip: status.tip.as_deref(),
            progress: status.progress.as_ref(),
            params: Some(&status.params),
            metadata: Some(&status.metadata),
            ..ReportBody::default()
        },
        Report::Emission(emission) => {
            ReportBody { content: &emission.content, details: Some(&emission.details), ..ReportBody::default() }
        }
    };
    serde_json::to_vec(&body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolpost_core::domain::call::StatusUpdate;
    use toolpost_core::domain::event::Emission;
    use toolpost_tool::tool::object;

    use super::*;

    fn body_json(report: &Report) -> Value {
        serde_json::from_slice(&body_of(report).unwrap()).unwrap()
    }

    #[test]
    fn reports_have_only_their_own_members() {
        assert_eq!(body_json(&Report::Status(StatusUpdate::default())), json!({}));
        let progress = Progress { current: 1.0, total: None, message: Some("one".into()) };
        let status = StatusUpdate {
            tip: Some("t".into()),
            progress: Some(progress),
            params: object([("p", 1)]),
            metadata: object([("m", 2)]),
            phase: None,
        };
        let progress = json!({"current": 1.0, "total": null, "message": "one"});
        let expected = json!({"tip": "t", "progress": progress, "params": {"p": 1}, "metadata": {"m": 2}});
        assert_eq!(body_json(&Report::Status(status)), expected);
        let emission = Emission { content: vec![ContentBlock::Text("x".into())], details: object([("d", 1)]) };
        let expected = json!({"content": [{"type": "text", "text": "x"}], "details": {"d": 1}});
        assert_eq!(body_json(&Report::Emission(emission)), expected);
    }
}
