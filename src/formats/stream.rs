//! Models' streams: which calls open, what is known of their arguments, and when each is complete.

mod anthropic;
mod calls;
mod data;
mod dialect;
mod error;
mod framing;
mod gemini;
mod openai;
pub mod partial;
mod responses;
mod scan;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::calls::Calls;
use self::dialect::Dialect;
pub use self::error::StreamError;
use self::framing::Framing;
use crate::domain::{Vendor, json};

/// What a model's stream says about its tool calls.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// A call begins: its card can be shown.
    Opened {
        /// Numbers the calls of the stream from 0, the provider's own among them.
        place: usize,
        /// The id that the model's provider gave it.
        id: Option<String>,
        /// Its tool.
        name: String,
        /// Who runs it.
        kind: Kind,
    },
    /// More of its arguments' JSON text.
    Delta {
        /// Which call.
        place: usize,
        /// To be appended.
        text: String,
    },
    /// Its arguments so far as a value, which replaces what was known.
    Value {
        /// Which call.
        place: usize,
        /// All that is known.
        arguments: Value,
    },
    /// Its own block is closed: it can start.
    Closed {
        /// Which call.
        place: usize,
        /// What the provider says that the arguments are in the end, a JSON text or a value; without it they are what the
        /// deltas came to.
        arguments: Option<Value>,
    },
    /// The model's output ended within it: it never runs.
    Truncated {
        /// Which call.
        place: usize,
    },
    /// The model's message has come to the end that its provider marks; what was cut off at a token limit has ended too.
    /// Said once, when nothing else is to be expected.
    Ended,
}

/// Who runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// We do.
    Function,
    /// We do; OpenAI's free text, whose arguments are `{"input": text}`.
    Custom,
    /// The provider does: it is shown and never run.
    Provider,
    /// We do; OpenAI's `function_call` of old, which has no id.
    Legacy,
}

/// Takes the bytes of a model's stream in pieces of any size and says what they tell about its calls.
#[derive(Debug)]
pub struct Parser {
    expected: Option<Vendor>,
    framing: Framing,
    /// `None` before the first event.
    dialect: Option<Dialect>,
    calls: Calls,
    /// `[DONE]` has come: what follows is nobody's.
    is_done: bool,
    broken: Option<StreamError>,
}

impl Parser {
    /// A parser at the beginning of a stream. Without a vendor the first event's shape tells whose it is.
    #[must_use]
    pub fn new(vendor: Option<Vendor>) -> Self {
        let (framing, calls) = (Framing::new(), Calls::default());
        Self { expected: vendor, framing, dialect: None, calls, is_done: false, broken: None }
    }

    /// Takes more of the body. What was said before an error holds.
    ///
    /// # Errors
    /// If the stream cannot be followed any further; every later piece is answered with the same error.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if self.broken.is_none() {
            self.broken = self.take(bytes).err();
        }
        out.append(&mut self.calls.said);
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// The body has ended: whatever is open is cut off.
    pub fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        // A last event that is not whole ends the stream within it, as one that did not come does.
        if self.broken.is_none()
            && let Some(data) = self.framing.rest()
        {
            self.broken = self.event(&data).err();
        }
        self.calls.cut_off_all();
        if self.broken.is_none() && self.calls.has_ended() {
            self.calls.end();
        }
        out.append(&mut self.calls.said);
    }

    /// Whose stream it is, once that is known.
    #[must_use]
    pub fn vendor(&self) -> Option<Vendor> {
        self.dialect.as_ref().map(Dialect::vendor).or(self.expected)
    }

    /// Whether the model's message has come to the end that its provider marks.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.calls.has_ended()
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        while let Some(data) = self.framing.next(&mut bytes)? {
            self.event(&data)?;
        }
        Ok(())
    }

    fn event(&mut self, data: &[u8]) -> Result<(), StreamError> {
        let data = data.trim_ascii();
        if data.is_empty() || self.is_done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.is_done = true;
            return self.dialect.as_mut().map_or(Ok(()), |dialect| dialect.done(&mut self.calls));
        }
        if self.dialect.as_mut().is_some_and(|dialect| dialect.frequent(data, &mut self.calls)) {
            return Ok(());
        }
        let parsed = match json::parse(data) {
            Ok(parsed) => parsed,
            Err(_) if self.dialect.as_ref().is_some_and(|dialect| dialect.is_foreign(data)) => return Ok(()),
            Err(error) => return Err(StreamError::NotJson(error.to_string())),
        };
        match parsed {
            Value::Array(items) => items.into_iter().try_for_each(|item| self.object(item)),
            value => self.object(value),
        }
    }

    fn object(&mut self, value: Value) -> Result<(), StreamError> {
        let Value::Object(event) = value else { return Err(StreamError::NotJson("not an object".to_owned())) };
        if let Some(message) = dialect::error_in(&event) {
            return Err(StreamError::Provider(message));
        }
        if self.dialect.is_none() {
            self.dialect = Dialect::told_by(&event, self.expected)?;
        }
        self.dialect.as_mut().map_or(Ok(()), |dialect| dialect.event(event, &mut self.calls))
    }
}
