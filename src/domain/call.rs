//! One tool call and the machine of its statuses.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::tool::RetryOverride;
use super::{
    Agent, AllowList, Failure, JsonText, Limits, LimitsSpec, Moment, Naming, Once, Outcome, Tenant, Time, Vendor, json,
};

mod counted;
mod stopwatch;
mod written;

pub use counted::Counted;
pub use stopwatch::Stopwatch;
pub use written::Written;

/// The member of a call's metadata with the name that its caller used, where that is another one than the tool's own.
pub const CALLED_AS: &str = "called_as";

/// Where a call stands. It only ever moves `Wait → Doing → Success | Error` or `Wait → Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Accepted, not started.
    Wait,
    /// The tool runs.
    Doing,
    /// It ended well.
    Success,
    /// It ended badly.
    Error,
}

impl Status {
    /// Whether the call has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Success | Self::Error)
    }

    /// Whether `next` may follow.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Wait, Self::Doing | Self::Error) | (Self::Doing, Self::Doing | Self::Success | Self::Error)
        )
    }

    /// As callers see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "WAIT",
            Self::Doing => "DOING",
            Self::Success => "SUCCESS",
            Self::Error => "ERROR",
        }
    }
}

/// What a call is doing within its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its arguments are still coming.
    Arguments,
    /// Accepted and waiting for its turn.
    Queued,
    /// The tool runs.
    Running,
    /// An attempt has failed; the next one is due.
    Retrying,
    /// The work is done outside; its result is awaited.
    External,
    /// Ended.
    Done,
}

/// How far a running call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// Steps done.
    pub current: f64,
    /// Steps in all, if known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// What a caller says of kept results (RFC 9111, `Cache-Control` of a request).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheControl {
    /// A kept one will do.
    #[default]
    Any,
    /// It must be a new one, which is kept.
    NoCache,
    /// It must be a new one, which is not kept.
    NoStore,
}

/// What a caller asks for: one call, before anything is known about its tool.
#[derive(Debug, Clone, Default)]
pub struct CallRequest {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The caller's own id.
    pub call_id: Option<String>,
    /// An object, a JSON text, or whatever the model made of them.
    pub arguments: Option<Value>,
    /// Bounds for this call only.
    pub limits: LimitsSpec,
    /// Retries of this call only.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first.
    pub priority: Option<i32>,
    /// What makes it the same as another request for it.
    pub once: Option<Once>,
    /// Its place in the request, where others of it are left out.
    pub index: Option<u32>,
    /// Whose model asked, where its own message says so: tools are known to it by their aliases.
    pub vendor: Option<Vendor>,
    /// It came over the Model Context Protocol, whose clients are shown names of their own.
    pub over_mcp: bool,
    /// The model's output was cut off within this call.
    pub truncated: bool,
    /// Its arguments come piece by piece.
    pub streamed: bool,
}

impl CallRequest {
    /// The names under which its caller is shown tools.
    #[must_use]
    pub fn naming(&self) -> Naming {
        if self.over_mcp { Naming::Mcp } else { self.vendor.into() }
    }
}

/// One mended argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Coercion {
    /// Where (RFC 6901).
    pub pointer: String,
    /// The JSON type that was given.
    pub from: String,
    /// The JSON type that it became; `absent` for an optional `null`.
    pub to: String,
}

