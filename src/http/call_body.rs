//! What `POST /tool-calls` takes: one call, or a batch of them.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::{FieldError, Problem};
use crate::callbacks;
use crate::domain::limits::LimitsSpec;
use crate::domain::tool::RetryOverride;
use crate::domain::{CallRequest, Once, json, shape};
use crate::engine::{Mode, Submission, Wait};
use crate::formats::stream::partial;
use crate::registry::check;

/// Longest id of a caller, in characters (contract, section 1).
const LONGEST_ID: usize = 512;
/// Longest session id, in characters.
const LONGEST_SESSION: usize = 512;
/// Longest wait that can be asked for: one hour.
const LONGEST_WAIT_MS: u64 = 3_600_000;
/// Most calls of a batch.
const MOST_CALLS: usize = 1024;

/// What stands beside one call of a batch.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
struct CallOptions {
    /// Bounds for this call.
    limits: LimitsSpec,
    /// Retries of this call; what is absent is the tool's.
    retry: RetryOverride,
    /// Higher ones leave the queue first.
    priority: Option<i32>,
}

/// One call.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(super) struct CallItem {
    /// The tool.
    name: String,
    /// The caller's own id, up to 512 characters.
    #[schema(max_length = 512)]
    id: Option<String>,
    /// An object, or the JSON text that the model wrote. Absent, blank or `null` is `{}`.
    #[schema(value_type = Option<Value>)]
    arguments: Option<Value>,
}

/// One call of a batch.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(super) struct BatchItem {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: CallOptions,
}

/// What stands beside the calls.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    /// The conversation that the calls belong to.
    session: Option<String>,
    /// How a batch runs.
    mode: Mode,
    /// Bounds for all calls; a call's own come first.
    limits: LimitsSpec,
    /// Why the model stopped. If it says that the output was cut off at the token limit, nothing runs.
    stop_reason: Option<String>,
    /// Retries for all calls; a call's own come first, and what is absent is the tool's.
    retry: RetryOverride,
    /// Higher ones leave the queue first; a call's own comes first.
    priority: i32,
    /// Gets each call when it has ended, signed as Standard Webhooks.
    #[schema(max_length = 2048)]
    callback_url: Option<String>,
    /// How long to wait: for the results, until the calls are accepted, or so many milliseconds. What has not ended by then
    /// is a 202 and goes on. Absent: for the results, except of `async` tools.
    wait: Option<WaitOption>,
    /// `call_id`: a call with the same `session` and `id` as an earlier one is that call.
    dedupe: Option<Dedupe>,
    /// What the end of the connection does to the calls.
    on_disconnect: OnDisconnect,
    /// The arguments of this one call are not complete: the rest comes to `PATCH /tool-calls/{id}/arguments`.
    partial: bool,
}

/// How long the caller waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum WaitOption {
    Until(WaitUntil),
    /// At most so many milliseconds.
    Millis(u64),
}

