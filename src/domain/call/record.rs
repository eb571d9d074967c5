//! The fields of a call.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::tool::RetryOverride;
use super::super::{Agent, AllowList, JsonText, Limits, Moment, Outcome, Tenant, Time};
use super::{CacheControl, Call, Coercion, Counted, JsonCache, Phase, Progress, Status, Stopwatch};

/// The fields of a call: all that has happened to it. A [`Call`](super::Call) shows them and alone changes them.
#[derive(Debug, Clone)]
pub struct CallRecord {
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
    pub written: JsonCache,
    /// Keeps the memory of its request counted.
    pub counted: Counted,
}

/// Events that a call has from its row alone: acceptance and `WAIT`.
const EVENTS_OF_ACCEPTANCE: u32 = 2;

/// Nothing at all, without an allocation for each call.
fn no_context() -> Arc<Map<String, Value>> {
    static NOTHING: LazyLock<Arc<Map<String, Value>>> = LazyLock::new(Arc::default);
    NOTHING.clone()
}

impl CallRecord {
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
            written: JsonCache::default(),
            counted: Counted::default(),
        }
    }

    /// Returns the call without what may be large: its arguments, its result, and what its tool reports.
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
