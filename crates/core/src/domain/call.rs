//! A tool call and its state machine.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::budget::{BudgetHold, BudgetUse};
use super::{Approval, Failure, JsonText, Limits, Moment, Outcome, json};

mod record;
mod request;
mod stopwatch;

pub use record::{CallFormat, CallRecord, Counted, JsonCache, Progress, StatusUpdate};
pub use request::{CacheControl, CallRequest};
pub use stopwatch::{Measured, Stopwatch};

/// The metadata member with the name that the caller used, if it differs from the tool's own name.
pub const CALLED_AS: &str = "called_as";
/// The metadata member with the id of the call that this call repeats.
pub const RERUN_OF: &str = "rerun_of";

/// The status of a call. It only moves `Wait → Doing → Success | Error` or `Wait → Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Accepted, but not started.
    Wait,
    /// The tool is running.
    Doing,
    /// The call succeeded.
    Success,
    /// The call failed.
    Error,
}

impl Status {
    /// Returns `true` if the call has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Success | Self::Error)
    }

    /// Returns `true` if `next` can follow this status.
    #[must_use]
    pub fn can_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Wait, Self::Doing | Self::Error) | (Self::Doing, Self::Doing | Self::Success | Self::Error)
        )
    }

    /// Returns the status as callers see it.
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

/// The phase of a call within its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Arguments are still being streamed.
    Arguments,
    /// Accepted and waiting for a slot.
    Queued,
    /// Waiting for the decision of a person.
    Approval,
    /// The tool is running.
    Running,
    /// An attempt failed, and the next one is scheduled.
    Retrying,
    /// The work is done outside of the service, which waits for its result.
    External,
    /// The call has ended.
    Done,
}

/// A coerced argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Coercion {
    /// The path of the argument, as a JSON Pointer (RFC 6901).
    pub pointer: String,
    /// The JSON type of the given value.
    pub from: String,
    /// The JSON type of the coerced value; `absent` for a removed `null`.
    pub to: String,
}

/// A call: a state machine around a [`CallRecord`].
///
/// Dereferences to the record for reading. Only the methods of the call change the record, so no code can set a
/// forbidden status or reuse an event number.
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

/// Wraps a record that was read from the database, or that belongs to a planned call.
impl From<CallRecord> for Call {
    fn from(record: CallRecord) -> Self {
        Self { record }
    }
}

/// An error returned by a method of [`Call`] that would cause a forbidden status change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call cannot change from {} to {}", from.as_str(), to.as_str())]
pub struct ForbiddenTransition {
    from: Status,
    to: Status,
}

/// The `metadata` member with the name of the policy that decided.
pub const POLICY: &str = "policy";
/// The `metadata` member that lists where the result of a tool does not match its output schema.
pub const OUTPUT_VIOLATIONS: &str = "output_violations";
/// The `metadata` member that lists the runs of before-hooks.
const HOOKS: &str = "hooks";
/// The `metadata` member that lists the durations that span a restart.
const ESTIMATED: &str = "estimated";

impl Call {
    /// Returns the record of the call.
    #[must_use]
    pub fn into_record(self) -> CallRecord {
        self.record
    }

    /// Rewrites the contents of the call before it is stored. The status, the number of attempts and the last event
    /// number are preserved.
    pub fn rewrite<T>(&mut self, rewrite: impl FnOnce(&mut CallRecord) -> T) -> T {
        let (status, attempts, last_seq) = (self.status, self.attempts, self.last_seq);
        let rewritten = rewrite(&mut self.record);
        (self.record.status, self.record.attempts, self.record.last_seq) = (status, attempts, last_seq);
        rewritten
    }

    /// Assigns the call to its tool: sets the name, the title, the limits, and the context objects that the tool lists.
    pub fn assign(&mut self, name: Arc<str>, title: Arc<str>, tool: Option<(Limits, Arc<Map<String, Value>>)>) {
        (self.record.name, self.record.title) = (name, title);
        if let Some((limits, context)) = tool {
            (self.record.limits, self.record.context) = (Some(limits), context);
        }
    }

    /// Sets the context objects that the tool lists.
    pub fn set_context(&mut self, context: Arc<Map<String, Value>>) {
        self.record.context = context;
    }