impl From<WaitOption> for Wait {
    fn from(option: WaitOption) -> Self {
        match option {
            WaitOption::Until(WaitUntil::Result) => Self::Result,
            WaitOption::Until(WaitUntil::Accepted) => Self::Accepted,
            WaitOption::Millis(millis) => Self::For(Duration::from_millis(millis.min(LONGEST_WAIT_MS))),
        }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum WaitUntil {
    /// Until every call has ended.
    Result,
    /// Until the calls are on disk.
    Accepted,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Dedupe {
    /// By `session` and `id`.
    CallId,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnDisconnect {
    /// Nothing.
    #[default]
    Continue,
    /// They are cancelled.
    Cancel,
}

/// One call with its options.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(super) struct SingleCall {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: Options,
}

/// A batch with its options.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "only the document reads it")]
pub(super) struct BatchOfCalls {
    /// The calls; no id twice.
    #[schema(min_items = 1, max_items = 1024)]
    calls: Vec<BatchItem>,
    #[serde(flatten)]
    options: Options,
}

/// The body of `POST /tool-calls`.
#[derive(Debug, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the document reads it")]
pub(super) enum CallBody {
    One(Box<SingleCall>),
    Batch(Box<BatchOfCalls>),
}

/// Words by which models' vendors say that the output was cut off at the token limit.
const CUT_OFF: [&str; 5] = ["length", "max_tokens", "max_output_tokens", "model_length", "token_limit"];

/// Reads a body. How long to wait is told only if the body tells it.
pub(super) fn read(value: Value) -> Result<(Submission, Option<Wait>), Problem> {
    let Value::Object(mut body) = value else {
        return Err(Problem::field("", format!("the body must be an object, not {}", json::type_name(&value))));
    };
    let calls = body.shift_remove("calls");
    let is_batch = calls.is_some();
    let mut requests = match calls {
        Some(calls) => batch(calls)?,
        None => vec![call(&mut body, "")?],
    };
    // Most bodies have nothing beside the calls.
    let options = if body.is_empty() { Options::default() } else { options(Value::Object(body))? };
    check_limits(&options.limits)?;
    no_faults(check::retry(&options.retry), "/retry")?;
    options.session.as_deref().map_or(Ok(()), check_session)?;
    if let Some(url) = &options.callback_url {
        callbacks::check_url(url).map_err(|fault| Problem::field("/callback_url", fault))?;
    }
    if options.dedupe.is_some() {
        for (index, request) in requests.iter_mut().enumerate() {
            let Some(id) = &request.call_id else {
                let place = if is_batch { format!("/calls/{index}/id") } else { "/id".to_owned() };
                return Err(Problem::field(place, "is missing: `dedupe` goes by it"));
            };
            let session = options.session.as_deref();
            request.once = Some(Once::of_call(session, id, &request.name, request.arguments.as_ref()));
        }
    }
    let mut wait = options.wait.map(Wait::from);
    if options.partial {
        open(&mut requests, is_batch)?;
        wait = Some(Wait::Accepted);
    }
    let truncated = options.stop_reason.is_some_and(|reason| CUT_OFF.contains(&reason.to_ascii_lowercase().as_str()));
    let submission = Submission {
        calls: requests,
        is_batch,
        mode: options.mode,
        session: options.session.map(Into::into),
        limits: options.limits,
        retry: options.retry,
        priority: options.priority,
        callback_url: options.callback_url.map(Into::into),
        cancel_on_disconnect: options.on_disconnect == OnDisconnect::Cancel,
        truncated,
        ..Submission::default()
    };
    Ok((submission, wait))
}

/// Makes the one call of a request one whose arguments come piece by piece.
fn open(requests: &mut [CallRequest], is_batch: bool) -> Result<(), Problem> {
    let [request] = requests else { return Err(Problem::field("/partial", "is for one call")) };
    if is_batch {
        return Err(Problem::field("/partial", "is for one call, not for `calls`"));
    }
    if let Some(given) = request.arguments.as_ref().filter(|given| !given.is_string() && !given.is_null()) {
        let message = format!("must be the beginning of a JSON text with `partial`, not {}", json::type_name(given));
        return Err(Problem::field("/arguments", message));
    }
    if request.arguments.as_ref().and_then(Value::as_str).is_some_and(|text| text.len() > partial::LIMIT) {
        return Err(Problem::arguments_too_large(partial::LIMIT));
    }
    request.streamed = true;
    Ok(())
}

fn options<T: serde::de::DeserializeOwned>(rest: Value) -> Result<T, shape::ShapeError> {
    shape::expect_objects(&rest, &["/limits", "/retry"])?;
    shape::expect_strings(&rest, &["/mode", "/dedupe", "/on_disconnect", "/limits/truncate"])?;
    if let Some(wait) = rest.get("wait")
        && serde_json::from_value::<Option<WaitOption>>(wait.clone()).is_err()
    {
        let message = "must be \"result\", \"accepted\" or a number of milliseconds".to_owned();
        return Err(shape::ShapeError { pointer: "/wait".to_owned(), message });
    }
    shape::read(rest)
}

fn batch(calls: Value) -> Result<Vec<CallRequest>, Problem> {
    let Value::Array(items) = calls else {
        return Err(Problem::field("/calls", format!("must be an array, not {}", json::type_name(&calls))));
    };
    if items.is_empty() || items.len() > MOST_CALLS {
        return Err(Problem::field("/calls", format!("must have 1 to {MOST_CALLS} calls, not {}", items.len())));
    }
    let mut seen = HashSet::new();
    let mut requests = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("/calls/{index}");
        let Value::Object(mut item) = item else {
            return Err(Problem::field(place, format!("must be an object, not {}", json::type_name(&item))));
        };
        let mut request = call(&mut item, &place)?;
        if !item.is_empty() {
            let rest: CallOptions = options(Value::Object(item))
                .map_err(|error| Problem::field(format!("{place}{}", error.pointer), error.message))?;
            no_faults(check::limits(&rest.limits), &format!("{place}/limits"))?;
            no_faults(check::retry(&rest.retry), &format!("{place}/retry"))?;
            (request.limits, request.retry, request.priority) = (rest.limits, rest.retry, rest.priority);
        }
        if let Some(id) = &request.call_id
            && !seen.insert(id.clone())
        {
            return Err(Problem::field(format!("{place}/id"), "is the id of another call of this batch"));
        }
        requests.push(request);
    }
    Ok(requests)
}

/// Takes what makes a call out of an object; the rest stays.
fn call(item: &mut Map<String, Value>, place: &str) -> Result<CallRequest, Problem> {
    let text = |value: Option<Value>, member: &str| match value {
        Some(Value::String(text)) => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(other) => {
            let message = format!("must be a string, not {}", json::type_name(&other));
            Err(Problem::field(format!("{place}{member}"), message))
        }
    };
    let Some(name) = text(item.shift_remove("name"), "/name")? else {
        let hint = if place.is_empty() { ": send one call with `name`, or several in `calls`" } else { "" };
        return Err(Problem::field(format!("{place}/name"), format!("is missing{hint}")));
    };
    check_text(&name, LONGEST_ID, &format!("{place}/name"))?;
    let call_id = text(item.shift_remove("id"), "/id")?.filter(|id| !id.is_empty());
    if let Some(id) = &call_id {
        check_text(id, LONGEST_ID, &format!("{place}/id"))?;
    }
    let arguments = item.shift_remove("arguments");
    Ok(CallRequest { name, call_id, arguments, ..CallRequest::default() })
}

/// Checks bounds that stand beside the calls.
pub(super) fn check_limits(limits: &LimitsSpec) -> Result<(), Problem> {
    no_faults(check::limits(limits), "/limits")
}

/// Checks the id of a session.
pub(super) fn check_session(session: &str) -> Result<(), Problem> {
    check_session_at(session, "/session")
}

/// The same where it stands elsewhere.
pub(super) fn check_session_at(session: &str, pointer: &str) -> Result<(), Problem> {
    check_text(session, LONGEST_SESSION, pointer)?;
    if session.is_empty() || session.contains('\0') {
        return Err(Problem::field(pointer, "must have at least one character, and none that is U+0000"));
    }
    Ok(())
}

fn check_text(text: &str, longest: usize, pointer: &str) -> Result<(), Problem> {
    if text.chars().count() > longest {
        return Err(Problem::field(pointer, format!("must have at most {longest} characters")));
    }
    Ok(())
}

fn no_faults(faults: Vec<check::Fault>, place: &str) -> Result<(), Problem> {
    if faults.is_empty() {
        return Ok(());
    }
    let field =
        |fault: check::Fault| FieldError { pointer: format!("{place}{}", fault.pointer), message: fault.message };
    Err(Problem::invalid(faults.into_iter().map(field).collect()))
}
