//! The fields of a call.

use std::any::Any;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::budget::BudgetHold;
use super::super::tool::RetryOverride;
use super::super::{
    Agent, AllowList, Approval, Identity, JsonText, Limits, Moment, Outcome, Tenant, Time, Vendor, json,
};
use super::{CacheControl, Call, Coercion, Measured, Phase, Status, Stopwatch};

/// The fields of a call. Only [`Call`](super::Call) changes them.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The id that the service generated, a UUIDv7.
    pub id: Uuid,
    /// The tenant that owns the call.
    pub tenant: Tenant,
    /// The caller's id. Defaults to `id` as text.
    pub call_id: Arc<str>,
    /// The name of the tool.
    pub name: Arc<str>,
    /// The display name of the tool.
    pub title: Arc<str>,
    /// The session of the call.
    pub session: Option<Arc<str>>,
    /// The batch of the call.
    pub batch_id: Option<Uuid>,
    /// The position in the request.
    pub index: u32,
    /// The status.
    pub status: Status,
    /// The phase within the status.
    pub phase: Phase,
    /// The arguments as given.
    pub arguments: Arc<Value>,
    /// The arguments as compact JSON.
    pub arguments_text: JsonText,
    /// Whether the arguments were streamed; the first events then do not contain them.
    pub streamed: bool,
    /// The vendor whose schema the arguments may follow, if that differs from the tool's own.
    pub vendor: Option<Vendor>,
    /// Whether a hook has replaced the stored arguments, so that they are not the given ones.
    pub is_redacted: bool,
    /// The arguments that are passed to the tool, after coercion and defaults; `None` before validation.
    pub effective_arguments: Option<Arc<Value>>,
    /// The coerced arguments.
    pub coerced: Vec<Coercion>,
    /// A line for people.
    pub tip: Option<String>,
    /// The parameters that the tool shows, merged from all updates.
    pub params: Map<String, Value>,
    /// Further facts, merged from all updates.
    pub metadata: Map<String, Value>,
    /// The reported progress.
    pub progress: Option<Progress>,
    /// The outcome of an ended call.
    pub outcome: Option<Arc<Outcome>>,
    /// The number of started attempts.
    pub attempts: u32,
    /// Whether the result comes from the cache.
    pub cached: bool,
    /// The caller's cache control.
    pub cache_control: CacheControl,
    /// The effective limits; `None` if the tool is unknown.
    pub limits: Option<Limits>,
    /// The caller's retry settings; the tool's settings apply to the rest.
    pub retry: RetryOverride,
    /// The priority; higher values leave the queue first.
    pub priority: i32,
    /// The context objects that the tool lists. They are never shown.
    pub context: Arc<Map<String, Value>>,
    /// Who made the call; `None` on a service without authentication.
    pub caller: Option<Arc<Identity>>,
    /// The approval, if the call needs one.
    pub approval: Option<Box<Approval>>,
    /// What the call has reserved of budgets.
    pub holds: Box<[BudgetHold]>,
    /// The tools that the caller may use; `None` for all tools of the tenant.
    pub allowed: Option<Arc<AllowList>>,
    /// The agent that made the call.
    pub agent: Option<Arc<Agent>>,
    /// The URL that receives the ended call.
    pub callback_url: Option<Arc<str>>,
    /// The time of acceptance.
    pub created_at: Time,
    /// The time at which the tool started.
    pub started_at: Option<Time>,
    /// The time at which the call ended.
    pub ended_at: Option<Time>,
    /// The node of the call.
    pub node: Arc<str>,
    /// The number of the call's last event.
    pub last_seq: u32,
    /// The recorded start of the last attempt, if that attempt did not run.
    pub unrun_start: Option<Time>,
    /// Whether the call ended with a posted result.
    pub has_posted_result: bool,
    /// The digest of the posted result that the call ended with; 0 if it ended otherwise.
    pub result_digest: i64,
    /// The measurement of the time that the call waited and ran.
    pub stopwatch: Stopwatch,
    /// The cached JSON of the call.
    pub written: JsonCache,
    /// The counted memory of the request.
    pub counted: Counted,
}

/// The format in which the caller of a call receives it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallFormat {
    /// A ToolCall.
    #[default]
    Native,
    /// A result of the Model Context Protocol.
    Mcp,
}

/// The call as compact JSON in the format of its caller, rendered at most once. A clone has the same format but starts
/// empty, because the cloned call can change.
#[derive(Debug, Default)]
pub struct JsonCache {
    format: CallFormat,
    json: OnceLock<Bytes>,
}

