//! Event streams, whose bodies are written without the HTTP library.
//!
//! A connection of the library has buffers of 16 KiB, also while a stream waits for its next event. So the library writes
//! only the head of such a response. Its connection is then dropped, and the chunks of the body are written here
//! (RFC 9112, section 7.1). After the stream, the next request gets a new connection of the library.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{Method, Request, Response, StatusCode, Version};
use bytes::{Buf, Bytes};
use hyper::body::Frame;
use tokio::io::AsyncWrite;

/// Number of unsent bytes above which no further frames are taken from a body.
const MAX_UNSENT: usize = 128 * 1024;
/// Maximum number of parts that are written at once.
const MAX_SLICES: usize = 64;

/// The body that a connection writes itself, while it waits for the library to write the head of its response.
#[derive(Debug, Default)]
pub(super) struct WaitingBody {
    body: Mutex<Option<Body>>,
    /// Whether the library has rendered the head.
    has_head: AtomicBool,
}

/// The body that the library gets instead. It has no frames and does not end.
pub(super) struct Placeholder(Arc<WaitingBody>);

impl WaitingBody {
    /// Keeps a body, and returns the one for the library.
    pub fn keep(self: &Arc<Self>, body: Body) -> Placeholder {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        Placeholder(self.clone())
    }

    /// Returns the body as soon as the library has rendered the head of its response.
    pub fn take(&self) -> Option<Body> {
        if !self.has_head.swap(false, Ordering::Relaxed) {
            return None;
        }
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl HttpBody for Placeholder {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The library asks for the first frame after it has rendered the head.
        self.0.has_head.store(true, Ordering::Relaxed);
        Poll::Pending
    }
}

/// Returns `true` if the response of a request is written in chunks and leaves its connection open.
pub(super) fn allows_chunks<B: HttpBody>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11
        && request.method() == Method::GET
        && request.body().is_end_stream()
        && !request.headers().contains_key(CONNECTION)
}

/// Returns `true` for an event stream that leaves its connection open.
pub(super) fn is_event_stream(response: &Response<Body>) -> bool {
    response.status() == StatusCode::OK
        && response.body().size_hint().exact().is_none()
        && response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "text/event-stream")
        && !response.headers().contains_key(CONNECTION)
}

/// Writes a body in chunks until it ends.
///
/// # Errors
/// Returns an error if the client disconnects or the body fails; the connection must then be closed.
pub(super) async fn write<W: AsyncWrite + Unpin>(wire: &mut W, mut body: Body) -> io::Result<()> {
    let mut unsent = Unsent::default();
    poll_fn(|context| {
        loop {
            unsent.poll_frames(&mut body, context)?;
            if unsent.parts.is_empty() {
                // This also watches for a disconnect of the client.
                ready!(Pin::new(&mut *wire).poll_flush(context))?;
                return if unsent.is_last { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            ready!(unsent.poll_write(wire, context))?;
        }
    })
    .await
}

/// The rendered chunks that are not written yet.
#[derive(Default)]
struct Unsent {
    parts: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the last chunk was added.
    is_last: bool,
}

impl Unsent {
    /// Adds the frames that are ready.
    fn poll_frames(&mut self, body: &mut Body, context: &mut Context<'_>) -> io::Result<()> {
        while !self.is_last && self.bytes < MAX_UNSENT {
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(frame)) => {
                    let data = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
                    // An empty chunk would end the body.
                    if !data.is_empty() {
                        self.add(format!("{:x}\r\n", data.len()).into());
                        self.add(data);
                        self.add(Bytes::from_static(b"\r\n"));
                    }
                }
                Poll::Ready(None) => {
                    self.is_last = true;
                    self.add(Bytes::from_static(b"0\r\n\r\n"));
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn add(&mut self, part: Bytes) {
        self.bytes += part.len();
        self.parts.push_back(part);
    }

    fn poll_write<W: AsyncWrite + Unpin>(&mut self, wire: &mut W, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = self.parts.iter().zip(&mut slices).map(|(part, slice)| *slice = IoSlice::new(part)).count();
        let written = ready!(Pin::new(wire).poll_write_vectored(context, &slices[..count]))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.remove(written);
        Poll::Ready(Ok(()))
    }

    fn remove(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(first) = self.parts.front_mut() {
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.parts.pop_front();
        }
        // A stream waits for its next event without this memory.
        self.parts = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_util::stream::{self, StreamExt};
    use tokio::io::AsyncReadExt;

    use super::*;

    fn body(frames: Vec<Result<Bytes, io::Error>>) -> Body {
        Body::from_stream(stream::iter(frames))
    }

    #[tokio::test]
    async fn frames_are_written_as_chunks_in_order() {
        // The pipe is smaller than a frame.
        let (mut wire, mut client) = tokio::io::duplex(7);
        let frames = vec![Ok("first".into()), Ok(Bytes::new()), Ok("x".repeat(26).into())];
        let read = async {
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            text
        };
        let written = async {
            write(&mut wire, body(frames)).await.unwrap();
            drop(wire);
        };
        let ((), text) = tokio::join!(written, read);
        assert_eq!(text, format!("5\r\nfirst\r\n1a\r\n{}\r\n0\r\n\r\n", "x".repeat(26)));
    }

    #[tokio::test]
    async fn frames_are_read_only_while_few_bytes_are_unsent() {
        let (mut wire, _client) = tokio::io::duplex(16);
        let taken = std::cell::Cell::new(0);
        let frames = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![b'x'; MAX_UNSENT / 4])));
        let mut unsent = Unsent::default();
        let mut body = Body::from_stream(frames);
        poll_fn(|context| {
            unsent.poll_frames(&mut body, context).unwrap();
            taken.set(unsent.parts.len());
            assert!(unsent.poll_write(&mut wire, context).is_ready());
            assert!(unsent.poll_write(&mut wire, context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!((taken.get(), unsent.parts.len()), (12, 11));
    }

    #[tokio::test]
    async fn failed_body_and_closed_client_end_the_stream() {
        let (mut wire, client) = tokio::io::duplex(64);
        let failed = body(vec![Ok("a".into()), Err(io::ErrorKind::Other.into())]);
        assert!(write(&mut wire, failed).await.is_err());
        drop(client);
        let endless = stream::once(ready(Ok::<Bytes, Infallible>("a".into()))).chain(stream::pending());
        assert!(write(&mut wire, Body::from_stream(endless)).await.is_err());
    }

    #[tokio::test]
    async fn kept_body_is_returned_once_the_head_is_rendered() {
        let waiting = Arc::<WaitingBody>::default();
        let mut placeholder = waiting.keep(Body::empty());
        assert!(waiting.take().is_none(), "the head is not rendered");
        poll_fn(|context| {
            assert!(Pin::new(&mut placeholder).poll_frame(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(waiting.take().is_some() && waiting.take().is_none());
    }
}