/// A call with all that has happened to it.
#[derive(Debug, Clone)]
pub struct Call {
    /// Ours, UUIDv7.
    pub id: Uuid,
    /// Whose it is.
    pub tenant: Tenant,
    /// The caller's id; ours as text where none was given.
    pub call_id: Arc<str>,
    /// The tool's name as it was asked for.
    pub name: Arc<str>,
    /// The tool's display name.
    pub title: Arc<str>,
    /// The conversation that it belongs to.
    pub session: Option<Arc<str>>,
    /// The batch that it came in.
    pub batch_id: Option<Uuid>,
    /// Its place in the batch.
    pub index: u32,
    /// Where it stands.
    pub status: Status,
    /// What it is doing.
    pub phase: Phase,
    /// As given.
    pub arguments: Arc<Value>,
    /// Their compact JSON.
    pub arguments_text: JsonText,
    /// Whether its arguments came piece by piece; its first events know nothing of them.
    pub streamed: bool,
    /// What the tool gets, after coercion and defaults; `None` before that is known.
    pub effective_arguments: Option<Arc<Value>>,
    /// What was mended.
    pub coerced: Vec<Coercion>,
    /// One line for people.
    pub tip: Option<String>,
    /// What the tool shows of its parameters, merged over the whole call.
    pub params: Map<String, Value>,
    /// Facts, merged over the whole call.
    pub metadata: Map<String, Value>,
    /// How far it is.
    pub progress: Option<Progress>,
    /// The result, once it has ended.
    pub outcome: Option<Arc<Outcome>>,
    /// Runs begun.
    pub attempts: u32,
    /// Whether the result is that of an earlier call.
    pub cached: bool,
    /// What its caller said of kept results.
    pub cache_control: CacheControl,
    /// Bounds in force; `None` where no tool was found.
    pub limits: Option<Limits>,
    /// What the caller said of retries; the rest is the tool's.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first.
    pub priority: i32,
    /// Objects that its tool names; shown to nobody.
    pub context: Arc<Map<String, Value>>,
    /// The tools that there are for its caller; `None`: all of the tenant.
    pub allowed: Option<Arc<AllowList>>,
    /// On whose behalf it is made.
    pub agent: Option<Arc<Agent>>,
    /// Where the end is told to, if anywhere.
    pub callback_url: Option<Arc<str>>,
    /// When it was accepted.
    pub created_at: Time,
    /// When the tool started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// The node that ran it.
    pub node: Arc<str>,
    /// The number of the call's last event.
    pub last_seq: u32,
    /// When its last attempt was recorded as started, where it was not run after all.
    pub unrun_start: Option<Time>,
    /// Whether its end is a result that was posted.
    pub has_posted_result: bool,
    /// How long it waited and ran.
    pub stopwatch: Stopwatch,
    /// Its JSON, where that was written ahead of the answer.
    pub written: Written,
    /// Keeps the memory of its request counted.
    pub counted: Counted,
}

/// How long a stored call waited and ran, in milliseconds, where its timestamps do not say the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// From acceptance to the start of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// From the start of the tool to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A change that the status machine refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call cannot go from {} to {}", from.as_str(), to.as_str())]
pub struct ForbiddenTransition {
    from: Status,
    to: Status,
}

/// What a running tool says about itself; it adds up over the whole call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusUpdate {
    /// Replaces the tip.
    pub tip: Option<String>,
    /// Merged deeply.
    pub params: Map<String, Value>,
    /// Merged deeply.
    pub metadata: Map<String, Value>,
    /// Replaces the progress.
    pub progress: Option<Progress>,
    /// Replaces the phase.
    pub phase: Option<Phase>,
}

impl StatusUpdate {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { tip, params, metadata, progress, phase } = self;
        tip.is_none() && progress.is_none() && phase.is_none() && params.is_empty() && metadata.is_empty()
    }

    /// Adds a later update to this one.
    pub fn absorb(&mut self, later: Self) {
        self.tip = later.tip.or(self.tip.take());
        self.progress = later.progress.or(self.progress.take());
        self.phase = later.phase.or(self.phase);
        json::merge_deep(&mut self.params, later.params);
        json::merge_deep(&mut self.metadata, later.metadata);
    }
}

/// Where `metadata` names the durations that span a restart.
const ESTIMATED: &str = "estimated";

/// Events that a call has from its row alone: acceptance and `WAIT`.
const EVENTS_OF_ACCEPTANCE: u32 = 2;

/// Nothing at all, without an allocation for each call.
fn no_context() -> Arc<Map<String, Value>> {
    static NOTHING: LazyLock<Arc<Map<String, Value>>> = LazyLock::new(Arc::default);
    NOTHING.clone()
}

