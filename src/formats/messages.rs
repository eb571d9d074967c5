//! Models' own messages: the calls that stand in them, and the messages by which a conversation goes on.

use serde_json::{Map, Value};

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

/// What a model said, as far as it is for us.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedMessage {
    /// Whose shape it has.
    pub vendor: Vendor,
    /// The calls that are ours to run, in order. What the provider runs itself is not among them.
    pub calls: Vec<ParsedCall>,
    /// The output ended at the token limit, so none of the calls is known to be whole.
    pub is_cut_off: bool,
}

/// One call in a model's message.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// The model's id; `None` where it is missing or empty.
    pub id: Option<String>,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// As the model wrote them: an object, or the text of one.
    pub arguments: Option<Value>,
    /// In which of the vendor's shapes it came.
    pub kind: Kind,
    /// The output ended within this call.
    pub is_cut_off: bool,
    /// Where it stands in the message (RFC 6901).
    pub pointer: String,
}

/// The shapes in which one vendor's calls come, and their results go back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call with arguments.
    #[default]
    Function,
    /// OpenAI's custom tools: a call with a text.
    Custom,
    /// OpenAI's `function_call`, of which a message has only one, without an id.
    Legacy,
}

/// Words by which vendors say that the output ended at the token limit.
const CUT_OFF: [&str; 6] =
    ["length", "max_tokens", "max_output_tokens", "model_length", "token_limit", "model_context_window_exceeded"];

/// Whether a reason to stop (`stop_reason`, `finish_reason`, …) says that the output was cut off at the token limit.
#[must_use]
pub fn is_cut_off(reason: &str) -> bool {
    CUT_OFF.iter().any(|word| word.eq_ignore_ascii_case(reason))
}

/// Finds the calls in a message of this vendor: the message, the whole answer around it, or a part of it.
///
/// # Errors
/// If it does not have that shape; also if it has no call in this vendor's shape and some in another's, so that none is
/// passed over in silence.
pub fn read(vendor: Vendor, body: Value) -> Result<ParsedMessage, DecodeError> {
    let other = recognise(&body).filter(|other| *other != vendor).map(|other| (other, body.clone()));
    let spoken = read_as(vendor, body)?;
    match other {
        Some((other, body)) if spoken.calls.is_empty() => match read_as(other, body) {
            Ok(said) if !said.calls.is_empty() => {
                let message = format!("is a message of {}, not of {}", other.as_str(), vendor.as_str());
                Err(members::wrong("", message))
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

/// What a vendor's reader finds: calls, and whether all of them are cut off.
type VendorCalls = (Vec<ParsedCall>, bool);

/// What is remembered of a model's calls, so that their results can be told to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    vendor: Vendor,
    shown: Vec<OriginalCall>,
}

/// One call as the model knows it.
#[derive(Debug, Clone, PartialEq)]
struct OriginalCall {
    id: Option<String>,
    name: String,
    kind: Kind,
}

impl OriginalCall {
    /// The model's id, or ours where it gave none.
    fn id<'a>(&'a self, call: &'a Call) -> String {
        self.id.clone().unwrap_or_else(|| call.id.to_string())
    }
}

impl Continuation {
    /// Of no calls yet.
    #[must_use]
    pub fn new(vendor: Vendor) -> Self {
        Self { vendor, shown: Vec::new() }
    }

    /// Adds a call as the model wrote it.
    pub fn push(&mut self, id: Option<&str>, name: &str, kind: Kind) {
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        self.shown.push(OriginalCall { id, name: name.to_owned(), kind });
    }

    /// Adds a call that came in our own shape. Its id may be one that the vendor would refuse; then it is told another that
    /// is always the same for this one.
    pub fn push_own(&mut self, id: Option<&str>, name: &str) {
        let id = id.map(|id| ids::accepted(self.vendor, id));
        self.push(id.as_deref(), name, Kind::Function);
    }

    /// The messages to append to the conversation: always an array, with a result for every call. `calls` are in the order
    /// in which they were added.
    #[must_use]
    pub fn messages(&self, calls: &[&Call]) -> Value {
        let results = self.shown.iter().zip(calls.iter().copied());
        Value::Array(match self.vendor {
            Vendor::OpenAi => results.map(|(shown, call)| openai::result(shown, call)).collect(),
            Vendor::OpenAiResponses => results.map(|(shown, call)| responses::result(shown, call)).collect(),
            Vendor::Anthropic => {
                one_message("content", results.map(|(shown, call)| anthropic::result(shown, call)).collect())
            }
            Vendor::Gemini => one_message("parts", results.map(|(shown, call)| gemini::result(shown, call)).collect()),
        })
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

/// One message of the user with all results, or none where there are none.
fn one_message(member: &str, results: Vec<Value>) -> Vec<Value> {
    if results.is_empty() {
        return Vec::new();
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "user".into());
    message.insert(member.to_owned(), results.into());
    vec![message.into()]
}

#[cfg(test)]
mod tests;
