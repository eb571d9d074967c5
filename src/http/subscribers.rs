//! How many event streams are open at once: in all, and of one caller.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::AppState;
use super::auth::{CallerLimits, held};
use super::problem::Problem;
use crate::auth::{Limits, Permit};

/// Room for all streams of this node.
#[derive(Debug, Clone)]
pub(super) struct Subscribers(Arc<Semaphore>);

impl Subscribers {
    /// So many at once.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
    }
}

/// Where the caller of a request gets a seat, if it wants one.
#[derive(Debug)]
pub(super) struct StreamLimits {
    all: Subscribers,
    own: Option<Arc<Limits>>,
}

/// A place among the streams that are open. Dropped, the next one has it.
#[derive(Debug)]
pub(super) struct StreamPermit {
    _all: OwnedSemaphorePermit,
    _own: Option<Permit>,
}

impl StreamLimits {
    /// Takes one.
    pub fn take(&self) -> Result<StreamPermit, Problem> {
        let own = self.own.as_ref().map(|own| own.stream()).transpose();
        let own = own.map_err(|busy| Problem::too_many_streams(busy.what, busy.retry_after_s))?.flatten();
        let all = self.all.0.clone().try_acquire_owned().map_err(|_| Problem::no_room_for_streams())?;
        Ok(StreamPermit { _all: all, _own: own })
    }
}

impl StreamPermit {
    /// Keeps it as long as the answer lasts.
    pub fn attach_to(self, response: Response) -> Response {
        held(response, self)
    }
}

/// The same where there may be none.
pub(super) fn with_permit(seat: Option<StreamPermit>, response: Response) -> Response {
    match seat {
        Some(seat) => seat.attach_to(response),
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

/// For routes that answer with events only.
impl FromRequestParts<AppState> for StreamPermit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Ok(seats) = StreamLimits::from_request_parts(parts, state).await;
        seats.take()
    }
}
