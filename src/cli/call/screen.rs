//! The progress of a running call on standard error, line by line.

use crate::domain::call::Coercion;
use crate::domain::event::{Event, Reported, Stage};
use crate::domain::{Call, ContentBlock, Progress, Status};
use serde::Deserialize;

use crate::cli::print;

/// Maximum length of a line, in characters.
const LONGEST: usize = 500;

/// A progress display that prints a line only if something has changed.
#[derive(Debug, Default)]
pub struct Screen {
    is_on: bool,
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

    /// Prints how the call ended.
    pub fn end(&self, call: &Call) {
        self.print(&last_lines(call));
    }

    fn print(&self, lines: &[String]) {
        for line in lines.iter().filter(|_| self.is_on) {
            print::note(&print::one_line(line, LONGEST));
        }
    }

    fn lines(&mut self, event: &Event) -> Vec<String> {
        match &event.stage {
            Stage::Waiting => {
                let coerced = event.call.coerced.iter();
                let coerced = coerced.map(|Coercion { pointer, from, to }| format!("coerced {pointer}: {from} → {to}"));
                std::iter::once(Status::Wait.as_str().to_owned()).chain(coerced).collect()
            }
            Stage::Started => vec![Status::Doing.as_str().to_owned()],
            Stage::Reported(reported) => self.report(reported),
            Stage::Accepted | Stage::Settled | Stage::Result => Vec::new(),
        }
    }

    fn report(&mut self, reported: &Reported) -> Vec<String> {
        // The data has the format of this version; unreadable data would only reduce the display.
        let Report { tip, progress, content } = serde_json::from_str(&reported.data).unwrap_or_default();
        let mut lines = Vec::new();
        if tip.is_some() && tip != self.tip {
            lines.push(format!("{}  {}", Status::Doing.as_str(), tip.as_deref().unwrap_or_default()));
            self.tip = tip;
        }
        if progress.is_some() && progress != self.progress {
            lines.extend(progress.as_ref().map(progress_line));
            self.progress = progress;
        }
        for block in content {
            match block {
                ContentBlock::Text(text) => lines.extend(text.lines().map(|line| format!("| {line}"))),
                ContentBlock::Image { mime_type, .. } => lines.push(format!("| ({mime_type})")),
                ContentBlock::Other(_) => {}
            }
        }
        lines
    }
}

fn progress_line(Progress { current, total, message }: &Progress) -> String {
    let total = total.map_or_else(String::new, |total| format!("/{total}"));
    format!("progress {current}{total} {}", message.as_deref().unwrap_or_default())
}

fn last_lines(call: &Call) -> Vec<String> {
    let outcome = call.outcome.as_deref();
    let error = outcome.and_then(|outcome| outcome.error.as_ref());
    let code = error.map_or_else(String::new, |failure| format!(" {}", failure.code.as_str()));
    let ran = match call.started_at.and(call.duration_ms()) {
        Some(duration) => format!(" in {duration} ms"),
        None => ", not run".to_owned(),
    };
    let mut lines = vec![format!("{}{code}{ran}", call.status.as_str())];
    let content = outcome.map_or(&[][..], |outcome| &outcome.content);
    let hidden = content.iter().filter(|block| !matches!(block, ContentBlock::Text(_))).count();
    if hidden > 0 {
        lines.push(format!("{hidden} blocks of the result are not text; print them with --json"));
    }
    lines
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
    fn last_line_has_the_duration_or_not_run() {
        let mut ran = call();
        ran.start(Time(1_000)).unwrap();
        ran.settle(Outcome::text("x"), Time(13_000)).unwrap();
        assert_eq!(last_lines(&ran), ["SUCCESS in 12 ms"]);
        let mut refused = call();
        refused.settle(Failure::truncated("t").into(), Time(9_000)).unwrap();
        assert_eq!(last_lines(&refused), ["ERROR ARGUMENTS_TRUNCATED, not run"]);
    }
}
