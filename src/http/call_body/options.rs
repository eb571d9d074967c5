//! Options next to the calls, in the native format or in a model's message: parsed, checked, and converted to a
//! submission.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MessageFormat, unknown};
use crate::callbacks;
use crate::dispatch::Mode;
use crate::domain::limits::LimitsSpec;
use crate::domain::schemas::{HttpUrl, SessionId};
use crate::domain::tool::RetryOverride;
use crate::domain::{Agent, decode, json};
use crate::engine::{Submission, Wait};
use crate::formats::messages;
use crate::http::{FieldError, HttpResult, Problem};
use crate::registry::check;

/// Maximum length of a session id, in characters.
const MAX_SESSION_CHARS: usize = 512;
/// Maximum wait, in milliseconds: one hour.
const MAX_WAIT_MS: u64 = 3_600_000;

/// Options of one call of a batch.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CallOptions {
    /// Limits for this call.
    pub limits: LimitsSpec,
    /// Retry settings for this call. Missing members are those of the tool.
    pub retry: RetryOverride,
    /// Calls with a higher priority leave the queue first.
    pub priority: Option<i32>,
}

/// Options next to the calls.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    /// The conversation that the calls belong to.
    #[schema(value_type = Option<SessionId>)]
    session: Option<String>,
    /// Objects for tools that list them in `context`, by name. Each replaces the object of the same name of the session
    /// or the server. They are never returned.
    #[schema(value_type = BTreeMap<String, Map<String, Value>>)]
    context: Map<String, Value>,
    /// The agent on whose behalf the calls are made. Tools receive it.
    agent: Option<Agent>,
    /// How the calls of a batch are run.
    mode: Mode,
    /// Limits for all calls. Those of a single call take precedence.
    limits: LimitsSpec,
    /// Why the model stopped. If the output was cut off at the token limit, no call runs.
    stop_reason: Option<String>,
    /// Retry settings for all calls. Those of a single call take precedence, and missing members are those of the tool.
    retry: RetryOverride,
    /// Calls with a higher priority leave the queue first. The priority of a single call takes precedence.
    priority: i32,
    /// A URL that receives each ended call, signed according to Standard Webhooks.
    #[schema(value_type = Option<HttpUrl>)]
    callback_url: Option<String>,
    /// How long to wait: for the results, for the acceptance of the calls, or a number of milliseconds. If calls have
    /// not ended by then, the response is a 202 and they continue. Default: for the results, except for `async` tools.
    wait: Option<WaitOption>,
    /// With `call_id`, a call with the same `session` and `id` as an earlier call is that call.
    dedupe: Option<Dedupe>,
    /// What happens to the calls if the client disconnects.
    on_disconnect: OnDisconnect,
    /// The arguments of the only call are incomplete; `PATCH /tool-calls/{id}/arguments` sends the rest.
    pub partial: bool,
    /// The format of the body, or of the `messages` in the response. Default: detected from the body.
    format: Option<MessageFormat>,
}

/// The members of a call in the native format.
pub(super) const CALL: [&str; 3] = ["name", "arguments", "id"];

/// The names of all options, used to find them among the members of a model's message.
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

