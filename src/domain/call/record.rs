//! The fields of a call.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::tool::RetryOverride;
use super::super::{Agent, AllowList, JsonText, Limits, Moment, Outcome, Tenant, Time};
use super::{CacheControl, Call, Coercion, Counted, JsonCache, Phase, Progress, Status, Stopwatch};

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
    /// The measurement of the time that the call waited and ran.
    pub stopwatch: Stopwatch,
    /// The cached JSON of the call.
    pub written: JsonCache,
    /// The counted memory of the request.
    pub counted: Counted,
}

/// The number of events that each accepted call has: `tool_call`, and `status` with `WAIT`.
const EVENTS_OF_ACCEPTANCE: u32 = 2;

/// Returns a shared empty context, to avoid an allocation for each call.
fn no_context() -> Arc<Map<String, Value>> {
    static NOTHING: LazyLock<Arc<Map<String, Value>>> = LazyLock::new(Arc::default);
    NOTHING.clone()
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
}