impl JsonCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(format: CallFormat) -> Self {
        Self { format, json: OnceLock::new() }
    }

    /// Returns the format of the JSON.
    #[must_use]
    pub fn format(&self) -> CallFormat {
        self.format
    }

    /// Returns the JSON if it was stored and has this format.
    #[must_use]
    pub fn get(&self, format: CallFormat) -> Option<&Bytes> {
        self.json.get().filter(|_| self.format == format)
    }

    /// Stores the JSON in the format of the caller. Later values are ignored.
    pub fn keep(&self, json: Bytes) {
        let _ = self.json.set(json);
    }
}

impl Clone for JsonCache {
    fn clone(&self) -> Self {
        Self::new(self.format)
    }
}

/// A handle that keeps the memory of a large request counted while any copy of its calls exists. The engine defines its
/// contents.
#[derive(Debug, Clone, Default)]
pub struct Counted(pub Option<Arc<dyn Any + Send + Sync>>);

/// The number of events that each accepted call has: `tool_call`, and `status` with `WAIT`.
const EVENTS_OF_ACCEPTANCE: u32 = 2;

/// Returns a shared empty context, to avoid an allocation for each call.
fn no_context() -> Arc<Map<String, Value>> {
    static NOTHING: LazyLock<Arc<Map<String, Value>>> = LazyLock::new(Arc::default);
    NOTHING.clone()
}

fn text_of(id: Uuid) -> Arc<str> {
    Arc::from(&*id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}

impl CallRecord {
    /// Creates the record of an accepted call with the status `WAIT`.
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
            call_id: call_id.map_or_else(|| text_of(id), Arc::from),
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
            vendor: None,
            is_redacted: false,
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
            caller: None,
            approval: None,
            holds: Box::default(),
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
            result_digest: 0,
            stopwatch: Stopwatch::accepted(now),
            written: JsonCache::default(),
            counted: Counted::default(),
        }
    }

    /// Returns a copy of the call without its large fields: arguments, result and reports of the tool.
    #[must_use]
    pub fn outline(&self) -> Call {
        let outline = Self {
            tenant: self.tenant.clone(),
            title: self.title.clone(),
            session: self.session.clone(),
            batch_id: self.batch_id,
            index: self.index,
            status: self.status,
            phase: self.phase,
            last_seq: self.last_seq,
            ..Self::accepted(
                self.id,
                self.name.clone(),
                Some(&self.call_id),
                Arc::default(),
                self.created_at,
                self.node.clone(),
            )
        };
        outline.into()
    }

    /// Returns the number of attempts that have run the tool.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.attempts - u32::from(self.unrun_start.is_some()).min(self.attempts)
    }

    /// Returns the start time that was published in the `status` event.
    #[must_use]
    pub fn announced_start(&self) -> Option<Time> {
        self.started_at.or(self.unrun_start)
    }

    /// Returns the milliseconds from acceptance until now.
    #[must_use]
    pub fn waited_ms(&self, now: Moment) -> u64 {
        self.stopwatch.waited(self.created_at, now) / 1000
    }

    /// Returns the milliseconds from the start of the tool to the end: 0 if the tool never ran, `None` before the end.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        self.ran_micros().map(|micros| micros / 1000)
    }

    /// Returns the duration of [`CallRecord::duration_ms`] in microseconds.
    #[must_use]
    pub fn ran_micros(&self) -> Option<u64> {
        let ended = self.ended_at?;
        let started = self.started_at.unwrap_or(ended);
        Some(self.stopwatch.ran.unwrap_or_else(|| Moment::from(ended).micros_since(started.into())))
    }

    /// Returns the milliseconds from acceptance to the start of the tool, or to the end if it never ran; 0 while the
    /// call waits.
    #[must_use]
    pub fn queued_ms(&self) -> u64 {
        let Some(end) = self.started_at.or(self.ended_at) else { return 0 };
        self.stopwatch.queued.unwrap_or_else(|| Moment::from(end).micros_since(self.created_at.into())) / 1000
    }

    /// Returns the measured durations that differ from the timestamps. They are stored in addition to the timestamps.
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

/// The progress of a running call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// Number of completed steps.
    pub current: f64,
    /// Total number of steps, if known.
    pub total: Option<f64>,
    /// Description of the current step.
    pub message: Option<String>,
}

/// An update from a running tool. Updates accumulate over the call.
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
    /// Returns `true` if the update changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if the update only enters this phase.
    #[must_use]
    pub fn only_enters(&self, phase: Phase) -> bool {
        *self == Self { phase: Some(phase), ..Self::default() }
    }

    /// Merges a later update into this one.
    pub fn merge(&mut self, later: Self) {
        self.tip = later.tip.or(self.tip.take());
        self.progress = later.progress.or(self.progress.take());
        self.phase = later.phase.or(self.phase);
        json::merge_deep(&mut self.params, later.params);
        json::merge_deep(&mut self.metadata, later.metadata);
    }
}