    /// Sets the effective arguments, and adds the coercions that produced them.
    pub fn add_checked(&mut self, arguments: Arc<Value>, coerced: Vec<Coercion>) {
        self.record.coerced.extend(coerced);
        self.set_effective_arguments(arguments);
    }

    /// Sets the effective arguments, which are passed to the tool.
    pub fn set_effective_arguments(&mut self, arguments: Arc<Value>) {
        self.record.effective_arguments = Some(arguments);
    }

    /// Merges what a tool reports into the metadata. It cannot replace the name of the policy that decided.
    fn merge_metadata(&mut self, mut reported: Map<String, Value>) {
        if self.record.metadata.contains_key(POLICY) {
            reported.shift_remove(POLICY);
        }
        json::merge_deep(&mut self.record.metadata, reported);
    }

    /// Adds members to the metadata.
    pub fn extend_metadata(&mut self, members: impl IntoIterator<Item = (String, Value)>) {
        self.record.metadata.extend(members);
    }

    /// Sets the tip, the line for people.
    pub fn set_tip(&mut self, tip: String) {
        self.record.tip = Some(tip);
    }

    /// Skips `count` event numbers that another copy of the call has used.
    pub fn skip_events(&mut self, count: u32) {
        self.record.last_seq += count;
    }

    /// Records that the call ended with a posted result, by its digest. A digest of 0 says that nothing was posted.
    pub fn set_posted_result(&mut self, digest: i64) {
        (self.record.has_posted_result, self.record.result_digest) = (digest != 0, digest);
    }

    /// Returns `true` if the call has ended with the posted result of this digest.
    #[must_use]
    pub fn has_ended_with(&self, digest: i64) -> bool {
        self.record.status.is_terminal() && self.record.has_posted_result && self.record.result_digest == digest
    }

    /// Keeps the memory of the request counted while any copy of the call exists.
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

    /// Marks the arguments as streamed. They are `null` until they are complete.
    pub fn await_arguments(&mut self) {
        self.record.streamed = true;
        self.record.phase = Phase::Arguments;
        self.replace_arguments(Value::Null);
    }

    /// Sets the part of the streamed arguments that can be parsed so far.
    ///
    /// # Errors
    /// Returns an error if the call is not in the status `WAIT`.
    pub fn fill(&mut self, readable: Map<String, Value>) -> Result<(), ForbiddenTransition> {
        if self.record.status != Status::Wait {
            return Err(ForbiddenTransition { from: self.record.status, to: Status::Wait });
        }
        self.record.params = readable;
        self.record.last_seq += 1;
        Ok(())
    }

    /// Sets the complete streamed arguments.
    ///
    /// # Errors
    /// Returns an error if the call is not in the status `WAIT`.
    pub fn complete(&mut self, arguments: Value) -> Result<(), ForbiddenTransition> {
        self.fill(arguments.as_object().cloned().unwrap_or_default())?;
        self.record.phase = Phase::Queued;
        self.replace_arguments(arguments);
        Ok(())
    }

    /// Keeps the incomplete streamed arguments of a call that will not get more: the received part, and its
    /// members that can be parsed.
    ///
    /// # Errors
    /// Returns an error if the call is not in the status `WAIT`.
    pub fn keep(&mut self, came: Value, readable: Map<String, Value>) -> Result<(), ForbiddenTransition> {
        self.fill(readable)?;
        self.replace_arguments(came);
        Ok(())
    }

    fn replace_arguments(&mut self, arguments: Value) {
        self.record.arguments = Arc::new(arguments);
        self.record.arguments_text = JsonText::of(&self.record.arguments);
    }

    /// Starts the first attempt.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
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

    /// Starts a call that runs in a worker program.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
    pub fn start_outside(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.start(now)?;
        self.record.phase = Phase::External;
        Ok(())
    }

    /// Starts a call that is answered with a cached result. No attempt is counted.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
    pub fn take_over(&mut self, now: impl Into<Moment>) -> Result<(), ForbiddenTransition> {
        self.start(now)?;
        (self.record.attempts, self.record.cached) = (0, true);
        Ok(())
    }

