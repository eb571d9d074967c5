//! The calls of the live view.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::line;
use crate::cli::print;
use crate::cli::remote::{EventData, ServiceEvent, content_lines};
use crate::domain::{Progress, Status, Time};

/// Maximum number of calls that are kept.
const MAX_ROWS: usize = 1000;
/// Maximum length of the text of a call, in characters.
const LONGEST: usize = 300;

/// A call of the view.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub status: Status,
    pub phase: String,
    /// The arguments at first, then the last tip or output.
    pub text: String,
    pub progress: Option<Progress>,
    pub started_at: Option<Time>,
    pub duration_ms: Option<u64>,
}

/// The calls and what is known about the service.
#[derive(Debug)]
pub struct Board {
    /// The URL of the service.
    pub service: String,
    pub is_connected: bool,
    /// The calls by id. Ids are ordered by time.
    rows: BTreeMap<Uuid, Row>,
    /// Number of successful calls since the view began.
    pub succeeded: u64,
    /// Number of failed calls since the view began.
    pub failed: u64,
}

impl Board {
    /// Creates an empty view of a service that is connected.
    pub fn new(service: String) -> Self {
        Self { service, is_connected: true, rows: BTreeMap::new(), succeeded: 0, failed: 0 }
    }

    /// Adds an event of a call.
    pub fn apply(&mut self, event: &ServiceEvent, data: EventData) {
        if !matches!(event.event.as_str(), "tool_call" | "status" | "progress" | "tool_result") {
            return;
        }
        let row = self.rows.entry(data.id).or_insert_with(|| Row::new(&data.name));
        match event.event.as_str() {
            "tool_call" => row.text = print::one_line(&data.arguments.to_string(), LONGEST),
            "progress" => row.say(content_lines(&data.content).last().map(String::as_str)),
            "tool_result" => {
                let text = line::result(&data);
                row.status = if data.error.is_some() { Status::Error } else { Status::Success };
                // The status has its own column.
                row.say(text.split_once(' ').map(|(_, text)| text));
                *if data.error.is_some() { &mut self.failed } else { &mut self.succeeded } += 1;
            }
            _ => row.update(data),
        }
        if self.rows.len() > MAX_ROWS {
            let ended = self.rows.iter().find(|(_, row)| row.status.is_terminal()).map(|(id, _)| *id);
            let oldest = ended.or_else(|| self.rows.keys().next().copied());
            oldest.and_then(|id| self.rows.remove(&id));
        }
    }

    /// Returns the number of calls in this status.
    pub fn count(&self, status: Status) -> usize {
        self.rows.values().filter(|row| row.status == status).count()
    }

    /// Returns `true` if a call runs, so that its time changes.
    pub fn is_running(&self) -> bool {
        self.rows.values().any(|row| row.status == Status::Doing)
    }

    /// Returns at most `max` calls, newest first. Calls that have not ended take precedence.
    pub fn newest(&self, max: usize) -> Vec<&Row> {
        let is_open = |row: &&Row| !row.status.is_terminal();
        let open = self.rows.values().filter(is_open).count();
        let (mut open_left, mut ended_left) = (open.min(max), max.saturating_sub(open));
        let is_shown = |row: &&Row| {
            let left = if is_open(row) { &mut open_left } else { &mut ended_left };
            let is_shown = *left > 0;
            *left = left.saturating_sub(1);
            is_shown
        };
        self.rows.values().rev().filter(is_shown).collect()
    }
}

impl Row {
    fn new(name: &str) -> Self {
        let name = print::one_line(name, 128);
        let (phase, text) = (String::new(), String::new());
        Self { name, status: Status::Wait, phase, text, progress: None, started_at: None, duration_ms: None }
    }

    fn update(&mut self, data: EventData) {
        self.status = data.status.unwrap_or(self.status);
        self.phase = data.phase.unwrap_or_default();
        self.progress = data.progress.or(self.progress.take());
        self.started_at = data.started_at.or(self.started_at);
        self.duration_ms = data.duration_ms.or(self.duration_ms);
        self.say(data.tip.as_deref());
    }

    fn say(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.text = print::one_line(text, LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn apply(board: &mut Board, event: &str, number: u128, members: Value) {
        let mut data: EventData = serde_json::from_value(members).unwrap();
        (data.id, data.name) = (Uuid::from_u128(number), format!("tool{number}"));
        let event = ServiceEvent { id: String::new(), event: event.into(), data: Value::Null };
        board.apply(&event, data);
    }

    fn shown(board: &Board, max: usize) -> Vec<String> {
        board.newest(max).into_iter().map(|row| format!("{} {}", row.name, row.status.as_str())).collect()
    }

    #[test]
    fn calls_are_shown_newest_first_and_open_calls_before_ended_ones() {
        let mut board = Board::new("http://h".into());
        for number in 1..=4 {
            apply(&mut board, "tool_call", number, json!({"arguments": {"a": 1}}));
        }
        apply(&mut board, "status", 1, json!({"status": "DOING", "phase": "running"}));
        for number in 2..=4 {
            apply(&mut board, "tool_result", number, json!({"output": "x"}));
        }
        assert_eq!(shown(&board, 9), ["tool4 SUCCESS", "tool3 SUCCESS", "tool2 SUCCESS", "tool1 DOING"]);
        assert_eq!(shown(&board, 2), ["tool4 SUCCESS", "tool1 DOING"]);
        assert_eq!((board.succeeded, board.count(Status::Doing)), (3, 1));
    }

    #[test]
    fn text_follows_the_call() {
        let mut board = Board::new("http://h".into());
        let text = |board: &Board| board.newest(1)[0].text.clone();
        apply(&mut board, "tool_call", 1, json!({"arguments": {"a": 1}}));
        assert_eq!(text(&board), r#"{"a":1}"#);
        apply(&mut board, "status", 1, json!({"status": "DOING", "tip": "reads"}));
        apply(&mut board, "progress", 1, json!({"content": []}));
        assert_eq!(text(&board), "reads");
        apply(&mut board, "tool_result", 1, json!({"error": {"code": "C", "message": "m"}}));
        assert_eq!((text(&board).as_str(), board.failed), ("C: m", 1));
    }

    #[test]
    fn kept_calls_are_bounded_and_ended_calls_are_evicted_first() {
        let mut board = Board::new("http://h".into());
        apply(&mut board, "status", 1, json!({"status": "DOING"}));
        for number in 2..=1100 {
            apply(&mut board, "tool_result", number, json!({"output": ""}));
        }
        assert_eq!((board.rows.len(), board.count(Status::Doing), board.succeeded), (MAX_ROWS, 1, 1099));
    }
}
