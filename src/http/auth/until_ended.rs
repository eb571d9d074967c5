//! Answers that are streams end with the credential of their caller.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::Frame;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::auth::Credential;

/// A body that ends early once a credential ends.
pub(super) struct UntilEnded {
    body: Body,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Only credentials that are in use are ended.
    _credential: Arc<Credential>,
}

impl UntilEnded {
    pub fn new(body: Body, credential: Arc<Credential>) -> Self {
        Self { body, ended: Box::pin(credential.end().clone().cancelled_owned()), _credential: credential }
    }
}

impl HttpBody for UntilEnded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // First of all: a stream that always has more to say ends, too.
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}