    /// Starts a further attempt.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
    pub fn start_again(&mut self) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        self.record.phase = Phase::Running;
        self.record.attempts += 1;
        self.record.last_seq += 1;
        Ok(())
    }

    /// Records that this attempt did not run although its start was recorded. Earlier attempts and published events are
    /// preserved.
    pub fn never_ran(&mut self) {
        self.record.unrun_start = self.record.started_at;
        if self.record.attempts <= 1 {
            self.record.started_at = None;
        }
    }

    /// Resumes, in this process, a call that was read from the database.
    pub fn resume(&mut self, now: Moment) {
        self.record.stopwatch.resume(now, self.record.attempts);
    }

    /// Adds the duration that spans a restart, and is therefore estimated, to the metadata.
    fn note_estimated(&mut self) {
        let Some(estimated) = self.record.stopwatch.estimated(self.record.started_at) else { return };
        self.append_to_metadata(ESTIMATED, estimated.into());
    }

    /// Adds a run of a before-hook to the metadata.
    pub fn note_hook(&mut self, run: Value) {
        self.append_to_metadata(HOOKS, run);
    }

    /// Adds an entry to a list in the metadata, unless the list has it.
    fn append_to_metadata(&mut self, list: &str, entry: Value) {
        match self.record.metadata.entry(list).or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(entries) if entries.contains(&entry) => {}
            Value::Array(entries) => entries.push(entry),
            other => *other = vec![entry].into(),
        }
    }

    /// Applies an update from the running tool.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
    pub fn update(&mut self, update: StatusUpdate) -> Result<(), ForbiddenTransition> {
        self.enter(Status::Doing)?;
        let StatusUpdate { tip, params, metadata, progress, phase } = update;
        self.record.phase = phase.unwrap_or(self.record.phase);
        self.record.tip = tip.or(self.record.tip.take());
        self.record.progress = progress.or(self.record.progress.take());
        json::merge_deep(&mut self.record.params, params);
        self.merge_metadata(metadata);
        self.record.last_seq += 1;
        Ok(())
    }

    /// Sets the state of the approval. While it is pending, the call waits in the phase `approval`. No event is numbered.
    ///
    /// # Errors
    /// Returns an error if the call is not in the status `WAIT`.
    pub fn set_approval(&mut self, approval: Approval) -> Result<(), ForbiddenTransition> {
        if self.record.status != Status::Wait {
            return Err(ForbiddenTransition { from: self.record.status, to: Status::Wait });
        }
        self.record.phase = if approval.is_pending() { Phase::Approval } else { Phase::Queued };
        self.record.approval = Some(Box::new(approval));
        Ok(())
    }

    /// Sets what the call has reserved of budgets.
    pub fn set_holds(&mut self, holds: Box<[BudgetHold]>) {
        self.record.holds = holds;
    }

    /// Sets what the ended call has used of each budget.
    pub fn settle_holds(&mut self, used: impl Fn(&BudgetHold) -> BudgetUse) {
        for hold in &mut self.record.holds {
            hold.used = Some(used(hold));
        }
    }

    /// Allocates the number of an event that does not change the call.
    ///
    /// # Errors
    /// Returns an error if the call has ended.
    pub fn note(&mut self) -> Result<u32, ForbiddenTransition> {
        if self.record.status.is_terminal() {
            return Err(ForbiddenTransition { from: self.record.status, to: self.record.status });
        }
        self.record.last_seq += 1;
        Ok(self.record.last_seq)
    }

    /// Ends the call with its outcome, and merges the metadata of the outcome.
    ///
    /// # Errors
    /// Returns an error if the call cannot end with this outcome, for example because it has already ended.
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
        self.merge_metadata(std::mem::take(&mut outcome.metadata));
        self.note_estimated();
        self.record.outcome = Some(Arc::new(outcome));
        self.record.last_seq += 2;
        Ok(())
    }

    /// Replaces an end that cannot be recorded with a failure.
    pub fn give_up(&mut self, failure: Failure) {
        (self.record.status, self.record.outcome) = (Status::Error, Some(Arc::new(failure.into())));
        self.record.tip = None;
        self.record.progress = None;
        self.record.params.clear();
        self.record.metadata.clear();
        self.set_posted_result(0);
    }
}

#[cfg(test)]
mod tests;
