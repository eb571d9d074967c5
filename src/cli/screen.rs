//! The progress of a running call on standard error, line by line.

use crate::domain::call::Coercion;
use crate::domain::event::{Event, Reported, Stage};
use crate::domain::{Call, ContentBlock, Progress, Status};
use serde::Deserialize;

use super::print;
use super::remote::{self, CallView, EventData};

/// Maximum length of a line, in characters.
const LONGEST: usize = 500;

/// A progress display that prints a line only if something has changed.
#[derive(Debug, Default)]
pub struct Screen {
    is_on: bool,
    /// The status and the phase of a call of the service.
    stage: Option<(Status, Option<String>)>,
    tip: Option<String>,
    progress: Option<Progress>,
}

/// A report of a running tool from the data of its event; the call itself may have advanced since.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    tip: Option<String>,
    progress: Option<Progress>,
    content: Vec<ContentBlock>,
}

impl Screen {
    /// Creates a display, which prints nothing if `is_on` is `false`.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Prints the lines of an event, if any.
    pub fn show(&mut self, event: &Event) {
        let lines = self.lines(event);
        self.print(&lines);
    }

    /// Prints the lines of an event of the service, if any.
    pub fn show_received(&mut self, event: &str, data: &EventData) {
        let lines = self.received_lines(event, data);
        self.print(&lines);
    }

    /// Prints the coerced arguments.
    pub fn show_coerced(&self, coerced: &[Coercion]) {
        self.print(&coerced.iter().map(coerced_line).collect::<Vec<_>>());
    }

    /// Prints how the call ended.
    pub fn end(&self, ending: &Ending<'_>) {
        self.print(&ending.lines());
    }

    fn print(&self, lines: &[String]) {
        for line in lines.iter().filter(|_| self.is_on) {
            print::note(&print::one_line(line, LONGEST));
        }
    }

    fn lines(&mut self, event: &Event) -> Vec<String> {
        match &event.stage {
            Stage::Waiting => {
                let coerced = event.call.coerced.iter().map(coerced_line);
                std::iter::once(Status::Wait.as_str().to_owned()).chain(coerced).collect()
            }
            Stage::Started => vec![Status::Doing.as_str().to_owned()],
            Stage::Reported(reported) => self.report(reported),
            Stage::Accepted | Stage::Settled | Stage::Result => Vec::new(),
        }
    }

    fn received_lines(&mut self, event: &str, data: &EventData) -> Vec<String> {
        match (event, data.status) {
            ("progress", _) => remote::content_lines(&data.content).iter().map(|line| format!("| {line}")).collect(),
            ("status", Some(status)) if !status.is_terminal() => {
                let stage = Some((status, data.phase.clone()));
                let mut lines = Vec::new();
                if self.stage != stage {
                    lines.push(stage_line(status, data.phase.as_deref()));
                    self.stage = stage;
                }
                lines.extend(self.changes(data.tip.clone(), data.progress.clone()));
                lines
            }
            _ => Vec::new(),
        }
    }

    fn report(&mut self, reported: &Reported) -> Vec<String> {
        // The data has the format of this version; unreadable data would only reduce the display.
        let Report { tip, progress, content } = serde_json::from_str(&reported.data).unwrap_or_default();
        let mut lines = self.changes(tip, progress);
        for block in content {
            match block {
                ContentBlock::Text(text) => lines.extend(text.lines().map(|line| format!("| {line}"))),
                ContentBlock::Image { mime_type, .. } => lines.push(format!("| ({mime_type})")),
                ContentBlock::Other(_) => {}
            }
        }
        lines
    }

    /// Returns a line for each value that has changed.
    fn changes(&mut self, tip: Option<String>, progress: Option<Progress>) -> Vec<String> {
        let mut lines = Vec::new();
        if tip.is_some() && tip != self.tip {
            lines.push(format!("{}  {}", Status::Doing.as_str(), tip.as_deref().unwrap_or_default()));
            self.tip = tip;
        }
        if progress.is_some() && progress != self.progress {
            lines.extend(progress.as_ref().map(progress_line));
            self.progress = progress;
        }
        lines
    }
}

fn coerced_line(Coercion { pointer, from, to }: &Coercion) -> String {
    format!("coerced {pointer}: {from} → {to}")
}

/// Returns the status, with the phase if it is not the usual one.
fn stage_line(status: Status, phase: Option<&str>) -> String {
    let phase = phase.filter(|phase| matches!(*phase, "approval" | "retrying" | "external"));
    phase.map_or_else(|| status.as_str().to_owned(), |phase| format!("{}  {phase}", status.as_str()))
}

fn progress_line(Progress { current, total, message }: &Progress) -> String {
    let total = total.map_or_else(String::new, |total| format!("/{total}"));
    format!("progress {current}{total} {}", message.as_deref().unwrap_or_default())
}

/// The end of a call.
#[derive(Debug)]
pub struct Ending<'a> {
    status: Status,
    code: Option<&'a str>,
    /// The duration in milliseconds, if the tool ran.
    ran_ms: Option<u64>,
    /// Number of blocks that are not text.
    hidden: usize,
}

