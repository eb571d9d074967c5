//! Output to standard output and standard error: results, notes, tables, JSON. Without colours, so that output does not
//! depend on the terminal.

use std::io::{ErrorKind, Write};

use crate::domain::{Time, json};
use comfy_table::{CellAlignment, Row, Table, presets};
use serde::Serialize;

use super::Exit;
use super::error::CliError;

/// Writes a result to standard output, ending its last line.
pub fn result(text: &str) -> Result<(), CliError> {
    // A reader that closed the output early, as `head` does, has what it needs.
    is_written(text).map(drop)
}

/// Writes a text to standard output, ending its last line. Returns `false` if the reader has closed the output.
pub fn is_written(text: &str) -> Result<bool, CliError> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::unavailable(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// Writes a line for people to standard error.
pub fn note(line: &str) {
    // A failure cannot be reported, because standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes an error to standard error and returns its exit code.
pub fn error(error: &CliError) -> Exit {
    note(&error.to_string());
    error.exit
}

/// Writes a document for programs, indented so that it can also be stored as a file.
pub fn json(document: &impl Serialize) -> Result<(), CliError> {
    result(&serde_json::to_string_pretty(document).map_err(unwritable)?)
}

/// Writes a record for programs, on one line.
pub fn json_line(record: &impl Serialize) -> Result<(), CliError> {
    result(&one_line_json(record)?)
}

/// Returns a record for programs as one line of JSON.
pub fn one_line_json(record: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(record).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> CliError {
    CliError::unavailable(format!("cannot serialize the result as JSON: {error}"))
}

/// Returns one line of at most `limit` characters without control characters, because texts of tools and their authors
/// are not trusted.
pub fn one_line(text: &str, limit: usize) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    json::shorten(&words.join(" "), limit)
}

/// Formats a time in the past, if it ever happened.
pub fn when(time: Option<Time>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| time.to_string())
}

/// Returns the name of a value as it is in JSON.
pub fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Formats a table; the columns from `numbers_from` on are aligned to the right.
pub fn table<R: Into<Row>>(header: &[&str], rows: impl IntoIterator<Item = R>, numbers_from: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= numbers_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Formats the properties of one object, one per line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = facts.iter().map(|(name, fact)| format!("{name:<widest$}  {fact}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_no_control_characters() {
        assert_eq!(one_line("a\u{1b}[31m\n\tb\r\n\nc\u{7}", 99), "a [31m b c");
        assert_eq!(one_line("天气预报", 2), "天气…");
    }

    #[test]
    fn table_aligns_numbers_to_the_right() {
        let text = table(&["NAME", "CALLS"], [["a", "1"], ["bcdef", "100"]], 1);
        assert_eq!(text, "NAME   CALLS\na          1\nbcdef    100");
    }
}
