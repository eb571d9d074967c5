//! What stands beside the calls, in our own shape or in a model's message: read, checked, and put into a submission.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FieldError, MessageFormat, Problem, unknown};
use crate::callbacks;
use crate::domain::limits::LimitsSpec;
use crate::domain::schemas::{HttpUrl, SessionId};
use crate::domain::tool::RetryOverride;
use crate::domain::{Agent, decode, json};
use crate::engine::{Mode, Submission, Wait};
use crate::formats::messages;
use crate::registry::check;

/// Longest session id, in characters.
const LONGEST_SESSION: usize = 512;
/// Longest wait that can be asked for: one hour.
const LONGEST_WAIT_MS: u64 = 3_600_000;

/// What stands beside one call of a batch.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CallOptions {
    /// Bounds for this call.
    pub limits: LimitsSpec,
    /// Retries of this call; what is absent is the tool's.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first.
    pub priority: Option<i32>,
}

/// What stands beside the calls.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    /// The conversation that the calls belong to.
    #[schema(value_type = Option<SessionId>)]
    session: Option<String>,
    /// Objects for tools that name them in `context`, by name. They come before those of the session and of the server, a
    /// whole object at a time, and are shown to nobody.
    #[schema(value_type = BTreeMap<String, Map<String, Value>>)]
    context: Map<String, Value>,
    /// On whose behalf the calls are made; tools are told.
    agent: Option<Agent>,
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
    #[schema(value_type = Option<HttpUrl>)]
    callback_url: Option<String>,
    /// How long to wait: for the results, until the calls are accepted, or so many milliseconds. What has not ended by then
    /// is a 202 and goes on. Absent: for the results, except of `async` tools.
    wait: Option<WaitOption>,
    /// `call_id`: a call with the same `session` and `id` as an earlier one is that call.
    dedupe: Option<Dedupe>,
    /// What the end of the connection does to the calls.
    on_disconnect: OnDisconnect,
    /// The arguments of this one call are not complete: the rest comes to `PATCH /tool-calls/{id}/arguments`.
    pub partial: bool,
    /// Whose shape the body has, or whose the answer's `messages` shall have. Absent: told by the shape.
    format: Option<MessageFormat>,
}

/// The members of a call of our own shape.
pub(super) const CALL: [&str; 3] = ["name", "arguments", "id"];

/// The names of all options, as they are told from the other members of a model's message.
const NAMES: [&str; 14] = [
    "session",
    "context",
    "agent",
    "mode",
    "limits",
    "stop_reason",
    "retry",
    "priority",
    "callback_url",
    "wait",
    "dedupe",
    "on_disconnect",
    "partial",
    "format",
];

/// How long the caller waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum WaitOption {
    Until(WaitUntil),
    /// At most so many milliseconds; more than an hour is one.
    Millis(u64),
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
pub(in crate::http) enum OnDisconnect {
    /// Nothing.
    #[default]
    Continue,
    /// They are cancelled.
    Cancel,
}

