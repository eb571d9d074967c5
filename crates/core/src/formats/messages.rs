//! Messages of model vendors: parsing their calls, and the messages that return the results.

use serde_json::{Value, json};

use crate::domain::decode::DecodeError;
use crate::domain::{Call, Vendor};

mod anthropic;
mod conversation;
mod gemini;
mod ids;
mod members;
mod model_content;
mod openai;
mod recognise;
mod responses;

pub use conversation::conversation;
pub use recognise::{is_own, recognise};

/// The tool calls of a model's message.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedMessage {
    /// The vendor of the format.
    pub vendor: Vendor,
    /// The calls to run, in order, without the calls that the provider runs itself.
    pub calls: Vec<ParsedCall>,
    /// `true` if the output ended at the token limit, so that no call is known to be complete.
    pub is_cut_off: bool,
}

/// A call in a model's message.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// The model's id; `None` if it is missing or empty.
    pub id: Option<String>,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: an object, or its JSON text.
    pub arguments: Option<Value>,
    /// The vendor's form of the call.
    pub kind: Kind,
    /// `true` if the output ended within this call.
    pub is_cut_off: bool,
    /// JSON Pointer (RFC 6901) to the call in the message.
    pub pointer: String,
}

/// The form of a call, which determines the form of its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call with arguments.
    #[default]
    Function,
    /// A custom tool call of OpenAI, with text instead of arguments.
    Custom,
    /// OpenAI's `function_call`: at most one per message, without an id.
    Legacy,
    /// A call in a stream that the provider runs. It is only displayed.
    Provider,
}

/// Reasons with which vendors report that the output ended at the token limit.
const CUT_OFF: [&str; 6] =
    ["length", "max_tokens", "max_output_tokens", "model_length", "token_limit", "model_context_window_exceeded"];

/// Returns `true` if a stop reason (`stop_reason`, `finish_reason`, …) means that the token limit was reached.
#[must_use]
pub fn is_cut_off(reason: &str) -> bool {
    CUT_OFF.iter().any(|word| word.eq_ignore_ascii_case(reason))
}

/// Parses the calls of a message in this vendor's format: the message, the response around it, or a part of it.
///
/// # Errors
/// Returns an error if the body does not match the format, or if all its calls are in another vendor's format. Those
/// calls would be ignored silently otherwise.
pub fn read(vendor: Vendor, body: Value) -> Result<ParsedMessage, DecodeError> {
    let other = recognise(&body).filter(|other| *other != vendor).map(|other| (other, body.clone()));
    let spoken = read_as(vendor, body)?;
    match other {
        Some((other, body)) if spoken.calls.is_empty() => match read_as(other, body) {
            Ok(parsed) if !parsed.calls.is_empty() => {
                let message = format!("is a message of {}, not of {}", other.as_str(), vendor.as_str());
                Err(members::error_at("", message))
            }
            _ => Ok(spoken),
        },
        _ => Ok(spoken),
    }
}

fn read_as(vendor: Vendor, body: Value) -> Result<ParsedMessage, DecodeError> {
    let (calls, is_cut_off) = match vendor {
        Vendor::OpenAi => openai::read(body)?,
        Vendor::OpenAiResponses => responses::read(body)?,
        Vendor::Anthropic => anthropic::read(body)?,
        Vendor::Gemini => gemini::read(body)?,
    };
    Ok(ParsedMessage { vendor, calls, is_cut_off })
}

/// The result of a vendor's parser: calls, and `true` if all of them are truncated.
type VendorCalls = (Vec<ParsedCall>, bool);

/// The original calls of a message, for returning their results.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    vendor: Vendor,
    shown: Vec<OriginalCall>,
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
struct OriginalCall {
    id: Option<String>,
    name: String,
    kind: Kind,
}

impl OriginalCall {
    /// Returns the model's id, or the service's id if the model gave none.
    fn id<'a>(&'a self, call: &'a Call) -> String {
        self.id.clone().unwrap_or_else(|| call.id.to_string())
    }
}

impl Continuation {
    /// Creates a continuation without calls.
    #[must_use]
    pub fn new(vendor: Vendor) -> Self {
        Self { vendor, shown: Vec::new() }
    }

    /// Adds a call as the model wrote it.
    pub fn push(&mut self, id: Option<&str>, name: &str, kind: Kind) {
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        self.shown.push(OriginalCall { id, name: name.to_owned(), kind });
    }

    /// Adds a call that was submitted in the native format. An id that the vendor would reject is replaced by a
    /// deterministic one.
    pub fn push_own(&mut self, id: Option<&str>, name: &str) {
        let id = id.map(|id| ids::accepted(self.vendor, id));
        self.push(id.as_deref(), name, Kind::Function);
    }

    /// Creates the messages to append to the conversation: always an array, with a result for every call. `calls` must
    /// be in the order in which they were added.
    #[must_use]
    pub fn messages(&self, calls: &[&Call]) -> Value {
        let result = match self.vendor {
            Vendor::OpenAi => openai::result,
            Vendor::OpenAiResponses => responses::result,
            Vendor::Anthropic => anthropic::result,
            Vendor::Gemini => gemini::result,
        };
        let results: Vec<Value> = self.shown.iter().zip(calls).map(|(shown, call)| result(shown, call)).collect();
        match self.vendor {
            Vendor::Anthropic if !results.is_empty() => json!([{ "role": "user", "content": results }]),
            Vendor::Gemini if !results.is_empty() => json!([{ "role": "user", "parts": results }]),
            _ => results.into(),
        }
    }
}

impl From<&ParsedMessage> for Continuation {
    fn from(spoken: &ParsedMessage) -> Self {
        let mut continuation = Self::new(spoken.vendor);
        for call in &spoken.calls {
            continuation.push(call.id.as_deref(), &call.name, call.kind);
        }
        continuation
    }
}

#[cfg(test)]
mod tests;
