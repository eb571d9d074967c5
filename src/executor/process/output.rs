//! Standard output as it comes: lines that are events are taken out, the rest is the plain output.

use serde_json::Value;

use crate::domain::{Answer, json};
use crate::executor::http::MAX_ANSWER_BYTES;
use crate::executor::report::Report;

/// What a program has written so far.
#[derive(Debug, Default)]
pub struct Output {
    plain: Vec<u8>,
    line: Vec<u8>,
    result: Option<Value>,
}

/// More than a call may answer.
#[derive(Debug, PartialEq)]
pub struct TooLarge;

/// A line that means something.
enum Event {
    Progress(Report),
    Result(Value),
}

impl Output {
    /// Takes a piece; the reports in it, in their order.
    ///
    /// # Errors
    /// If there is too much that is not reports.
    pub fn take(&mut self, piece: &[u8]) -> Result<Vec<Report>, TooLarge> {
        let mut reports = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.plain.len() + self.line.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                reports.extend(self.end_line());
            }
        }
        Ok(reports)
    }

    /// The last line need not be ended.
    pub fn finish(&mut self) -> Option<Report> {
        self.end_line()
    }

    fn end_line(&mut self) -> Option<Report> {
        match event(&self.line) {
            Some(Event::Progress(report)) => {
                self.line.clear();
                Some(report)
            }
            Some(Event::Result(result)) => {
                self.line.clear();
                self.result.get_or_insert(result);
                None
            }
            None => {
                self.plain.append(&mut self.line);
                None
            }
        }
    }

    /// The result, or else the plain output: JSON where it is such, else text, in which what is no UTF-8 is replaced.
    #[must_use]
    pub fn answer(self) -> Answer {
        if let Some(result) = self.result {
            return Answer::Json(result);
        }
        if self.plain.is_empty() {
            return Answer::Nothing;
        }
        match json::parse(&self.plain) {
            Ok(value) => Answer::Json(value),
            Err(_) => Answer::Text(String::from_utf8_lossy(&self.plain).into_owned()),
        }
    }

    /// The same as text as it was written.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.plain).into_owned()
    }

    /// Whether there is a result beside the plain output.
    #[must_use]
    pub fn has_result(&self) -> bool {
        self.result.is_some()
    }
}

/// `{"event":"progress",…}` or `{"event":"result",…}`; anything else is output.
fn event(line: &[u8]) -> Option<Event> {
    let line = line.trim_ascii();
    let looks_like_one = line.first() == Some(&b'{') && line.windows(7).take(4096).any(|word| word == b"\"event\"");
    if !looks_like_one {
        return None;
    }
    let Ok(Value::Object(mut members)) = json::parse(line) else { return None };
    match members.get("event")?.as_str()? {
        "progress" => {
            members.shift_remove("event");
            let read = Report::read(Value::Object(members));
            Some(Event::Progress(read.unwrap_or_else(|fault| Report::invalid(&fault))))
        }
        "result" => {
            members.shift_remove("event");
            // `result` alone is the value itself, whatever that is.
            match members.len() {
                1 if members.contains_key("result") => members.shift_remove("result").map(Event::Result),
                _ => Some(Event::Result(Value::Object(members))),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &[u8]) -> (Answer, usize) {
        let (mut whole, mut pieces) = (Output::default(), Output::default());
        let mut reports = whole.take(text).unwrap().len();
        reports += usize::from(whole.finish().is_some());
        let mut told = 0;
        for byte in text {
            told += pieces.take(&[*byte]).unwrap().len();
        }
        told += usize::from(pieces.finish().is_some());
        let (whole, pieces) = (whole.answer(), pieces.answer());
        assert_eq!((&whole, reports), (&pieces, told), "however it comes");
        (whole, reports)
    }

    #[test]
    fn plain_output_is_json_or_text_as_it_is() {
        assert_eq!(read(b""), (Answer::Nothing, 0));
        assert_eq!(read(b"hi\nthere\n"), (Answer::Text("hi\nthere\n".into()), 0));
        assert_eq!(read(b"{\"a\":\n 1}\n"), (Answer::Json(json!({"a": 1})), 0));
        assert_eq!(read(b"caf\xe9"), (Answer::Text("caf\u{fffd}".into()), 0));
    }

    #[test]
    fn events_are_no_output() {
        let (answer, reports) = read(b"a\n{\"event\":\"progress\",\"tip\":\"x\"}\r\nb\n  {\"event\":\"progress\"}");
        assert_eq!((answer, reports), (Answer::Text("a\nb\n".into()), 2));
        let result = read(b"noise\n{\"event\":\"result\",\"output\":\"o\"}\n{\"event\":\"result\",\"result\":2}\nmore");
        assert_eq!(result, (Answer::Json(json!({"output": "o"})), 0));
        assert_eq!(read(b"{\"event\":\"result\",\"result\":[1]}").0, Answer::Json(json!([1])));
    }

    #[test]
    fn what_only_looks_like_an_event_is_output() {
        for text in ["{\"event\":\"other\"}", "{\"event\":5}"] {
            assert_eq!(read(text.as_bytes()).0, Answer::Json(serde_json::from_str(text).unwrap()));
        }
        assert!(matches!(read(b"{\"event\":\"progress\"").0, Answer::Text(_)));
    }

    #[test]
    fn too_much_is_refused_but_reports_do_not_count() {
        let mut output = Output::default();
        let report = format!("{{\"event\":\"progress\",\"tip\":\"{}\"}}\n", "x".repeat(1 << 20));
        for _ in 0..20 {
            assert_eq!(output.take(report.as_bytes()).unwrap().len(), 1);
        }
        let mebibyte = vec![b'x'; 1 << 20];
        for _ in 0..16 {
            output.take(&mebibyte).unwrap();
        }
        assert_eq!(output.take(b"x"), Err(TooLarge));
    }
}
