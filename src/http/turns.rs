//! The requests of one connection, shared by its server, its I/O and the handlers.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use futures_util::task::AtomicWaker;
use hyper::body::Incoming;

/// The request counters of one connection, and the state of the current request.
#[derive(Debug, Default)]
pub(super) struct RequestTracker {
    begun: AtomicU64,
    done: AtomicU64,
    /// The number of the last request that was dropped before its body was read completely; 0 for none.
    unread: AtomicU64,
    /// The rest of that body.
    rest: Mutex<Option<Unread>>,
    /// Whether the current request ends when its client closes its side.
    is_watched: AtomicBool,
    /// Whether the current request has a body that has not ended.
    has_body: AtomicBool,
    /// Wakes the connection when the body ends.
    body_ended: AtomicWaker,
}

/// A request in progress. Dropping the guard ends it.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<RequestTracker>);

impl RequestTracker {
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.unread.store(0, Ordering::Relaxed);
        self.is_watched.store(false, Ordering::Relaxed);
        self.has_body.store(false, Ordering::Relaxed);
        self.keep_busy()
    }

    /// Keeps the connection busy beyond the response of the current request.
    pub fn keep_busy(self: &Arc<Self>) -> RequestGuard {
        self.begun.fetch_add(1, Ordering::Relaxed);
        RequestGuard(self.clone())
    }

    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub fn is_busy(&self) -> bool {
        self.begun() != self.done.load(Ordering::Relaxed)
    }

    /// Records that the current request has an unread body.
    pub fn expect_body(&self) {
        self.has_body.store(true, Ordering::Relaxed);
    }

    /// Records that the body has ended.
    pub fn end_body(&self) {
        self.has_body.store(false, Ordering::Release);
        self.body_ended.wake();
    }

    /// Records that the request was dropped before its body was read completely.
    pub fn leave_unread(&self, request: u64, rest: Unread) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
        self.unread.store(request, Ordering::Release);
    }

    /// Takes the unread rest of the current request.
    pub fn take_unread(&self) -> Option<(u64, Unread)> {
        let request = self.unread.load(Ordering::Acquire);
        if request == 0 {
            return None;
        }
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        rest.map(|rest| (request, rest))
    }

    /// Records that the rest of the request's body has been read.
    pub fn forget_unread(&self, request: u64) {
        let _ = self.unread.compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns `true` if the last request was dropped before its body was read completely.
    pub fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed) != 0
    }

    /// Ends the current request as soon as its client closes its side. Must be called in the task of the connection,
    /// which checks this right afterwards.
    pub fn end_with_client(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the connection must be watched for a disconnect. Until the body has ended, reading it detects
    /// this.
    pub fn ends_with_client(&self, context: &Context<'_>) -> bool {
        if !self.is_watched.load(Ordering::Relaxed) || !self.is_busy() {
            return false;
        }
        if self.has_body.load(Ordering::Acquire) {
            self.body_ended.register(context.waker());
        }
        !self.has_body.load(Ordering::Acquire)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The rest of a body that was dropped before its end.
#[derive(Debug)]
pub(super) enum Unread {
    /// The body has this remaining length, in bytes, and is being sent.
    Known(Incoming, u64),
    /// The length is unknown, the body is sent only on demand, or reading it failed.
    Unknown,
}

/// The client of a request, as a request extractor.
#[derive(Debug, Clone, Default)]
pub(super) struct Client(Option<Arc<RequestTracker>>);

impl Client {
    pub fn of(turns: &Arc<RequestTracker>) -> Self {
        Self(Some(turns.clone()))
    }

    /// Ends the request as soon as the client closes its side of the connection, even if it closes only its write half:
    /// the two cannot be distinguished.
    pub fn ends_request(&self) {
        if let Some(turns) = &self.0 {
            turns.end_with_client();
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.remove().unwrap_or_default())
    }
}
