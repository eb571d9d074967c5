//! A submission: the calls of one request, as its caller hands them in.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::domain::call::CacheControl;
use crate::domain::tool::RetryOverride;
use crate::domain::{Agent, CallRequest, IdempotencyKey, LimitsSpec, Session};
use crate::store::StoreError;

/// How the calls of a batch run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Neighbouring calls to concurrency-safe tools together, any other alone and in its turn.
    #[default]
    Auto,
    /// All at once.
    Parallel,
    /// One after another.
    Serial,
}

/// How long the caller of a request waits (docs/reference/contract.md, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// As the tools have it: to the end, except for `async` ones.
    #[default]
    AsDeclared,
    /// To the end.
    Result,
    /// Until the calls are on disk.
    Accepted,
    /// So long at most.
    For(Duration),
}

/// Calls that are asked for together.
#[derive(Debug, Default)]
pub struct Submission {
    /// The calls, in request order.
    pub calls: Vec<CallRequest>,
    /// Calls of the request that are there already, with their places in it, in request order: its key stands for these
    /// too.
    pub known: Vec<(usize, Uuid)>,
    /// Whether they came as a batch, however many.
    pub is_batch: bool,
    /// The batch that they belong to, where it has begun before.
    pub batch_id: Option<Uuid>,
    /// How a batch runs.
    pub mode: Mode,
    /// The conversation that they belong to.
    pub session: Option<Arc<str>>,
    /// The same as it is stored, where it was read.
    pub conversation: Option<Arc<Session>>,
    /// Objects for tools that name them; they come before the session's and the server's.
    pub context: Map<String, Value>,
    /// On whose behalf they are made.
    pub agent: Option<Arc<Agent>>,
    /// Bounds for all of them; a call's own come first.
    pub limits: LimitsSpec,
    /// Retries for all of them; a call's own come first.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first; a call's own comes first.
    pub priority: i32,
    /// Where their ends are told to.
    pub callback_url: Option<Arc<str>>,
    /// How long the caller waits.
    pub wait: Wait,
    /// What makes it the same as another request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Whether the calls end when the caller goes away.
    pub cancel_on_disconnect: bool,
    /// The model's output was cut off: none of them runs.
    pub truncated: bool,
    /// What the caller says of kept results.
    pub cache_control: CacheControl,
    /// W3C Trace Context of the request.
    pub traceparent: Option<Arc<str>>,
}

/// An error returned for a submission of which no call was accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Too many calls are in flight.
    #[error("too many calls are in flight")]
    Overloaded,
    /// The service is stopping.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug ended the check of the arguments.
    #[error("the arguments could not be checked")]
    Failed,
}

/// An error returned for a submission with idempotency keys of which no call was accepted.
#[derive(Debug, thiserror::Error)]
pub enum KeyedError {
    /// An idempotency key was used for another request: that of the call with this index, or that of the whole request.
    #[error("the idempotency key was used for another request")]
    Reused {
        /// The index of the call; `None` for the key of the request.
        call: Option<usize>,
    },
    /// The calls could not be recorded in time.
    #[error("the calls could not be recorded in time")]
    NotRecorded {
        /// Whether they may have been accepted all the same.
        accepted: bool,
        /// Their batch, if they are one.
        batch_id: Option<Uuid>,
        /// The first of them.
        call: Option<Uuid>,
    },
    /// The submission is refused, whatever its keys are.
    #[error(transparent)]
    Refused(#[from] SubmitError),
}

impl From<StoreError> for KeyedError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl Submission {
    /// Returns `true` if the request or one of its calls has an idempotency key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        self.idempotency_key.is_some() || self.calls.iter().any(|call| call.idempotency_key.is_some())
    }

    /// Returns a copy of the call with this index, which it keeps.
    pub(super) fn call_at(&self, index: usize) -> CallRequest {
        CallRequest { index: u32::try_from(index).ok(), ..self.calls[index].clone() }
    }

    /// The same with other calls: those of it that are new, beside those that are there already.
    #[must_use]
    pub fn with_calls(&self, calls: Vec<CallRequest>, known: Vec<(usize, Uuid)>) -> Self {
        Self {
            calls,
            known,
            session: self.session.clone(),
            conversation: self.conversation.clone(),
            context: self.context.clone(),
            agent: self.agent.clone(),
            callback_url: self.callback_url.clone(),
            traceparent: self.traceparent.clone(),
            limits: self.limits.clone(),
            ..*self
        }
    }
}
