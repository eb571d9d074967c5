//! An event as one line of text.

use crate::cli::print;
use crate::cli::remote::{EventData, ServiceEvent, content_lines};

/// Maximum length of the last part, in characters.
const LONGEST: usize = 200;

/// Formats an event: time, call, event, tool, and what happened.
pub fn text(event: &ServiceEvent, data: &EventData) -> String {
    let time = data.time().map_or_else(|| "-".to_owned(), |time| time.to_string());
    let (kind, name) = (print::one_line(&event.event, 20), print::one_line(&data.name, 128));
    let what = print::one_line(&what(event, data), LONGEST);
    format!("{time:<24}  {}  {kind:<11}  {name}  {what}", data.id).trim_end().to_owned()
}

fn what(event: &ServiceEvent, data: &EventData) -> String {
    match event.event.as_str() {
        "tool_call" => data.arguments.to_string(),
        "status" => status(data),
        "progress" => content_lines(&data.content).join(" "),
        "tool_result" => result(data),
        _ => event.data.to_string(),
    }
}

fn status(data: &EventData) -> String {
    let mut words = vec![data.status.map_or_else(String::new, |status| status.as_str().to_owned())];
    words.extend(data.phase.clone());
    if let Some(progress) = &data.progress {
        let total = progress.total.map_or_else(String::new, |total| format!("/{total}"));
        words.push(format!("{}{total}", progress.current));
        words.extend(progress.message.clone());
    }
    words.extend(data.tip.clone());
    words.join(" ")
}

/// Returns the result of a call as text: the failure, or the output.
pub fn result(data: &EventData) -> String {
    match &data.error {
        Some(error) => format!("ERROR {}: {}", error.code, error.message),
        None => format!("SUCCESS {}", data.output.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(event: &str, members: serde_json::Value) -> String {
        let mut data = json!({"id": "0197d3f0-0000-7000-8000-000000000000", "name": "wait"});
        data.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let event = ServiceEvent { id: "1".into(), event: event.into(), data };
        let line = text(&event, &serde_json::from_value(event.data.clone()).unwrap());
        line.replace("0197d3f0-0000-7000-8000-000000000000", "ID")
    }

    #[test]
    fn every_event_is_one_line() {
        let at = "2026-01-31T12:00:00.000Z";
        let line_of_call = line("tool_call", json!({"at": at, "arguments": {"ms": 1}}));
        assert_eq!(line_of_call, format!(r#"{at}  ID  tool_call    wait  {{"ms":1}}"#));
        let doing = json!({"started_at": at, "status": "DOING", "phase": "running", "tip": "a\nb",
            "progress": {"current": 1.0, "total": 4.0, "message": null}});
        assert_eq!(line("status", doing), format!("{at}  ID  status       wait  DOING running 1/4 a b"));
        let waits = json!({"status": "WAIT", "phase": "queued", "started_at": null});
        assert_eq!(line("status", waits), "-                         ID  status       wait  WAIT queued");
        let failed = json!({"error": {"code": "TOOL_TIMEOUT", "message": "x\u{1b}[2J"}});
        assert!(line("tool_result", failed).ends_with("wait  ERROR TOOL_TIMEOUT: x [2J"));
    }
}
