//! The syntax of an event stream (WHATWG HTML, section 9.2.6), read as it comes and in bounded memory.

use std::mem::take;

/// One event. A tool's answer is read once, so `id` and `retry`, which are for reconnecting, are not kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty where there is none.
    pub name: Vec<u8>,
    /// The `data` fields, joined by newlines.
    pub data: Vec<u8>,
}

/// An event that is larger than the parser's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Takes the bytes of a stream in pieces of any size and gives its events.
#[derive(Debug)]
pub struct Parser {
    /// Bytes that may be held between two events.
    limit: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    name: Vec<u8>,
    /// `None` before the first `data` field: an event without one is none.
    data: Option<Vec<u8>>,
    /// The last line ended with CR: a LF that follows belongs to it.
    after_cr: bool,
    /// The first line, which may begin with a byte order mark, is complete.
    begun: bool,
}

impl Parser {
    /// A parser at the beginning of a stream, which holds no more than `limit` bytes of one event.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), name: Vec::new(), data: None, after_cr: false, begun: false }
    }

    /// The next event that is complete within `input`, which is left with what follows it; `None` once all of `input` is
    /// taken in.
    ///
    /// # Errors
    /// If the event, or a single line, is larger than the limit.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, TooLarge> {
        while !input.is_empty() {
            if take(&mut self.after_cr) && input[0] == b'\n' {
                *input = &input[1..];
                continue;
            }
            let end = input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &input[..end.unwrap_or(input.len())];
            if part.len() > self.limit.saturating_sub(self.held()) {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else {
                *input = &[];
                return Ok(None);
            };
            self.after_cr = input[end] == b'\r';
            *input = &input[end + 1..];
            if let Some(event) = self.end_of_line() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether an event has begun that no blank line has ended. At the end of a stream it does not count.
    #[must_use]
    pub fn is_within_event(&self) -> bool {
        self.held() > 0
    }

    fn held(&self) -> usize {
        self.line.len() + self.name.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let mut line = take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            let name = take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let begin = match line.get(colon..) {
            Some([b':', b' ', ..]) => colon + 2,
            Some([b':', ..]) => colon + 1,
            _ => colon,
        };
        // A line that begins with a colon is a comment: its field has no name.
        match &line[..colon] {
            b"event" => self.name = line.split_off(begin),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(&line[begin..]);
                }
                // A large event is mostly one line, which is not copied.
                first => {
                    line.drain(..begin);
                    *first = Some(line);
                }
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
#[path = "sse/tests.rs"]
mod tests;
