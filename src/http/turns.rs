//! The requests of one connection, as its server, its wire and their handlers share them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use futures_util::task::AtomicWaker;
use hyper::body::Incoming;

/// The requests of one connection: how many have begun, how many have ended, and what the current one needs.
#[derive(Debug, Default)]
pub(super) struct RequestTracker {
    begun: AtomicU64,
    done: AtomicU64,
    /// The last request that was dropped before its whole body had arrived; 0 for none.
    unread: AtomicU64,
    /// The rest of that body.
    rest: Mutex<Option<Unread>>,
    /// Whether the current request ends when its client closes its side.
    is_watched: AtomicBool,
    /// Whether the body of the current request has ended.
    has_body: AtomicBool,
    /// Wakes the connection once that body has ended.
    body_ended: AtomicWaker,
}

/// A request from its beginning until its whole answer was handed over. Dropped, it has ended.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<RequestTracker>);

impl RequestTracker {
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.unread.store(0, Ordering::Relaxed);
        self.is_watched.store(false, Ordering::Relaxed);
        self.has_body.store(false, Ordering::Relaxed);
        self.keep_busy()
    }

    /// Keeps the connection in work beyond the answer of the current request.
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

    /// Records that the current request has a body that is still to be read.
    pub fn expect_body(&self) {
        self.has_body.store(true, Ordering::Relaxed);
    }

    /// Records that this body has ended.
    pub fn end_body(&self) {
        self.has_body.store(false, Ordering::Release);
        self.body_ended.wake();
    }

    /// Records that this request was dropped before its whole body had arrived.
    pub fn leave_unread(&self, request: u64, rest: Unread) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
        self.unread.store(request, Ordering::Release);
    }

    /// Returns what the current request has left unread.
    pub fn take_unread(&self) -> Option<(u64, Unread)> {
        let request = self.unread.load(Ordering::Acquire);
        if request == 0 {
            return None;
        }
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        rest.map(|rest| (request, rest))
    }

    /// Records that the rest of this request's body has been read after all.
    pub fn forget_unread(&self, request: u64) {
        let _ = self.unread.compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns `true` if the last request was dropped before its whole body had arrived.
    pub fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed) != 0
    }

    /// Has the current request end as soon as its client closes its side. Must be called within the connection's task, which
    /// looks at it right afterwards.
    pub fn end_with_client(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the client of the current request is to be watched. Until the body has ended, that is known from
    /// reading it.
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
    /// Its length is known, and it is on its way.
    Known(Incoming, u64),
    /// It is of unknown length, is sent only on demand, or was broken.
    Unknown,
}

/// The client of a request; part of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct Client(Option<Arc<RequestTracker>>);

impl Client {
    pub fn of(turns: &Arc<RequestTracker>) -> Self {
        Self(Some(turns.clone()))
    }

    /// Ends the request as soon as the client closes its side of the connection, also if it only closes it for writing: the
    /// two cannot be distinguished.
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