impl Options {
    /// From what is left of a body of our own shape once its calls, the members of these names, were read.
    pub fn read(rest: Map<String, Value>, calls: &[&'static str]) -> Result<Self, Problem> {
        // Most bodies have nothing beside the calls.
        let options = match rest.is_empty() {
            true => Self::default(),
            false => read(Value::Object(rest)).map_err(|error| unknown::named(error, calls, &NAMES))?,
        };
        options.check()?;
        Ok(options)
    }

    /// From among the members of a model's message, whose others are its own business.
    pub fn beside(message: &Value) -> Result<Self, Problem> {
        let own = |name: &&str| {
            // Some servers have a number for `stop_reason`, which says nothing to us.
            let is_ours = |value: &&Value| !value.is_null() && (*name != "stop_reason" || value.is_string());
            let value = message.get(*name).filter(is_ours)?;
            Some(((*name).to_owned(), value.clone()))
        };
        Self::read(NAMES.iter().filter_map(own).collect(), &[])
    }

    fn check(&self) -> Result<(), Problem> {
        check_limits(&self.limits)?;
        no_faults(check::retry(&self.retry), "/retry")?;
        self.session.as_deref().map_or(Ok(()), check_session)?;
        match &self.callback_url {
            Some(url) => callbacks::check_url(url).map_err(|fault| Problem::field("/callback_url", fault)),
            None => Ok(()),
        }
    }

    /// The session, where calls are known by their ids in it.
    pub fn dedupes_in(&self) -> Option<Option<&str>> {
        self.dedupe.map(|Dedupe::CallId| self.session.as_deref())
    }

    /// A submission without calls, and how long to wait if that is said.
    pub fn into_submission(self) -> (Box<Submission>, Option<Wait>) {
        let wait = self.wait.map(|wait| match wait {
            WaitOption::Until(WaitUntil::Result) => Wait::Result,
            WaitOption::Until(WaitUntil::Accepted) => Wait::Accepted,
            WaitOption::Millis(millis) => Wait::For(Duration::from_millis(millis.min(LONGEST_WAIT_MS))),
        });
        let submission = Box::new(Submission {
            mode: self.mode,
            session: self.session.map(Into::into),
            context: self.context,
            agent: self.agent.map(Arc::new),
            limits: self.limits,
            retry: self.retry,
            priority: self.priority,
            callback_url: self.callback_url.map(Into::into),
            cancel_on_disconnect: self.on_disconnect == OnDisconnect::Cancel,
            truncated: self.stop_reason.is_some_and(|reason| messages::is_cut_off(&reason)),
            ..Submission::default()
        });
        (submission, wait)
    }
}

impl CallOptions {
    /// From what is left of a call of a batch, which stands at `place`.
    pub fn read(rest: Map<String, Value>, place: &str) -> Result<Self, Problem> {
        if rest.is_empty() {
            return Ok(Self::default());
        }
        let options: Self = read(Value::Object(rest)).map_err(|error| {
            let error = unknown::named(error, &CALL, &["limits", "retry", "priority"]);
            Problem::field(format!("{place}{}", error.pointer), error.message)
        })?;
        no_faults(check::limits(&options.limits), &format!("{place}/limits"))?;
        no_faults(check::retry(&options.retry), &format!("{place}/retry"))?;
        Ok(options)
    }
}

fn read<T: serde::de::DeserializeOwned>(mut rest: Value) -> Result<T, decode::DecodeError> {
    decode::expect_objects(&rest, &["/limits", "/retry", "/agent", "/agent/metadata"])?;
    check_context(rest.get("context"))?;
    decode::expect_strings(&rest, &["/mode", "/dedupe", "/on_disconnect", "/format", "/limits/truncate"])?;
    rest.get_mut("wait").map(decode::make_integer);
    let is_wait = |wait: &Value| match serde_json::from_value(wait.clone()) {
        Ok(Some(WaitOption::Millis(millis))) => i64::try_from(millis).is_ok(),
        wait => wait.is_ok(),
    };
    if rest.get("wait").is_some_and(|wait| !is_wait(wait)) {
        let message = "must be \"result\", \"accepted\" or a number of milliseconds".to_owned();
        return Err(decode::DecodeError { pointer: "/wait".to_owned(), message });
    }
    decode::read(rest)
}

/// Context is objects by name. What stands there instead is repeated to nobody.
pub(in crate::http) fn check_context(context: Option<&Value>) -> Result<(), decode::DecodeError> {
    let wrong = |pointer: String| Err(decode::DecodeError { pointer, message: "must be an object".to_owned() });
    match context {
        None => Ok(()),
        Some(Value::Object(objects)) => match objects.iter().find(|(_, object)| !object.is_object()) {
            Some((name, _)) => wrong(format!("/context/{}", json::pointer_token(name))),
            None => Ok(()),
        },
        Some(_) => wrong("/context".to_owned()),
    }
}

/// Checks bounds that stand beside the calls.
pub(in crate::http) fn check_limits(limits: &LimitsSpec) -> Result<(), Problem> {
    no_faults(check::limits(limits), "/limits")
}

/// Checks the id of a session.
pub(in crate::http) fn check_session(session: &str) -> Result<(), Problem> {
    check_session_at(session, "/session")
}

/// The same where it stands elsewhere.
pub(in crate::http) fn check_session_at(session: &str, pointer: &str) -> Result<(), Problem> {
    check_length(session, LONGEST_SESSION, || pointer.to_owned())?;
    if session.is_empty() || session.contains('\0') {
        return Err(Problem::field(pointer, "must have at least one character, and none that is U+0000"));
    }
    Ok(())
}

pub(super) fn check_length(text: &str, longest: usize, pointer: impl FnOnce() -> String) -> Result<(), Problem> {
    match text.chars().count() > longest {
        true => Err(Problem::field(pointer(), format!("must have at most {longest} characters"))),
        false => Ok(()),
    }
}

fn no_faults(faults: Vec<check::Fault>, place: &str) -> Result<(), Problem> {
    if faults.is_empty() {
        return Ok(());
    }
    let field =
        |fault: check::Fault| FieldError { pointer: format!("{place}{}", fault.pointer), message: fault.message };
    Err(Problem::invalid(faults.into_iter().map(field).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_found_beside_a_models_message() {
        // The refusal of an unknown member names all that are known.
        let refusal = serde_json::from_value::<Options>(serde_json::json!({"?": 1})).unwrap_err().to_string();
        let known: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
        assert_eq!(known, NAMES);
    }
}
