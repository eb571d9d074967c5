//! What `POST /tool-calls` takes: one call, a batch of them, or a model's own message.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::{FieldError, Problem};
use crate::domain::{CallRequest, IdempotencyKey, Vendor, json};
use crate::engine::{Submission, Wait};
use crate::formats::messages::{self, Continuation};
use crate::registry::Snapshot;
use options::Options;

mod native;
mod options;
mod schema;
mod unknown;

pub(super) use options::{OnDisconnect, check_limits, check_session, check_session_at};
pub(super) use schema::CallBody;

/// A body that was read.
#[derive(Debug)]
pub(super) struct ParsedBody {
    /// The calls with their options.
    pub submission: Box<Submission>,
    /// How long to wait, if the body tells it.
    pub wait: Option<Wait>,
    /// How the model's conversation goes on, where the answer is to say it.
    pub message: Option<Arc<Continuation>>,
    /// Where each call's id stands in the body.
    pub id_places: IdLocation,
}

/// Where each call's id stands in a body, or would.
#[derive(Debug)]
pub(super) enum IdLocation {
    /// The body is the call.
    Body,
    /// Its `calls` are.
    Calls,
    /// Where the vendor has it.
    Message(Vec<String>),
}

impl IdLocation {
    /// A pointer (RFC 6901) to the id of the call at this place.
    pub fn of(&self, index: usize) -> String {
        match self {
            Self::Body => "/id".to_owned(),
            Self::Calls => format!("/calls/{index}/id"),
            Self::Message(places) => places.get(index).cloned().unwrap_or_default(),
        }
    }
}

/// Whose shape a body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MessageFormat {
    /// Our own.
    Native,
    /// OpenAI Chat.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// As `openai`: strict definitions change nothing in messages.
    #[serde(rename = "openai-strict")]
    OpenAiStrict,
    /// Anthropic.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl MessageFormat {
    fn vendor(self) -> Option<Vendor> {
        match self {
            Self::Native => None,
            Self::OpenAi | Self::OpenAiStrict => Some(Vendor::OpenAi),
            Self::OpenAiResponses => Some(Vendor::OpenAiResponses),
            Self::Anthropic => Some(Vendor::Anthropic),
            Self::Gemini => Some(Vendor::Gemini),
        }
    }

    /// As the body says it; options are read as a whole later.
    fn of(body: &Value) -> Result<Option<Self>, Problem> {
        let Some(format) = body.get("format").filter(|format| !format.is_null()) else { return Ok(None) };
        let read = format.as_str().and_then(|_| serde_json::from_value(format.clone()).ok());
        read.map(Some).ok_or_else(|| {
            let known = "native, openai, openai-responses, openai-strict, anthropic or gemini";
            Problem::field("/format", format!("must be {known}"))
        })
    }
}

/// Reads a body of at most so many calls. Tools are called by their names or aliases in this snapshot.
pub(super) fn read(body: Value, tools: &Snapshot, most_calls: usize) -> Result<ParsedBody, Problem> {
    let format = MessageFormat::of(&body)?;
    let vendor = format.and_then(MessageFormat::vendor);
    let is_own = body.as_object().is_some_and(messages::is_own) || format == Some(MessageFormat::Native);
    let told = if is_own || format.is_some() { None } else { messages::recognise(&body) };
    match vendor.filter(|_| !is_own).or(told) {
        Some(vendor) => message(vendor, body, most_calls),
        None => own(body, vendor, tools, most_calls),
    }
}

/// One call or a batch of our own shape; with a vendor, the answer has its messages too.
fn own(body: Value, vendor: Option<Vendor>, tools: &Snapshot, most_calls: usize) -> Result<ParsedBody, Problem> {
    let Value::Object(mut body) = body else {
        let found = json::type_name(&body);
        return Err(Problem::field("", format!("the body must be an object or a model's message, not {found}")));
    };
    let calls = body.shift_remove("calls");
    let is_batch = calls.is_some();
    let mut requests = match calls {
        Some(calls) => native::batch(calls, most_calls)?,
        None => vec![native::call(&mut body, "")?],
    };
    let said = vendor.map(|vendor| {
        let mut said = Continuation::new(vendor);
        for request in &mut requests {
            request.vendor = Some(vendor);
            let known = tools.find(&request.name).and_then(|entry| tools.name_for(entry, Some(vendor)));
            said.push_own(request.call_id.as_deref(), known.unwrap_or(&request.name));
        }
        said
    });
    let id_places = if is_batch { IdLocation::Calls } else { IdLocation::Body };
    let options = Options::read(body, if is_batch { &["calls"] } else { &options::CALL })?;
    finish(requests, options, said, is_batch, id_places)
}

/// A model's message: always a batch, also with one call or none.
fn message(vendor: Vendor, body: Value, most_calls: usize) -> Result<ParsedBody, Problem> {
    let options = Options::beside(&body)?;
    let spoken = messages::read(vendor, body)?;
    if spoken.calls.len() > most_calls {
        return Err(Problem::batch_too_large("", most_calls, spoken.calls.len()));
    }
    let said = Continuation::from(&spoken);
    let mut id_places = Vec::with_capacity(spoken.calls.len());
    let mut requests = Vec::with_capacity(spoken.calls.len());
    for call in spoken.calls {
        let id = if vendor == Vendor::OpenAiResponses { "call_id" } else { "id" };
        id_places.push(format!("{}/{id}", call.pointer));
        requests.push(CallRequest {
            name: call.name,
            call_id: call.id,
            arguments: call.arguments,
            vendor: Some(vendor),
            truncated: spoken.is_cut_off || call.is_cut_off,
            ..CallRequest::default()
        });
    }
    finish(requests, options, Some(said), true, IdLocation::Message(id_places))
}

fn finish(
    mut requests: Vec<CallRequest>,
    options: Options,
    said: Option<Continuation>,
    is_batch: bool,
    id_places: IdLocation,
) -> Result<ParsedBody, Problem> {
    if let Some(session) = options.dedupes_in() {
        let mut seen = HashSet::new();
        for (index, request) in requests.iter_mut().enumerate() {
            let place = || id_places.of(index);
            let Some(id) = &request.call_id else {
                return Err(Problem::field(place(), "is missing: `dedupe` goes by it"));
            };
            if !seen.insert(id.clone()) {
                return Err(Problem::field(place(), "is another call's too: `dedupe` goes by it"));
            }
            request.idempotency_key =
                Some(IdempotencyKey::of_call(session, id, &request.name, request.arguments.as_ref()));
        }
    }
    let is_batch = is_batch || said.is_some();
    let is_partial = options.partial;
    let (mut submission, mut wait) = options.into_submission();
    if is_partial {
        native::open(&mut requests, is_batch)?;
        wait = Some(Wait::Accepted);
    }
    (submission.calls, submission.is_batch) = (requests, is_batch);
    Ok(ParsedBody { submission, wait, message: said.map(Arc::new), id_places })
}
