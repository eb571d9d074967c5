//! A submission: the calls of one request, as the caller passes them to the engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::dispatch::Mode;
use toolpost_core::domain::call::CacheControl;
use toolpost_core::domain::tool::RetryOverride;
use toolpost_core::domain::{Agent, CallRequest, IdempotencyKey, LimitsSpec, Session};
use toolpost_store::store::StoreError;

/// The time for which the caller of a request waits (docs/reference/contract.md, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Until the calls have ended, except calls of `async` tools.
    #[default]
    AsDeclared,
    /// Until the calls have ended.
    Result,
    /// Until the calls are committed.
    Accepted,
    /// Until the calls have ended, but at most for this duration.
    For(Duration),
}

/// The calls of one request.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// The calls, in request order.
    pub calls: Vec<CallRequest>,
    /// Calls of the request that exist already, each with its index, in request order. The key of the request covers
    /// them, too.
    pub known: Vec<(usize, Uuid)>,
    /// `true` if the request is a batch, even of one call.
    pub is_batch: bool,
    /// The batch of the calls, if it exists already.
    pub batch_id: Option<Uuid>,
    /// The order in which the batch runs.
    pub mode: Mode,
    /// The id of the session.
    pub session: Option<Arc<str>>,
    /// The stored session, once it has been read.
    pub conversation: Option<Arc<Session>>,
    /// Context objects. They take precedence over those of the session and the server.
    pub context: Map<String, Value>,
    /// The agent that makes the calls.
    pub agent: Option<Arc<Agent>>,
    /// Limits for all calls. The limits of a call take precedence.
    pub limits: LimitsSpec,
    /// Retries for all calls. The retries of a call take precedence.
    pub retry: RetryOverride,
    /// The priority of all calls; higher values leave the queue first. The priority of a call takes precedence.
    pub priority: i32,
    /// The URL to which the ends of the calls are delivered.
    pub callback_url: Option<Arc<str>>,
    /// How long the caller waits.
    pub wait: Wait,
    /// `true` if the caller is answered when a call waits for an approval, unless `wait` says more.
    pub leaves_approvals: bool,
    /// The idempotency key of the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// `true` if the calls are cancelled when the caller disconnects.
    pub cancel_on_disconnect: bool,
    /// `true` if the model's output was truncated. No call runs then.
    pub truncated: bool,
    /// The use of cached results.
    pub cache_control: CacheControl,
    /// The W3C trace context of the request.
    pub traceparent: Option<Arc<str>>,
}

/// An error returned when no call of a submission was accepted.
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
    /// The check of the arguments panicked.
    #[error("the arguments could not be checked")]
    Failed,
}

/// An error returned for a submission with idempotency keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyedError {
    /// An idempotency key belongs to a different request.
    #[error("the idempotency key was already used for a different request")]
    Reused {
        /// The index of the call; `None` for the key of the request.
        call: Option<usize>,
    },
    /// The calls could not be recorded in time.
    #[error("the calls could not be recorded in time")]
    NotRecorded {
        /// The batch of the calls, if they are one.
        batch_id: Option<Uuid>,
        /// The first call.
        call: Option<Uuid>,
    },
    /// The submission is rejected for a reason other than its keys.
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
    pub fn is_keyed(&self) -> bool {
        self.idempotency_key.is_some() || self.calls.iter().any(|call| call.idempotency_key.is_some())
    }
}
