//! Incremental parsers for the streams of model vendors: the calls, their arguments, and when each call is complete.

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
pub use super::messages::Kind;
use crate::domain::{Vendor, json};

/// An event about the tool calls of a model's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// A call starts and can be displayed.
    Opened {
        /// Number of the call in the stream, from 0, including calls that the provider runs.
        call_index: usize,
        /// The id assigned by the model's provider.
        id: Option<String>,
        /// The name of the tool.
        name: String,
        /// The kind of the call.
        kind: Kind,
    },
    /// More JSON text of the arguments.
    Delta {
        /// Number of the call.
        call_index: usize,
        /// The text to append.
        text: String,
    },
    /// The arguments so far as a value, which replaces the previous value.
    Value {
        /// Number of the call.
        call_index: usize,
        /// The arguments so far.
        arguments: Value,
    },
    /// The call is complete and can start.
    Closed {
        /// Number of the call.
        call_index: usize,
        /// The final arguments according to the provider, as a JSON text or a value; `None` if the accumulated deltas
        /// are the arguments.
        arguments: Option<Value>,
    },
    /// The model's output ended within the call, so it never runs.
    Truncated {
        /// Number of the call.
        call_index: usize,
    },
    /// The provider marked the end of the model's message, also if a token limit ended it. Sent at most once, when
    /// no further events are expected.
    Ended,
}

/// A parser for a model's stream that accepts chunks of any size.
#[derive(Debug, Default)]
pub struct Parser {
    expected: Option<Vendor>,
    framing: Framing,
    /// `None` before the first event.
    dialect: Option<Dialect>,
    calls: Calls,
    /// `true` after `[DONE]`: further data is ignored.
    is_done: bool,
    broken: Option<StreamError>,
}

impl Parser {
    /// Creates a parser. Without a vendor, the format of the first event determines it.
    #[must_use]
    pub fn new(vendor: Option<Vendor>) -> Self {
        Self { expected: vendor, ..Self::default() }
    }

    /// Parses more of the body. Events before an error remain valid.
    ///
    /// # Errors
    /// Returns an error if the stream is invalid. All further calls return the same error.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if self.broken.is_none() {
            self.broken = self.take(bytes).err();
        }
        out.append(&mut self.calls.events);
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Ends the body: all open calls are truncated.
    pub fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        // The last event may lack its blank line.
        if self.broken.is_none()
            && let Some(data) = self.framing.rest()
        {
            self.broken = self.event(&data).err();
        }
        self.calls.truncate_all();
        if self.broken.is_none() && self.calls.has_ended() {
            self.calls.end();
        }
        out.append(&mut self.calls.events);
    }

    /// Returns the vendor of the stream, once it is known.
    #[must_use]
    pub fn vendor(&self) -> Option<Vendor> {
        self.dialect.as_ref().map(Dialect::vendor).or(self.expected)
    }

    /// Returns `true` if the provider has marked the end of the model's message.
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
            self.dialect = Dialect::detect(&event, self.expected)?;
        }
        self.dialect.as_mut().map_or(Ok(()), |dialect| dialect.event(event, &mut self.calls))
    }
}
