//! Incremental parsing of standard output: event lines are separated from the plain output.

use serde_json::Value;

use crate::executor::http::MAX_ANSWER_BYTES;
use crate::executor::report::Report;
use toolpost_core::domain::{ToolOutput, json};

/// The member name that every event line contains near its beginning.
const NAME: &[u8] = b"\"event\"";
/// Number of bytes searched for the name.
const MAX_SEARCHED: usize = 4096;

/// The output of a program so far.
#[derive(Debug, Default)]
pub struct Output {
    /// The plain output as it was written.
    pub plain: Vec<u8>,
    /// The first result.
    pub result: Option<Value>,
    /// The incomplete last line.
    line: Vec<u8>,
}

/// The output exceeds [`MAX_ANSWER_BYTES`].
#[derive(Debug, PartialEq)]
pub struct TooLarge;

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// `{"event":"progress",…}`.
    Progress(Box<Report>),
    /// `{"event":"result",…}`.
    Result(Value),
    /// Any other line, which is plain output.
    Plain(Vec<u8>),
}

impl Output {
    /// Consumes `rest` up to the next line that looks like an event, which the caller must pass to [`read`].
    ///
    /// # Errors
    /// Returns [`TooLarge`] if the output exceeds the maximum size.
    pub fn next(&mut self, rest: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLarge> {
        while !rest.is_empty() {
            if self.line.is_empty() {
                // Add the complete lines before the first brace.
                let brace = rest.iter().position(|byte| *byte == b'{').unwrap_or(rest.len());
                let end = rest[..brace].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                let lines = self.cut(rest, end)?;
                self.plain.extend_from_slice(lines);
            }
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
            let part = self.cut(rest, end)?;
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n")
                && let Some(line) = self.finish()
            {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Completes the last line, which need not end with a newline. Returns it if it looks like an event.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if looks_like_event(&self.line) {
            return Some(std::mem::take(&mut self.line));
        }
        self.plain.append(&mut self.line);
        None
    }

    fn cut<'r>(&self, rest: &mut &'r [u8], at: usize) -> Result<&'r [u8], TooLarge> {
        let (part, behind) = rest.split_at(at);
        *rest = behind;
        if self.len() + part.len() > MAX_ANSWER_BYTES { Err(TooLarge) } else { Ok(part) }
    }

    /// Returns the number of bytes without events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plain.len() + self.line.len()
    }

    /// Returns the result, or else the plain output: JSON if it is valid JSON, else text with invalid UTF-8 replaced.
    #[must_use]
    pub fn answer(self) -> ToolOutput {
        if let Some(result) = self.result {
            return ToolOutput::Json(result);
        }
        if self.plain.is_empty() {
            return ToolOutput::Nothing;
        }
        match String::from_utf8(self.plain) {
            Ok(text) => ToolOutput::of_json(text).unwrap_or_else(|(text, _)| ToolOutput::Text(text)),
            Err(error) => ToolOutput::Text(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        }
    }
}

fn looks_like_event(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.first() == Some(&b'{') && line.windows(NAME.len()).take(MAX_SEARCHED).any(|word| word == NAME)
}

/// Parses a line that looks like an event.
#[must_use]
pub fn read(line: Vec<u8>) -> Line {
    let Ok(Value::Object(mut members)) = json::parse(line.trim_ascii()) else { return Line::Plain(line) };
    match members.get("event").and_then(Value::as_str) {
        Some("progress") => {
            members.shift_remove("event");
            let read = Report::read(Value::Object(members));
            Line::Progress(Box::new(read.unwrap_or_else(|fault| Report::invalid(&fault))))
        }
        Some("result") => {
            members.shift_remove("event");
            // `result` as the only member is the value itself, of any type.
            let is_alone = members.len() == 1;
            match members.shift_remove("result") {
                Some(result) if is_alone => Line::Result(result),
                Some(result) => {
                    members.insert("result".to_owned(), result);
                    Line::Result(Value::Object(members))
                }
                None => Line::Result(Value::Object(members)),
            }
        }
        _ => Line::Plain(line),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Adds a chunk and returns the number of reports in it.
    fn push(output: &mut Output, mut chunk: &[u8]) -> Result<usize, TooLarge> {
        let mut reports = 0;
        while let Some(line) = output.next(&mut chunk)? {
            reports += settle(output, line);
        }
        Ok(reports)
    }

    fn settle(output: &mut Output, line: Vec<u8>) -> usize {
        match super::read(line) {
            Line::Progress(_) => return 1,
            Line::Result(result) => {
                output.result.get_or_insert(result);
            }
            Line::Plain(mut line) => output.plain.append(&mut line),
        }
        0
    }

    fn read(text: &[u8]) -> (ToolOutput, usize) {
        let in_chunks = |chunks: &mut dyn Iterator<Item = &[u8]>| {
            let mut output = Output::default();
            let mut reports: usize = chunks.map(|chunk| push(&mut output, chunk).unwrap()).sum();
            if let Some(line) = output.finish() {
                reports += settle(&mut output, line);
            }
            (output.answer(), reports)
        };
        let complete = in_chunks(&mut std::iter::once(text));
        for size in [1, 2, 5] {
            assert_eq!(in_chunks(&mut text.chunks(size)), complete, "independent of the chunks");
        }
        complete
    }

    #[test]
    fn plain_output_is_json_or_text() {
        assert_eq!(read(b""), (ToolOutput::Nothing, 0));
        assert_eq!(read(b"hi\nthere\n"), (ToolOutput::Text("hi\nthere\n".into()), 0));
        assert_eq!(read(b"{\"a\":\n 1}\n"), (ToolOutput::Json(json!({"a": 1})), 0));
        assert_eq!(read(b"caf\xe9"), (ToolOutput::Text("caf\u{fffd}".into()), 0));
    }

    #[test]
    fn events_are_no_output() {
        let (answer, reports) = read(b"a\n{\"event\":\"progress\",\"tip\":\"x\"}\r\nb\n  {\"event\":\"progress\"}");
        assert_eq!((answer, reports), (ToolOutput::Text("a\nb\n".into()), 2));
        let result = read(b"noise\n{\"event\":\"result\",\"output\":\"o\"}\n{\"event\":\"result\",\"result\":2}\nmore");
        assert_eq!(result, (ToolOutput::Json(json!({"output": "o"})), 0));
        assert_eq!(read(b"{\"event\":\"result\",\"result\":[1]}").0, ToolOutput::Json(json!([1])));
    }

    #[test]
    fn lines_that_resemble_events_are_output() {
        for text in ["{\"event\":\"other\"}", "{\"event\":5}"] {
            assert_eq!(read(text.as_bytes()).0, ToolOutput::Json(serde_json::from_str(text).unwrap()));
        }
        assert!(matches!(read(b"{\"event\":\"progress\"").0, ToolOutput::Text(_)));
        let pretty = b"text {\"event\":\"progress\"}\n \n{}\n";
        assert_eq!(read(pretty), (ToolOutput::Text(String::from_utf8(pretty.to_vec()).unwrap()), 0));
    }

    #[test]
    fn too_much_output_is_rejected_and_reports_do_not_count() {
        let mut output = Output::default();
        let report = format!("{{\"event\":\"progress\",\"tip\":\"{}\"}}\n", "x".repeat(1 << 20));
        for _ in 0..20 {
            assert_eq!(push(&mut output, report.as_bytes()), Ok(1));
        }
        let mebibyte = vec![b'x'; 1 << 20];
        for _ in 0..16 {
            push(&mut output, &mebibyte).unwrap();
        }
        assert_eq!(push(&mut output, b"x"), Err(TooLarge));
    }
}