impl Call {
    /// A call as it is accepted: `WAIT`, nothing known yet.
    #[must_use]
    pub fn accepted(
        id: Uuid,
        request_name: Arc<str>,
        call_id: Option<&str>,
        arguments: Arc<Value>,
        now: impl Into<Moment>,
        node: Arc<str>,
    ) -> Self {
        let now = now.into();
        Self {
            id,
            tenant: Tenant::default(),
            call_id: match call_id {
                Some(call_id) => call_id.into(),
                None => Arc::from(&*id.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            },
            title: request_name.clone(),
            name: request_name,
            session: None,
            batch_id: None,
            index: 0,
            status: Status::Wait,
            phase: Phase::Queued,
            arguments: arguments.clone(),
            arguments_text: JsonText::of(&arguments),
            streamed: false,
            effective_arguments: None,
            coerced: Vec::new(),
            tip: None,
            params: Map::new(),
            metadata: Map::new(),
            progress: None,
            outcome: None,
            attempts: 0,
            cached: false,
            cache_control: CacheControl::default(),
            limits: None,
            retry: RetryOverride::default(),
            priority: 0,
            context: no_context(),
            allowed: None,
            agent: None,
            callback_url: None,
            created_at: now.at,
            started_at: None,
            ended_at: None,
            node,
            last_seq: EVENTS_OF_ACCEPTANCE,
            unrun_start: None,
            has_posted_result: false,
            stopwatch: Stopwatch::accepted(now),
            written: Written::default(),
            counted: Counted::default(),
        }
    }

    fn enter(&mut self, next: Status) -> Result<(), ForbiddenTransition> {
        if !self.status.may_become(next) {
            return Err(ForbiddenTransition { from: self.status, to: next });
        }
        self.status = next;
        Ok(())
    }

    /// Its arguments will come piece by piece; nothing is known of them yet.
    pub fn await_arguments(&mut self) {
        self.streamed = true;
        self.phase = Phase::Arguments;
        self.replace_arguments(Value::Null);
    }

    /// So much of the arguments can be read by now.
    ///
    /// # Errors
    /// If the call does not wait.
    pub fn fill(&mut self, readable: Map<String, Value>) -> Result<(), ForbiddenTransition> {
        if self.status != Status::Wait {
            return Err(ForbiddenTransition { from: self.status, to: Status::Wait });
        }
        self.params = readable;
        self.last_seq += 1;
        Ok(())
    }

    /// The arguments are complete.
    ///
    /// # Errors
    /// If the call does not wait.
    pub fn complete(&mut self, arguments: Value) -> Result<(), ForbiddenTransition> {
        self.fill(arguments.as_object().cloned().unwrap_or_default())?;
        self.phase = Phase::Queued;
        self.replace_arguments(arguments);
        Ok(())
    }

    /// The arguments will never be complete; this is what came of them, and what of it can be read.
    ///
    /// # Errors
    /// If the call does not wait.
    pub fn keep(&mut self, came: Value, readable: Map<String, Value>) -> Result<(), ForbiddenTransition> {
        self.fill(readable)?;
        self.replace_arguments(came);
        Ok(())
    }

    fn replace_arguments(&mut self, arguments: Value) {
        self.arguments = Arc::new(arguments);
        self.arguments_text = JsonText::of(&self.arguments);
    }

    /// The tool starts.
    ///
    /// # Errors
    /// If the call is not waiting.
    pub fn start(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        let now = now.into();
        self.phase = Phase::Running;
        self.started_at = Some(now.at);
        self.stopwatch.start(self.created_at, now);
        self.note_estimated();
        self.attempts += 1;
        self.last_seq += 1;
        Ok(())
    }

    /// The result of an earlier call is its own: nothing runs, but it passes through the same statuses.
    ///
    /// # Errors
    /// If the call is not waiting.
    pub fn take_over(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.start(now)?;
        (self.attempts, self.cached) = (0, true);
        Ok(())
    }

    /// The next attempt starts.
    ///
    /// # Errors
    /// If the call has not been running.
    pub fn start_again(&mut self) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        self.phase = Phase::Running;
        self.attempts += 1;
        self.last_seq += 1;
        Ok(())
    }

    /// The start of this attempt was recorded, but the tool was not run after all. What an earlier attempt did stays, and so
    /// does what watchers were told of the start.
    pub fn never_ran(&mut self) {
        self.unrun_start = self.started_at;
        if self.attempts <= 1 {
            self.started_at = None;
        }
    }

