//! The lines of the live view.

use super::board::{Board, Row};
use crate::domain::{Progress, Status, Time};

/// Width of a progress bar, in characters.
const BAR: usize = 10;
/// Width of the column of tools, in characters.
const NAME: usize = 24;

/// The colour of a part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    Plain,
    Faint,
    Waiting,
    Running,
    Good,
    Bad,
}

/// A part of a line in one colour.
pub type Span = (Tint, String);

/// Returns the lines of a terminal with this width and height.
pub fn lines(board: &Board, (width, height): (u16, u16), now: Time) -> Vec<Vec<Span>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = vec![header(board), vec![(Tint::Faint, columns("STATUS", "TOOL", "PROGRESS", "TIME", ""))]];
    let rows = board.newest(height.saturating_sub(lines.len() + 1));
    lines.extend(rows.into_iter().map(|row| line(row, now)));
    lines.resize(height.saturating_sub(1).max(lines.len()), Vec::new());
    lines.push(vec![(Tint::Faint, "q quits".to_owned())]);
    lines.truncate(height);
    lines.into_iter().map(|line| fitted(line, width)).collect()
}

fn header(board: &Board) -> Vec<Span> {
    let mut spans = vec![(Tint::Plain, format!("{}  ", board.service))];
    if !board.is_connected {
        spans.push((Tint::Bad, "connection lost, resuming  ".to_owned()));
    }
    let counts = [
        (Tint::Running, board.count(Status::Doing).to_string(), "running"),
        (Tint::Waiting, board.count(Status::Wait).to_string(), "waiting"),
        (Tint::Good, board.succeeded.to_string(), "succeeded"),
        (Tint::Bad, board.failed.to_string(), "failed"),
    ];
    for (tint, count, word) in counts {
        spans.push((tint, count));
        spans.push((Tint::Faint, format!(" {word}  ")));
    }
    spans
}

fn line(row: &Row, now: Time) -> Vec<Span> {
    let tint = match row.status {
        Status::Wait => Tint::Waiting,
        Status::Doing => Tint::Running,
        Status::Success => Tint::Good,
        Status::Error => Tint::Bad,
    };
    let status = match (row.status, row.phase.as_str()) {
        (Status::Wait | Status::Doing, phase @ ("approval" | "retrying" | "external")) => phase.to_uppercase(),
        (status, _) => status.as_str().to_owned(),
    };
    let elapsed = row.started_at.filter(|_| !row.status.is_terminal()).map(|start| now.millis_since(start));
    let time = row.duration_ms.or(elapsed).map_or_else(String::new, duration);
    let progress = row.progress.as_ref().map_or_else(String::new, bar);
    // A tool that ends is not always at the end of its progress.
    let bar_tint = if row.status.is_terminal() { Tint::Faint } else { Tint::Running };
    let (name, text) = (cut(&row.name, NAME), row.text.clone());
    vec![
        (tint, format!("{status:<8}  ")),
        (Tint::Plain, format!("{name:<NAME$}  ")),
        (bar_tint, format!("{progress:<15}  ")),
        (Tint::Plain, format!("{time:>8}  ")),
        (Tint::Faint, text),
    ]
}

fn columns(status: &str, name: &str, progress: &str, time: &str, text: &str) -> String {
    format!("{status:<8}  {name:<NAME$}  {progress:<15}  {time:>8}  {text}")
}

/// Returns a bar with the percentage, or the current value if the total is unknown.
fn bar(progress: &Progress) -> String {
    let Some(total) = progress.total.filter(|total| *total > 0.0) else { return format!("{}", progress.current) };
    let share = (progress.current / total).clamp(0.0, 1.0);
    // The share is between 0 and 1, so the conversions cannot overflow.
    let (filled, percent) = ((share * BAR as f64).round() as usize, (share * 100.0).round());
    format!("{}{} {percent:>3}%", "█".repeat(filled), "░".repeat(BAR.saturating_sub(filled)))
}

/// Returns a duration in the unit that fits it.
fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} m {:02} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

/// Cuts a line to the width of the terminal.
fn fitted(spans: Vec<Span>, width: usize) -> Vec<Span> {
    let mut left = width;
    let cut_to_left = |(tint, text): Span| {
        let text = cut(&text, left);
        left -= text.chars().count();
        (tint, text)
    };
    spans.into_iter().map(cut_to_left).filter(|(_, text)| !text.is_empty()).collect()
}

fn cut(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(1)).chain("…".chars().take(max_chars)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::cli::remote::{EventData, ServiceEvent};

    fn board(events: &[(&str, serde_json::Value)]) -> Board {
        let mut board = Board::new("http://h/p".into());
        for (event, data) in events {
            let event = ServiceEvent { id: String::new(), event: (*event).into(), data: data.clone() };
            let data: EventData = serde_json::from_value(data.clone()).unwrap();
            board.apply(&event, EventData { id: Uuid::from_u128(7), name: "wait".into(), ..data });
        }
        board
    }

    fn text(lines: &[Vec<Span>]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect()
    }

    #[test]
    fn running_call_has_a_bar_and_its_time() {
        let start = Time::parse("2026-01-31T12:00:00Z").unwrap();
        let status = json!({"status": "DOING", "phase": "running", "tip": "reads", "started_at": start,
            "progress": {"current": 3.0, "total": 10.0, "message": null}});
        let board = board(&[("tool_call", json!({"arguments": {}})), ("status", status)]);
        let lines = lines(&board, (80, 5), start.plus_millis(1_250));
        let shown = text(&lines);
        assert_eq!(shown[0], "http://h/p  1 running  0 waiting  0 succeeded  0 failed  ");
        assert_eq!(shown[2].trim_end(), format!("DOING     {:<24}  ███░░░░░░░  30%     1.2 s  reads", "wait"));
        assert_eq!((lines[2][0].0, lines.len(), shown[4].as_str()), (Tint::Running, 5, "q quits"));
    }

    #[test]
    fn ended_call_has_its_duration_and_failure() {
        let ended = json!({"status": "ERROR", "phase": "done", "duration_ms": 65_000});
        let board = board(&[("status", ended), ("tool_result", json!({"error": {"code": "C", "message": "m"}}))]);
        let lines = lines(&board, (120, 5), Time(0));
        assert!(text(&lines)[2].ends_with("1 m 05 s  C: m"), "{:?}", text(&lines));
        assert_eq!(lines[2][0], (Tint::Bad, "ERROR     ".to_owned()));
    }

    #[test]
    fn lines_fit_any_terminal() {
        let board = board(&[("tool_call", json!({"arguments": {"text": "北".repeat(100)}}))]);
        for (width, height) in [(0, 0), (1, 1), (10, 2), (40, 3), (200, 50)] {
            let lines = lines(&board, (width, height), Time(0));
            assert_eq!(lines.len(), usize::from(height));
            for line in text(&lines) {
                assert!(line.chars().count() <= usize::from(width), "{line}");
            }
        }
        assert_eq!(cut("abcdef", 3), "ab…");
    }
}