impl<'a> From<&'a Call> for Ending<'a> {
    fn from(call: &'a Call) -> Self {
        let outcome = call.outcome.as_deref();
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        let content = outcome.map_or(&[][..], |outcome| &outcome.content);
        Self {
            status: call.status,
            code: error.map(|failure| failure.code.as_str()),
            ran_ms: call.started_at.and(call.duration_ms()),
            hidden: content.iter().filter(|block| !matches!(block, ContentBlock::Text(_))).count(),
        }
    }
}

impl<'a> From<&'a CallView> for Ending<'a> {
    fn from(call: &'a CallView) -> Self {
        Self {
            status: call.status,
            code: call.error.as_ref().map(|error| error.code.as_str()),
            ran_ms: call.started_at.and(call.duration_ms),
            hidden: call.content.iter().filter(|block| block["type"] != "text").count(),
        }
    }
}

impl Ending<'_> {
    fn lines(&self) -> Vec<String> {
        let code = self.code.map_or_else(String::new, |code| format!(" {code}"));
        let ran = self.ran_ms.map_or_else(|| ", not run".to_owned(), |duration| format!(" in {duration} ms"));
        let mut lines = vec![format!("{}{code}{ran}", self.status.as_str())];
        if self.hidden > 0 {
            lines.push(format!("{} blocks of the result are not text; print them with --json", self.hidden));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::domain::call::CallRecord;
    use crate::domain::event::EventKind;
    use crate::domain::{Failure, IdGenerator, Outcome, Time};

    use super::*;

    fn call() -> Call {
        Call::from(CallRecord::accepted(
            IdGenerator::counted().next(),
            "t".into(),
            None,
            std::sync::Arc::default(),
            Time(0),
            "n".into(),
        ))
    }

    fn lines(screen: &mut Screen, stage: Stage) -> Vec<String> {
        let coerced = vec![Coercion { pointer: "/ms".into(), from: "string".into(), to: "integer".into() }];
        let call = Arc::new(Call::from(CallRecord { coerced, ..call().into_record() }));
        screen.lines(&Event { pos: 1, seq: 1, call, stage })
    }

    fn reported(data: &serde_json::Value) -> Stage {
        Stage::Reported(Arc::new(Reported { seq: 4, kind: EventKind::Status, data: data.to_string() }))
    }

    #[test]
    fn only_changes_are_printed() {
        let mut screen = Screen::new(true);
        assert_eq!(lines(&mut screen, Stage::Waiting), ["WAIT", "coerced /ms: string → integer"]);
        assert_eq!(lines(&mut screen, Stage::Started), ["DOING"]);
        let tip = serde_json::json!({"status": "DOING", "tip": "reading", "progress": null});
        assert_eq!(lines(&mut screen, reported(&tip)), ["DOING  reading"]);
        let progress =
            serde_json::json!({"tip": "reading", "progress": {"current": 3.0, "total": 10.0, "message": "files"}});
        assert_eq!(lines(&mut screen, reported(&progress)), ["progress 3/10 files"]);
        assert!(lines(&mut screen, reported(&progress)).is_empty());
        let emission = serde_json::json!({"content": [{"type": "text", "text": "a\nb"}], "details": {}});
        assert_eq!(lines(&mut screen, reported(&emission)), ["| a", "| b"]);
    }

    #[test]
    fn events_of_the_service_are_shown_like_events_of_the_library() {
        let mut screen = Screen::new(true);
        let mut lines =
            |event: &str, data: serde_json::Value| screen.received_lines(event, &serde_json::from_value(data).unwrap());
        let status = |status: &str, phase: &str| serde_json::json!({"status": status, "phase": phase, "tip": null});
        assert_eq!(lines("status", status("WAIT", "queued")), ["WAIT"]);
        assert_eq!(lines("status", status("WAIT", "approval")), ["WAIT  approval"]);
        assert_eq!(lines("status", status("DOING", "running")), ["DOING"]);
        let report = serde_json::json!({"status": "DOING", "phase": "running", "tip": "reading",
            "progress": {"current": 3.0, "total": 10.0, "message": null}});
        assert_eq!(lines("status", report.clone()), ["DOING  reading", "progress 3/10 "]);
        assert!(lines("status", report).is_empty());
        let content = serde_json::json!({"content": [{"type": "text", "text": "a\nb"}, {"type": "image", "mime_type": "image/png"}]});
        assert_eq!(lines("progress", content), ["| a", "| b", "| (image/png)"]);
        assert!(lines("status", status("SUCCESS", "done")).is_empty());
    }

    #[test]
    fn last_line_has_the_duration_or_not_run() {
        let mut ran = call();
        ran.start(Time(1_000)).unwrap();
        ran.settle(Outcome::text("x"), Time(13_000)).unwrap();
        assert_eq!(Ending::from(&ran).lines(), ["SUCCESS in 12 ms"]);
        let mut refused = call();
        refused.settle(Failure::truncated("t").into(), Time(9_000)).unwrap();
        assert_eq!(Ending::from(&refused).lines(), ["ERROR ARGUMENTS_TRUNCATED, not run"]);
    }
}