    /// Runs of the tool that have begun.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.attempts - u32::from(self.unrun_start.is_some()).min(self.attempts)
    }

    /// When the tool started, as the event says that told of it.
    #[must_use]
    pub fn announced_start(&self) -> Option<Time> {
        self.started_at.or(self.unrun_start)
    }

    /// This process goes on with a call that it has read back.
    pub fn resume(&mut self, now: Moment) {
        self.stopwatch.resume(now, self.attempts);
    }

    /// Milliseconds from acceptance until now.
    #[must_use]
    pub fn waited_ms(&self, now: Moment) -> u64 {
        self.stopwatch.waited(self.created_at, now) / 1000
    }

    /// Names the durations that were estimated, since they span a restart.
    fn note_estimated(&mut self) {
        let estimated = self.stopwatch.estimated(self.started_at);
        if estimated.is_empty() {
            return;
        }
        let noted = self.metadata.entry(ESTIMATED).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(names) = noted else {
            *noted = estimated.into();
            return;
        };
        names.extend(estimated.into_iter().map(Value::from).filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }

    /// The running tool says something about itself.
    ///
    /// # Errors
    /// If the call is not running.
    pub fn update(&mut self, update: StatusUpdate) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        let StatusUpdate { tip, params, metadata, progress, phase } = update;
        self.phase = phase.unwrap_or(self.phase);
        self.tip = tip.or(self.tip.take());
        self.progress = progress.or(self.progress.take());
        json::merge_deep(&mut self.params, params);
        json::merge_deep(&mut self.metadata, metadata);
        self.last_seq += 1;
        Ok(())
    }

    /// Something is told of it that is no change of its own; returns the event's number.
    ///
    /// # Errors
    /// If it has ended.
    pub fn note(&mut self) -> Result<u32, ForbiddenTransition> {
        if self.status.is_terminal() {
            return Err(ForbiddenTransition { from: self.status, to: self.status });
        }
        self.last_seq += 1;
        Ok(self.last_seq)
    }

    /// The call ends. The outcome's metadata is merged.
    ///
    /// # Errors
    /// If it has ended before.
    pub fn settle(&mut self, mut outcome: Outcome, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.enter(if outcome.is_error() { Status::Error } else { Status::Success })?;
        let now = now.into();
        self.phase = Phase::Done;
        self.ended_at = Some(now.at);
        self.stopwatch.end(self.created_at, self.started_at, self.limits.as_ref(), now);
        if outcome.is_error()
            && let Some(called_as) = self.metadata.get(CALLED_AS).and_then(Value::as_str)
        {
            outcome.name_tool(&self.name, called_as);
        }
        json::merge_deep(&mut self.metadata, std::mem::take(&mut outcome.metadata));
        self.note_estimated();
        self.outcome = Some(Arc::new(outcome));
        self.last_seq += 2;
        Ok(())
    }

    /// The end could not be recorded as it was: this failure is it instead.
    pub fn give_up(&mut self, failure: Failure) {
        (self.status, self.outcome) = (Status::Error, Some(Arc::new(failure.into())));
        self.tip = None;
        self.progress = None;
        self.params.clear();
        self.metadata.clear();
    }

    /// Milliseconds from the start of the tool to the end; 0 for a call that ended without a run, `None` before its end.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        self.ran_micros().map(|micros| micros / 1000)
    }

    /// The same in microseconds.
    #[must_use]
    pub fn ran_micros(&self) -> Option<u64> {
        let ended = self.ended_at?;
        let started = self.started_at.unwrap_or(ended);
        Some(self.stopwatch.ran.unwrap_or_else(|| Moment::from(ended).micros_since(started.into())))
    }

    /// Milliseconds from acceptance to the start of the tool (to the end, if it never ran; 0 while it waits).
    #[must_use]
    pub fn queued_ms(&self) -> u64 {
        let Some(end) = self.started_at.or(self.ended_at) else { return 0 };
        self.stopwatch.queued.unwrap_or_else(|| Moment::from(end).micros_since(self.created_at.into())) / 1000
    }

    /// What its timestamps do not say of its durations; this much is stored beside them.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let between = |from: Option<Time>, to: Option<Time>| Some(to?.millis_since(from?));
        let queued = between(Some(self.created_at), self.started_at.or(self.ended_at)).unwrap_or(0);
        let ran = between(self.started_at.or(self.ended_at), self.ended_at);
        Measured {
            queued_ms: Some(self.queued_ms()).filter(|ms| *ms != queued),
            duration_ms: self.duration_ms().filter(|ms| Some(*ms) != ran),
        }
    }
}

#[cfg(test)]
mod tests;