/// The event or time until which the caller waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
enum WaitOption {
    Until(WaitUntil),
    /// At most this number of milliseconds, up to one hour.
    Millis(u64),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum WaitUntil {
    /// Until every call has ended.
    Result,
    /// Until the calls are recorded.
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
    /// The calls continue.
    #[default]
    Continue,
    /// The calls are cancelled.
    Cancel,
}

impl Options {
    /// Parses the members that remain after the calls. `calls` are the names of members of a call, for the error
    /// message.
    pub fn read(rest: Map<String, Value>, calls: &[&'static str]) -> HttpResult<Self> {
        // Most bodies have no options.
        let options = match rest.is_empty() {
            true => Self::default(),
            false => read(Value::Object(rest)).map_err(|error| unknown::named(error, calls, &NAMES))?,
        };
        options.check()?;
        Ok(options)
    }

    /// Parses the options among the members of a model's message. Other members are ignored.
    pub fn beside(message: &Value) -> HttpResult<Self> {
        let own = |name: &&str| {
            // Some servers send a number as `stop_reason`, which has no meaning here.
            let is_ours = |value: &&Value| !value.is_null() && (*name != "stop_reason" || value.is_string());
            let value = message.get(*name).filter(is_ours)?;
            Some(((*name).to_owned(), value.clone()))
        };
        Self::read(NAMES.iter().filter_map(own).collect(), &[])
    }

    fn check(&self) -> HttpResult<()> {
        check_limits(&self.limits)?;
        no_faults(check::retry(&self.retry), "/retry")?;
        self.session.as_deref().map_or(Ok(()), |session| check_session(session, "/session"))?;
        match &self.callback_url {
            Some(url) => callbacks::check_url(url).map_err(|fault| Problem::field("/callback_url", fault)),
            None => Ok(()),
        }
    }

    /// Returns the session in which call ids identify calls, if `dedupe` is set.
    pub fn dedupes_in(&self) -> Option<Option<&str>> {
        self.dedupe.map(|Dedupe::CallId| self.session.as_deref())
    }

    /// Converts the options to a submission without calls, and the wait if it is set.
    pub fn into_submission(self) -> (Box<Submission>, Option<Wait>) {
        let wait = self.wait.map(|wait| match wait {
            WaitOption::Until(WaitUntil::Result) => Wait::Result,
            WaitOption::Until(WaitUntil::Accepted) => Wait::Accepted,
            WaitOption::Millis(millis) => Wait::For(Duration::from_millis(millis.min(MAX_WAIT_MS))),
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
    /// Parses the options of the call at `pointer` in a batch.
    pub fn read(rest: Map<String, Value>, pointer: &str) -> HttpResult<Self> {
        if rest.is_empty() {
            return Ok(Self::default());
        }
        let options: Self = read(Value::Object(rest)).map_err(|error| {
            let error = unknown::named(error, &CALL, &["limits", "retry", "priority"]);
            Problem::field(format!("{pointer}{}", error.pointer), error.message)
        })?;
        no_faults(check::limits(&options.limits), &format!("{pointer}/limits"))?;
        no_faults(check::retry(&options.retry), &format!("{pointer}/retry"))?;
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

/// Checks that all context values are objects. An invalid value is not repeated in the message, because it may be
/// secret.
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

/// Checks the limits next to the calls.
pub(in crate::http) fn check_limits(limits: &LimitsSpec) -> HttpResult<()> {
    no_faults(check::limits(limits), "/limits")
}

/// Checks the id of a session.
pub(in crate::http) fn check_session(session: &str, pointer: &str) -> HttpResult<()> {
    check_length(session, MAX_SESSION_CHARS, || pointer.to_owned())?;
    if session.is_empty() || session.contains('\0') {
        return Err(Problem::field(pointer, "must not be empty or contain U+0000"));
    }
    Ok(())
}

pub(super) fn check_length(text: &str, longest: usize, pointer: impl FnOnce() -> String) -> HttpResult<()> {
    match text.chars().count() > longest {
        true => Err(Problem::field(pointer(), format!("must have at most {longest} characters"))),
        false => Ok(()),
    }
}

fn no_faults(faults: Vec<FieldError>, pointer: &str) -> HttpResult<()> {
    if faults.is_empty() {
        return Ok(());
    }
    let field = |fault: FieldError| FieldError { pointer: format!("{pointer}{}", fault.pointer), ..fault };
    Err(Problem::invalid(faults.into_iter().map(field).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_found_in_a_models_message() {
        // The error for an unknown member lists all known members.
        let refusal = serde_json::from_value::<Options>(serde_json::json!({"?": 1})).unwrap_err().to_string();
        let known: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
        assert_eq!(known, NAMES);
    }
}
