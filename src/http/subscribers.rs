//! Limits on open event streams, in total and per caller.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::auth::{CallerLimits, held};
use super::{AppState, HttpResult, Problem};
use crate::auth::{Limits, Permit};

/// The limits that apply to the caller of a request.
#[derive(Debug)]
pub(super) struct StreamLimits {
    all: Arc<Semaphore>,
    own: Option<Arc<Limits>>,
}

/// A permit for one open stream. Dropping it releases the permit.
#[derive(Debug)]
pub(super) struct StreamPermit {
    _all: OwnedSemaphorePermit,
    _own: Option<Permit>,
}

impl StreamLimits {
    /// Acquires a permit.
    ///
    /// # Errors
    /// Returns a problem if the caller or the node has reached its limit.
    pub fn take(&self) -> HttpResult<StreamPermit> {
        let own = self.own.as_ref().map(|own| own.stream()).transpose();
        let own = own.map_err(|busy| Problem::too_many("TOO_MANY_STREAMS", busy.what, busy.retry_after_s))?.flatten();
        let full = |_| Problem::overloaded("too many event streams are open; nothing was accepted, retry later");
        let all = self.all.clone().try_acquire_owned().map_err(full)?;
        Ok(StreamPermit { _all: all, _own: own })
    }
}

impl StreamPermit {
    /// Holds the permit until the body of the response was sent.
    pub fn attach_to(self, response: Response) -> Response {
        held(response, self)
    }
}

/// Attaches the permit to the response, if any.
pub(super) fn with_permit(permit: Option<StreamPermit>, response: Response) -> Response {
    match permit {
        Some(permit) => permit.attach_to(response),
        None => response,
    }
}

impl FromRequestParts<AppState> for StreamLimits {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        let own = parts.extensions.get::<CallerLimits>().map(|share| share.limits.clone());
        Ok(Self { all: state.subscribers.clone(), own })
    }
}

/// For routes that always respond with an event stream.
impl FromRequestParts<AppState> for StreamPermit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> HttpResult<Self> {
        let Ok(limits) = StreamLimits::from_request_parts(parts, state).await;
        limits.take()
    }
}
