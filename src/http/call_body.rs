//! The body of `POST /tool-calls`: one call, a batch, or a model's own message.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HttpResult, Problem};
use crate::domain::{CallRequest, IdempotencyKey, Vendor, json};
use crate::engine::{Submission, Wait};
use crate::formats::messages::{self, Continuation};
use crate::registry::Snapshot;
use options::Options;

mod native;
mod options;
mod schema;
mod unknown;

pub(super) use options::{OnDisconnect, check_limits, check_session};
pub(super) use schema::{CallBody, describe_bodies};

/// A parsed body.
#[derive(Debug)]
pub(super) struct ParsedBody {
    /// The calls with their options.
    pub submission: Box<Submission>,
    /// How long to wait, if the body sets it.
    pub wait: Option<Wait>,
    /// Builds the vendor messages that continue the conversation, if the response includes them.
    pub message: Option<Arc<Continuation>>,
    /// Where the body has the id of each call.
    pub id_location: IdLocation,
}

/// The location of call ids in a body, whether or not they are set.
#[derive(Debug)]
pub(super) enum IdLocation {
    /// The body is a call.
    Body,
    /// The elements of `calls` are the calls.
    Calls,
    /// A pointer to each id in a vendor's message.
    Message(Vec<String>),
}

impl IdLocation {
    /// Returns a JSON pointer (RFC 6901) to the id of the call at this index.
    pub fn pointer_to(&self, index: usize) -> String {
        match self {
            Self::Body => "/id".to_owned(),
            Self::Calls => format!("/calls/{index}/id"),
            Self::Message(pointers) => pointers.get(index).cloned().unwrap_or_default(),
        }
    }
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MessageFormat {
    /// The format of this API.
    Native,
    /// OpenAI Chat.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Same as `openai`, because strict definitions change nothing in messages.
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

    /// Returns the `format` of a body. The other options are parsed later.
    fn of(body: &Value) -> HttpResult<Option<Self>> {
        let Some(format) = body.get("format").filter(|format| !format.is_null()) else { return Ok(None) };
        let read = format.as_str().and_then(|_| serde_json::from_value(format.clone()).ok());
        read.map(Some).ok_or_else(|| {
            let known = "native, openai, openai-responses, openai-strict, anthropic or gemini";
            Problem::field("/format", format!("must be {known}"))
        })
    }
}

/// Parses a body of at most `most_calls` calls. The calls name tools by their names or aliases in `tools`.
pub(super) fn read(body: Value, tools: &Snapshot, max_calls: usize) -> HttpResult<ParsedBody> {
    let format = MessageFormat::of(&body)?;
    let vendor = format.and_then(MessageFormat::vendor);
    let is_own = body.as_object().is_some_and(messages::is_own) || format == Some(MessageFormat::Native);
    let recognised = if is_own || format.is_some() { None } else { messages::recognise(&body) };
    match vendor.filter(|_| !is_own).or(recognised) {
        Some(vendor) => message(vendor, body, max_calls),
        None => own(body, vendor, tools, max_calls),
    }
}

/// Parses one call or a batch in the native format. With a vendor, the response has its messages, too.
fn own(body: Value, vendor: Option<Vendor>, tools: &Snapshot, max_calls: usize) -> HttpResult<ParsedBody> {
    let Value::Object(mut body) = body else {
        let found = json::type_name(&body);
        return Err(Problem::field("", format!("the body must be an object or a model's message, not {found}")));
    };
    let calls = body.shift_remove("calls");
    let is_batch = calls.is_some();
    let mut requests = match calls {
        Some(calls) => native::batch(calls, max_calls)?,
        None => vec![native::call(&mut body, "")?],
    };
    let continuation = vendor.map(|vendor| {
        let mut continuation = Continuation::new(vendor);
        for request in &mut requests {
            request.vendor = Some(vendor);
            let known = tools.find(&request.name).and_then(|entry| tools.name_for(entry, Some(vendor)));
            continuation.push_own(request.call_id.as_deref(), known.unwrap_or(&request.name));
        }
        continuation
    });
    let id_location = if is_batch { IdLocation::Calls } else { IdLocation::Body };
    let options = Options::read(body, if is_batch { &["calls"] } else { &options::CALL })?;
    finish(requests, options, continuation, is_batch, id_location)
}

/// Parses a model's message. The result is always a batch, also for one call or none.
fn message(vendor: Vendor, body: Value, max_calls: usize) -> HttpResult<ParsedBody> {
    let options = Options::beside(&body)?;
    let spoken = messages::read(vendor, body)?;
    if spoken.calls.len() > max_calls {
        return Err(Problem::batch_too_large("", max_calls, spoken.calls.len()));
    }
    let continuation = Continuation::from(&spoken);
    let mut id_location = Vec::with_capacity(spoken.calls.len());
    let mut requests = Vec::with_capacity(spoken.calls.len());
    for call in spoken.calls {
        let id = if vendor == Vendor::OpenAiResponses { "call_id" } else { "id" };
        id_location.push(format!("{}/{id}", call.pointer));
        requests.push(CallRequest {
            name: call.name,
            call_id: call.id,
            arguments: call.arguments,
            vendor: Some(vendor),
            truncated: spoken.is_cut_off || call.is_cut_off,
            ..CallRequest::default()
        });
    }
    finish(requests, options, Some(continuation), true, IdLocation::Message(id_location))
}

fn finish(
    mut requests: Vec<CallRequest>,
    options: Options,
    continuation: Option<Continuation>,
    is_batch: bool,
    id_location: IdLocation,
) -> HttpResult<ParsedBody> {
    if let Some(session) = options.dedupes_in() {
        let mut seen = HashSet::new();
        for (index, request) in requests.iter_mut().enumerate() {
            let pointer = || id_location.pointer_to(index);
            let Some(id) = &request.call_id else {
                return Err(Problem::field(pointer(), "is missing; `dedupe` requires it"));
            };
            if !seen.insert(id.clone()) {
                return Err(Problem::field(pointer(), "is the id of another call; `dedupe` requires unique ids"));
            }
            request.idempotency_key =
                Some(IdempotencyKey::of_call(session, id, &request.name, request.arguments.as_ref()));
        }
    }
    let is_batch = is_batch || continuation.is_some();
    let is_partial = options.partial;
    let (mut submission, mut wait) = options.into_submission();
    if is_partial {
        native::open(&mut requests, is_batch)?;
        wait = Some(Wait::Accepted);
    }
    (submission.calls, submission.is_batch) = (requests, is_batch);
    Ok(ParsedBody { submission, wait, message: continuation.map(Arc::new), id_location })
}
