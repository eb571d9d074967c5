//! The members of a call that have no column, as JSON. Empty, default and derived values are omitted, because every
//! byte is sent, logged and stored with every call.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::members::Members;
use super::outcome::{self, OutcomeIn};
use super::{indexed_name, present};
use toolpost_core::domain::budget::BudgetHold;
use toolpost_core::domain::call::{CacheControl, Coercion, Measured};
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::tool::RetryOverride;
use toolpost_core::domain::{Agent, Approval, Call, Code, Identity, Limits, Phase, Progress, Status, Time, Vendor};

/// Initial capacity, large enough for a typical record.
const USUAL_BYTES: usize = 512;

/// Encodes the `record` column of a call.
pub(in crate::store) fn encode(call: &Call) -> String {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    let mut record = Members::begin(&mut out);
    if !is_text_of(&call.call_id, call.id) {
        record.text("call_id", &call.call_id);
    }
    // If arguments are streamed, the name may become known after the column was written.
    if call.streamed || indexed_name(&call.name) != call.name.as_ref() {
        record.text("name", &call.name);
    }
    if call.title != call.name {
        record.text("title", &call.title);
    }
    match &call.effective_arguments {
        // Absent: the same as the arguments. Null: unknown.
        Some(effective) if Arc::ptr_eq(effective, &call.arguments) => {}
        effective => record.value("effective", &effective.as_deref()),
    }
    record.non_default("coerced", &call.coerced);
    if let Some(tip) = &call.tip {
        record.text("tip", tip);
    }
    record.non_default("params", &call.params);
    record.non_default("metadata", &call.metadata);
    record.non_default("progress", &call.progress);
    options(&mut record, call);
    // Absent: derived from the status.
    if call.phase != default_phase(call.status) {
        record.value("phase", &call.phase);
    }
    record.non_default("index", &call.index);
    if call.streamed {
        // Streamed arguments: the column was written before they were complete.
        record.json("streamed", call.arguments_text.get());
    }
    let after = |time: Option<Time>| time.map(|time| time.0.saturating_sub(call.created_at.0));
    if call.started_at.or(call.ended_at).is_some() {
        record.value("times", &(after(call.started_at), after(call.ended_at)));
    }
    record.non_default("vendor", &call.vendor);
    record.non_default("redacted", &call.is_redacted);
    record.non_default("unrun", &after(call.unrun_start));
    record.non_default("posted", &call.has_posted_result);
    record.non_default("result_digest", &call.result_digest);
    record.non_default("measured", &call.measured());
    if let Some(outcome) = &call.outcome {
        outcome::write(record.member("outcome"), outcome);
    }
    record.end();
    // JSON is UTF-8, so no character is ever replaced.
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Writes how the call is executed and for whom.
fn options(record: &mut Members<'_>, call: &Call) {
    if let Some(limits) = &call.limits {
        self::limits(record.member("limits"), limits);
    }
    record.non_default("retry", &call.retry);
    record.non_default("priority", &call.priority);
    record.non_default("cached", &call.cached);
    record.non_default("cache_control", &call.cache_control);
    if !call.status.is_terminal() {
        // Not needed after the end of the call.
        record.non_default("context", &*call.context);
        record.non_default("holds", &call.holds);
    }
    // A caller that received `TOOL_NOT_FOUND` can still find the call under this restriction.
    if (!call.status.is_terminal() || has_unknown_tool(call))
        && let Some(allowed) = call.allowed.as_ref().filter(|allowed| !allowed.globs().is_empty())
    {
        record.value("allowed", allowed.globs());
    }
    record.non_default("caller", &call.caller.as_deref());
    record.non_default("approval", &call.approval.as_deref());
    record.non_default("agent", &call.agent.as_deref());
    if let Some(url) = &call.callback_url {
        record.text("callback_url", url);
    }
}

/// Returns `true` if a call ended because its tool does not exist for the caller.
fn has_unknown_tool(call: &Call) -> bool {
    let failure = call.outcome.as_deref().and_then(|outcome| outcome.error.as_ref());
    failure.is_some_and(|failure| failure.code == Code::ToolNotFound)
}

/// Writes the limits. Default bounds of the output are omitted and restored when the record is read.
fn limits(out: &mut Vec<u8>, limits: &Limits) {
    let mut written = Members::begin(out);
    let usual = Bounds::default();
    written.value("timeout_ms", &limits.timeout_ms);
    written.non_default("idle_timeout_ms", &limits.idle_timeout_ms);
    written.non_default("queue_timeout_ms", &limits.queue_timeout_ms);
    written.non_default("max_concurrency", &limits.max_concurrency);
    if limits.max_output_bytes != usual.bytes {
        written.value("max_output_bytes", &limits.max_output_bytes);
    }
    if limits.max_output_lines != usual.lines {
        written.value("max_output_lines", &limits.max_output_lines);
    }
    written.non_default("truncate", &limits.truncate);
    written.end();
}

/// The record as it is read. `times` replaces the two absolute times of older rows.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RecordIn {
    pub call_id: Option<String>,
    pub name: Option<String>,
    pub title: Option<String>,
    #[serde(deserialize_with = "present")]
    pub effective: Option<Option<Value>>,
    pub coerced: Vec<Coercion>,
    pub tip: Option<String>,
    pub params: Map<String, Value>,
    pub metadata: Map<String, Value>,
    pub progress: Option<Progress>,
    pub limits: Option<Limits>,
    pub retry: RetryOverride,
    pub priority: i32,
    pub cached: bool,
    pub cache_control: CacheControl,
    pub context: Map<String, Value>,
    pub allowed: Vec<String>,
    pub caller: Option<Identity>,
    pub approval: Option<Approval>,
    pub holds: Box<[BudgetHold]>,
    pub agent: Option<Agent>,
    pub callback_url: Option<String>,
    pub phase: Option<Phase>,
    pub index: u32,
    #[serde(deserialize_with = "present")]
    pub streamed: Option<Value>,
    pub vendor: Option<Vendor>,
    /// Whether the stored arguments were redacted.
    pub redacted: bool,
    times: Option<(Option<i64>, Option<i64>)>,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    /// The time of a recorded start that was not followed by a run, in the units of `times`.
    pub unrun: Option<i64>,
    /// Whether the call ended with a posted result.
    pub posted: bool,
    /// The digest of that result.
    pub result_digest: i64,
    /// Durations that cannot be derived from the times.
    pub measured: Measured,
    pub outcome: Option<OutcomeIn>,
}

impl RecordIn {
    /// Returns when the call started and ended. The record stores both relative to its acceptance, in microseconds.
    pub fn times(&self, created_at: Time) -> (Option<Time>, Option<Time>) {
        let Some((started, ended)) = self.times else { return (self.started_at.map(Time), self.ended_at.map(Time)) };
        let at = |after: Option<i64>| after.map(|after| Time(created_at.0.saturating_add(after)));
        (at(started), at(ended))
    }
}

/// Returns the default phase of a call in this status.
pub(super) fn default_phase(status: Status) -> Phase {
    match status {
        Status::Wait => Phase::Queued,
        Status::Doing => Phase::Running,
        Status::Success | Status::Error => Phase::Done,
    }
}

fn is_text_of(call_id: &str, id: Uuid) -> bool {
    call_id == id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer())
}
