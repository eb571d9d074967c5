//! One tool call and the machine of its statuses.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Failure, JsonText, Limits, Moment, Outcome, Time, json};

mod counted;
mod json_cache;
mod record;
mod request;
mod stopwatch;
mod update;

pub use counted::Counted;
pub use json_cache::JsonCache;
pub use record::CallRecord;
pub use request::{CacheControl, CallRequest};
pub use stopwatch::Stopwatch;
pub use update::{Progress, StatusUpdate};

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
    pub fn can_become(self, next: Self) -> bool {
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

/// A call: a machine of its statuses around a [`CallRecord`].
///
/// The fields of the record can be read as if they were the call's own. Only the methods of the call change them, so that no
/// code can set a status that may not follow, or an event number that exists already.
#[derive(Debug, Clone)]
pub struct Call {
    record: CallRecord,
}

impl Deref for Call {
    type Target = CallRecord;

    fn deref(&self) -> &CallRecord {
        &self.record
    }
}

/// A call that was read back, or is planned.
impl From<CallRecord> for Call {
    fn from(record: CallRecord) -> Self {
        Self { record }
    }
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

/// Where `metadata` names the durations that span a restart.
const ESTIMATED: &str = "estimated";

impl Call {
    /// Returns a call as it is accepted: `WAIT`, and nothing else is known.
    #[must_use]
    pub fn accepted(
        id: Uuid,
        request_name: Arc<str>,
        call_id: Option<&str>,
        arguments: Arc<Value>,
        now: impl Into<Moment>,
        node: Arc<str>,
    ) -> Self {
        CallRecord::accepted(id, request_name, call_id, arguments, now, node).into()
    }

    /// Returns the fields of the call, to be changed and made a call again.
    #[must_use]
    pub fn into_record(self) -> CallRecord {
        self.record
    }

    /// Rewrites the contents of the call before it is stored. The status, the number of attempts and that of the last event
    /// stay as they are.
    pub fn rewrite<T>(&mut self, rewrite: impl FnOnce(&mut CallRecord) -> T) -> T {
        let (status, attempts, last_seq) = (self.status, self.attempts, self.last_seq);
        let rewritten = rewrite(&mut self.record);
        (self.record.status, self.record.attempts, self.record.last_seq) = (status, attempts, last_seq);
        rewritten
    }

    /// Assigns the call to the tool that runs it: its name and title, its limits, and the context objects that it names.
    pub fn assign(&mut self, name: Arc<str>, title: Arc<str>, tool: Option<(Limits, Arc<Map<String, Value>>)>) {
        (self.record.name, self.record.title) = (name, title);
        if let Some((limits, context)) = tool {
            (self.record.limits, self.record.context) = (Some(limits), context);
        }
    }

    /// Sets the context objects that the tool names.
    pub fn set_context(&mut self, context: Arc<Map<String, Value>>) {
        self.record.context = context;
    }

    /// Sets the arguments that the tool gets, and adds what was coerced in them.
    pub fn add_checked(&mut self, arguments: Arc<Value>, coerced: Vec<Coercion>) {
        self.record.coerced.extend(coerced);
        self.set_effective_arguments(arguments);
    }

    /// Sets the arguments that the tool gets.
    pub fn set_effective_arguments(&mut self, arguments: Arc<Value>) {
        self.record.effective_arguments = Some(arguments);
    }

    /// Adds members to the metadata.
    pub fn extend_metadata(&mut self, members: impl IntoIterator<Item = (String, Value)>) {
        self.record.metadata.extend(members);
    }

    /// Sets the line that people see.
    pub fn set_tip(&mut self, tip: String) {
        self.record.tip = Some(tip);
    }

    /// Leaves out as many event numbers, which another image of the call has used.
    pub fn skip_events(&mut self, count: u32) {
        self.record.last_seq += count;
    }

    /// Records that the end of the call is a result that was posted.
    pub fn set_posted_result(&mut self) {
        self.record.has_posted_result = true;
    }

    /// Keeps the memory of the request counted for as long as any image of the call exists.
    pub fn keep_counted(&mut self, counted: Counted) {
        self.record.counted = counted;
    }

    fn enter(&mut self, next: Status) -> Result<(), ForbiddenTransition> {
        if !self.record.status.can_become(next) {
            return Err(ForbiddenTransition { from: self.record.status, to: next });
        }
        self.record.status = next;
        Ok(())
    }

    /// Its arguments will come piece by piece; nothing is known of them yet.
    pub fn await_arguments(&mut self) {
        self.record.streamed = true;
        self.record.phase = Phase::Arguments;
        self.replace_arguments(Value::Null);
    }

    /// So much of the arguments can be read by now.
    ///
    /// # Errors
    /// If the call does not wait.
    pub fn fill(&mut self, readable: Map<String, Value>) -> Result<(), ForbiddenTransition> {
        if self.record.status != Status::Wait {
            return Err(ForbiddenTransition { from: self.record.status, to: Status::Wait });
        }
        self.record.params = readable;
        self.record.last_seq += 1;
        Ok(())
    }

    /// The arguments are complete.
    ///
    /// # Errors
    /// If the call does not wait.
    pub fn complete(&mut self, arguments: Value) -> Result<(), ForbiddenTransition> {
        self.fill(arguments.as_object().cloned().unwrap_or_default())?;
        self.record.phase = Phase::Queued;
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
        self.record.arguments = Arc::new(arguments);
        self.record.arguments_text = JsonText::of(&self.record.arguments);
    }

    /// The tool starts.
    ///
    /// # Errors
    /// If the call is not waiting.
    pub fn start(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        let now = now.into();
        self.record.phase = Phase::Running;
        self.record.started_at = Some(now.at);
        self.record.stopwatch.start(self.record.created_at, now);
        self.note_estimated();
        self.record.attempts += 1;
        self.record.last_seq += 1;
        Ok(())
    }

    /// The result of an earlier call is its own: nothing runs, but it passes through the same statuses.
    ///
    /// # Errors
    /// If the call is not waiting.
    pub fn take_over(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.start(now)?;
        (self.record.attempts, self.record.cached) = (0, true);
        Ok(())
    }

    /// The next attempt starts.
    ///
    /// # Errors
    /// If the call has not been running.
    pub fn start_again(&mut self) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        self.record.phase = Phase::Running;
        self.record.attempts += 1;
        self.record.last_seq += 1;
        Ok(())
    }

    /// The start of this attempt was recorded, but the tool was not run after all. What an earlier attempt did stays, and so
    /// does what watchers were told of the start.
    pub fn never_ran(&mut self) {
        self.record.unrun_start = self.record.started_at;
        if self.record.attempts <= 1 {
            self.record.started_at = None;
        }
    }

    /// Runs of the tool that have begun.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.record.attempts - u32::from(self.record.unrun_start.is_some()).min(self.record.attempts)
    }

    /// When the tool started, as the event says that told of it.
    #[must_use]
    pub fn announced_start(&self) -> Option<Time> {
        self.record.started_at.or(self.record.unrun_start)
    }

    /// This process goes on with a call that it has read back.
    pub fn resume(&mut self, now: Moment) {
        self.record.stopwatch.resume(now, self.record.attempts);
    }

    /// Milliseconds from acceptance until now.
    #[must_use]
    pub fn waited_ms(&self, now: Moment) -> u64 {
        self.record.stopwatch.waited(self.record.created_at, now) / 1000
    }

    /// Names the durations that were estimated, since they span a restart.
    fn note_estimated(&mut self) {
        let estimated = self.record.stopwatch.estimated(self.record.started_at);
        if estimated.is_empty() {
            return;
        }
        let noted = self.record.metadata.entry(ESTIMATED).or_insert_with(|| Value::Array(Vec::new()));
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
        self.record.phase = phase.unwrap_or(self.record.phase);
        self.record.tip = tip.or(self.record.tip.take());
        self.record.progress = progress.or(self.record.progress.take());
        json::merge_deep(&mut self.record.params, params);
        json::merge_deep(&mut self.record.metadata, metadata);
        self.record.last_seq += 1;
        Ok(())
    }

    /// Something is told of it that is no change of its own; returns the event's number.
    ///
    /// # Errors
    /// If it has ended.
    pub fn note(&mut self) -> Result<u32, ForbiddenTransition> {
        if self.record.status.is_terminal() {
            return Err(ForbiddenTransition { from: self.record.status, to: self.record.status });
        }
        self.record.last_seq += 1;
        Ok(self.record.last_seq)
    }

    /// The call ends. The outcome's metadata is merged.
    ///
    /// # Errors
    /// If it has ended before.
    pub fn settle(&mut self, mut outcome: Outcome, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.enter(if outcome.is_error() { Status::Error } else { Status::Success })?;
        let now = now.into();
        self.record.phase = Phase::Done;
        self.record.ended_at = Some(now.at);
        self.record.stopwatch.end(self.record.created_at, self.record.started_at, self.record.limits.as_ref(), now);
        if outcome.is_error()
            && let Some(called_as) = self.record.metadata.get(CALLED_AS).and_then(Value::as_str)
        {
            outcome.name_tool(&self.record.name, called_as);
        }
        json::merge_deep(&mut self.record.metadata, std::mem::take(&mut outcome.metadata));
        self.note_estimated();
        self.record.outcome = Some(Arc::new(outcome));
        self.record.last_seq += 2;
        Ok(())
    }

    /// The end could not be recorded as it was: this failure is it instead.
    pub fn give_up(&mut self, failure: Failure) {
        (self.record.status, self.record.outcome) = (Status::Error, Some(Arc::new(failure.into())));
        self.record.tip = None;
        self.record.progress = None;
        self.record.params.clear();
        self.record.metadata.clear();
    }

    /// Milliseconds from the start of the tool to the end; 0 for a call that ended without a run, `None` before its end.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        self.ran_micros().map(|micros| micros / 1000)
    }

    /// The same in microseconds.
    #[must_use]
    pub fn ran_micros(&self) -> Option<u64> {
        let ended = self.record.ended_at?;
        let started = self.record.started_at.unwrap_or(ended);
        Some(self.record.stopwatch.ran.unwrap_or_else(|| Moment::from(ended).micros_since(started.into())))
    }

    /// Milliseconds from acceptance to the start of the tool (to the end, if it never ran; 0 while it waits).
    #[must_use]
    pub fn queued_ms(&self) -> u64 {
        let Some(end) = self.record.started_at.or(self.record.ended_at) else { return 0 };
        self.record.stopwatch.queued.unwrap_or_else(|| Moment::from(end).micros_since(self.record.created_at.into()))
            / 1000
    }

    /// What its timestamps do not say of its durations; this much is stored beside them.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let between = |from: Option<Time>, to: Option<Time>| Some(to?.millis_since(from?));
        let queued =
            between(Some(self.record.created_at), self.record.started_at.or(self.record.ended_at)).unwrap_or(0);
        let ran = between(self.record.started_at.or(self.record.ended_at), self.record.ended_at);
        Measured {
            queued_ms: Some(self.queued_ms()).filter(|ms| *ms != queued),
            duration_ms: self.duration_ms().filter(|ms| Some(*ms) != ran),
        }
    }
}

#[cfg(test)]
mod tests;
