//! Models' streams: which calls open, what is known of their arguments, and when each is complete.

mod broken;
pub mod partial;

use serde_json::Value;

pub use self::broken::Broken;
use crate::domain::Vendor;

/// What a model's stream says about its tool calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
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
    CutOff {
        /// Which call.
        place: usize,
    },
    /// The model's message has come to the end that its provider marks. Said once; what was cut off at a token limit has
    /// ended too.
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
    vendor: Option<Vendor>,
    ended: bool,
}

impl Parser {
    /// A parser at the beginning of a stream. Without a vendor the first event's shape tells whose it is.
    #[must_use]
    pub fn new(vendor: Option<Vendor>) -> Self {
        Self { vendor, ended: false }
    }

    /// Takes more of the body. What was said before an error holds.
    ///
    /// # Errors
    /// If the stream cannot be followed any further; every later piece is answered with the same error.
    pub fn push(&mut self, _bytes: &[u8], _out: &mut Vec<Said>) -> Result<(), Broken> {
        Ok(())
    }

    /// The body has ended: whatever is open is cut off.
    pub fn finish(&mut self, _out: &mut Vec<Said>) {}

    /// Whose stream it is, once that is known.
    #[must_use]
    pub fn vendor(&self) -> Option<Vendor> {
        self.vendor
    }

    /// Whether the model's message has come to the end that its provider marks.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}
