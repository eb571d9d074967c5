//! An incremental parser for event streams (WHATWG HTML, section 9.2.6), in bounded memory.

use std::mem::take;

/// An event. Its `id` is the parser's [`Parser::last_event_id`], and its `retry` is the parser's [`Parser::take_retry`].
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty if it is missing.
    pub name: Vec<u8>,
    /// The `data` fields, joined by newlines.
    pub data: Vec<u8>,
}

/// The error for an event that exceeds the parser's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// A parser that accepts chunks of any size.
#[derive(Debug)]
pub struct Parser {
    /// Maximum size of one event, in bytes.
    limit: usize,
    /// The current incomplete line.
    line: Vec<u8>,
    name: Vec<u8>,
    /// `None` before the first `data` field: an event without data is ignored.
    data: Option<Vec<u8>>,
    /// The last `id` field. It applies from the end of its event on.
    id: Vec<u8>,
    last_event_id: Vec<u8>,
    /// The last `retry` field, in milliseconds.
    retry: Option<u64>,
    /// `true` if the last line ended with CR, so that a following LF belongs to it.
    after_cr: bool,
    /// `true` if the first line, which may start with a byte order mark, is complete.
    begun: bool,
}

impl Parser {
    /// Creates a parser that buffers at most `limit` bytes of one event.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let (line, name, id, last_event_id) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { limit, line, name, data: None, id, last_event_id, retry: None, after_cr: false, begun: false }
    }

    /// Returns the id to resume from: the last `id` of a complete event. It is empty before the first one.
    #[must_use]
    pub fn last_event_id(&self) -> &[u8] {
        &self.last_event_id
    }

    /// Returns the time after which the server wants to be asked again, in milliseconds, if it has sent one since the last call.
    pub fn take_retry(&mut self) -> Option<u64> {
        self.retry.take()
    }

    /// Returns the next complete event and advances `input` past it, or consumes all of `input` and returns `None`.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if the event or a single line exceeds the limit.
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

    /// Returns `true` if an event is incomplete because its blank line is missing. At the end of a stream it is
    /// discarded.
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
            self.last_event_id.clone_from(&self.id);
            return self.data.take().map(|data| Event { name, data });
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let begin = match line.get(colon..) {
            Some([b':', b' ', ..]) => colon + 2,
            Some([b':', ..]) => colon + 1,
            _ => colon,
        };
        // A line that starts with a colon is a comment: its field name is empty.
        match &line[..colon] {
            b"event" => self.name = line.split_off(begin),
            // An id with a NUL is ignored by the standard.
            b"id" if !line[begin..].contains(&0) => self.id = line.split_off(begin),
            b"retry" => {
                self.retry = std::str::from_utf8(&line[begin..]).ok().and_then(|ms| ms.parse().ok()).or(self.retry)
            }
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(&line[begin..]);
                }
                // A large event is mostly one line, so it is moved instead of copied.
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
