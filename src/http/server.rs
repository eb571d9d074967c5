//! The HTTP/1.1 server: accepts a limited number of connections, serves them, and closes them on shutdown.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::http::header::{CONNECTION, CONTENT_ENCODING};
use axum::http::{HeaderValue, Request, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{Service as HyperService, service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client_address::Proxies;
use super::layers::HttpService;
use super::requests::{Client, RequestTracker, TrackedBody};
use super::stream_writer::WaitingBody;
use super::timed_io::{ConnectionTimeouts, ErrorResponder, TimedIo};
use super::{AppState, Problem, layers, stream_writer};

/// Pause after an accept error, such as running out of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of connections that receive a 503 at once if the limit is reached, and the timeout of each. Further
/// connections are closed without a response.
const MAX_REJECTIONS: usize = 64;
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Time in which open connections can still send a request after the listener has closed. A gateway may have sent one
/// already, and notices at its next connection that this node has left.
const LINGER: Duration = Duration::from_millis(250);
/// Size of the read and write buffers of a connection, in bytes.
const BUFFER: usize = 128 * 1024;

/// The server of one service.
#[derive(Clone)]
pub(super) struct Server<S> {
    service: S,
    state: AppState,
    clocks: ConnectionTimeouts,
    proxies: Arc<Proxies>,
    http: http1::Builder,
    connections: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
}

impl<S: HttpService> Server<S> {
    pub fn new(service: S, state: AppState) -> Self {
        let settings = &state.config.server;
        let clocks = ConnectionTimeouts {
            header: Duration::from_millis(settings.header_timeout_ms),
            idle: Duration::from_millis(settings.idle_timeout_ms),
            write: Duration::from_millis(settings.write_timeout_ms),
        };
        let mut http = http1::Builder::new();
        // [`TimedIo`] has its own timeouts, which distinguish a slow request from an idle connection.
        http.header_read_timeout(None).max_header_size(settings.max_header_bytes);
        // Clients may close their side after sending a request. [`TimedIo`] watches for the disconnect of a client whose
        // request ends with it.
        http.half_close(true);
        http.max_buf_size(BUFFER.max(settings.max_header_bytes));
        let connections = Arc::new(Semaphore::new(settings.max_connections.min(Semaphore::MAX_PERMITS)));
        let proxies = Arc::new(Proxies::of(settings));
        let rejections = Arc::new(Semaphore::new(MAX_REJECTIONS));
        Self { service, state, clocks, proxies, http, connections, rejections }
    }

    /// Serves until `closing` fires and every connection has ended. Dropping the future cuts off remaining connections.
    pub async fn run(self, listener: TcpListener, closing: CancellationToken) {
        let (ending, _) = watch::channel(());
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = closing.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => self.accept(socket, peer, &ending, &connections),
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::select! {
                        () = closing.cancelled() => break,
                        () = tokio::time::sleep(ACCEPT_RETRY_DELAY) => {}
                    }
                }
            }
        }
        // Connections that wait to be accepted would be reset with the listener. The runtime may not know all of them yet.
        if let Ok(listener) = listener.into_std() {
            while let Ok((socket, peer)) = listener.accept() {
                if let Ok(socket) = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket)) {
                    self.accept(socket, peer, &ending, &connections);
                }
            }
        }
        connections.close();
        if tokio::time::timeout(LINGER, connections.wait()).await.is_err() {
            ending.send_replace(());
            connections.wait().await;
        }
    }

    fn accept(&self, socket: TcpStream, peer: SocketAddr, ending: &watch::Sender<()>, connections: &TaskTracker) {
        // Responses are written at once, so Nagle's algorithm only delays them.
        let _ = socket.set_nodelay(true);
        let mut ending = ending.subscribe();
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            let Ok(permit) = self.rejections.clone().try_acquire_owned() else { return };
            let problem = Problem::overloaded("too many connections are open; the request was not read, retry later");
            let words = layers::last_words(&self.state, problem);
            connections.spawn(async move {
                tokio::select! {
                    _ = tokio::time::timeout(REJECTION_TIMEOUT, refuse(socket, words)) => {}
                    _ = ending.changed() => {}
                }
                drop(permit);
            });
            return;
        };
        let server = self.clone();
        connections.spawn(async move {
            server.serve(socket, peer, ending).await;
            drop(permit);
        });
    }

    async fn serve(self, socket: TcpStream, peer: SocketAddr, mut ending: watch::Receiver<()>) {
        let (tracker, waiting) = (Arc::<RequestTracker>::default(), Arc::<WaitingBody>::default());
        let state = self.state;
        let (closing, engine) = (state.closing.clone(), state.engine.clone());
        let last_words: ErrorResponder = Arc::new(move |problem| layers::last_words(&state, problem));
        let mut wire = TimedIo::new(socket, self.clocks, tracker.clone(), last_words);
        // The requests of a connection are sequential, so they share one copy of the service.
        let service = RefCell::new(self.service);
        let (requests, bodies) = (tracker.clone(), waiting.clone());
        let mut answer = service_fn(move |request: Request<Incoming>| {
            let request_guard = requests.begin();
            let allows_chunks = stream_writer::allows_chunks(&request);
            let mut request = TrackedBody::wrap_request(request, &requests);
            let client = self.proxies.client_of(peer.ip(), request.headers());
            self.proxies.remove_forged(peer.ip(), request.headers_mut());
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(Client::of(&requests));
            let response = service.borrow_mut().call(request);
            let (tracker, closing, engine) = (requests.clone(), closing.clone(), engine.clone());
            let bodies = allows_chunks.then(|| bodies.clone());
            async move {
                let mut response = response.await?;
                settle_connection(&mut response, &tracker, engine.is_draining());
                tracker.settle_unread(&mut response, closing);
                // The request ends with the body of its response.
                let ends_request = move |error| {
                    let _ = &request_guard;
                    error
                };
                let bodies = bodies.filter(|_| stream_writer::is_event_stream(&response));
                Ok::<_, Infallible>(response.map(|body| {
                    let body = body.map_err(ends_request);
                    match bodies {
                        Some(bodies) => http_body_util::Either::Right(bodies.keep(Body::new(body))),
                        None => http_body_util::Either::Left(body),
                    }
                }))
            }
        });
        loop {
            let connection = self.http.serve_connection(TokioIo::new(wire), answer);
            let Some((parts, body)) = until_stream(connection, &mut ending, &waiting, &tracker).await else { return };
            let http1::Parts { io, read_buf, service, .. } = parts;
            (wire, answer) = (io.into_inner(), service);
            wire.put_back(&read_buf);
            // It would keep the buffer of the library.
            drop(read_buf);
            if let Err(error) = stream_writer::write(&mut wire, body).await {
                tracing::trace!(%error, "an event stream failed");
                return;
            }
        }
    }
}

/// Serves the requests of a connection until it ends, or until one is answered by an event stream. Then returns the parts
/// of the connection with the body of the stream; the head of its response was written.
async fn until_stream<I, S, B>(
    connection: http1::Connection<I, S>,
    ending: &mut watch::Receiver<()>,
    waiting: &WaitingBody,
    tracker: &RequestTracker,
) -> Option<(http1::Parts<I, S>, Body)>
where
    I: Read + Write + Unpin,
    S: HyperService<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + 'static,
{
    // Boxed, because the connection is dropped before its task.
    let mut connection = Box::pin(connection);
    loop {
        let word = ending.clone();
        let mut changed = std::pin::pin!(ending.changed());
        let mut is_listening = false;
        let next = poll_fn(|poller| {
            if let Poll::Ready(ended) = connection.as_mut().poll(poller) {
                return Poll::Ready(Next::End(ended));
            }
            if !tracker.is_stalled()
                && let Some(body) = waiting.take()
            {
                return Poll::Ready(Next::Stream(body));
            }
            // Once polled, the future wakes this task. Until then `has_changed` is enough and much cheaper.
            if is_listening && matches!(word.has_changed(), Ok(false)) {
                return Poll::Pending;
            }
            is_listening = true;
            changed.as_mut().poll(poller).map(Next::Closing)
        });
        match next.await {
            Next::End(Ok(())) => return None,
            Next::End(Err(error)) => {
                tracing::trace!(%error, "a connection failed");
                return None;
            }
            Next::Stream(body) => return Some((Pin::into_inner(connection).into_parts(), body)),
            Next::Closing(Ok(())) => connection.as_mut().graceful_shutdown(),
            // The server was dropped.
            Next::Closing(Err(_)) => return None,
        }
    }
}

/// The next event of a connection.
enum Next {
    /// It has ended.
    End(hyper::Result<()>),
    /// The head of an event stream was written, whose body is this.
    Stream(Body),
    /// The server closes its connections, or was dropped.
    Closing(Result<(), watch::error::RecvError>),
}

/// Determines when the connection of a response ends.
fn settle_connection<B: HttpBody>(response: &mut Response<B>, tracker: &RequestTracker, is_draining: bool) {
    if is_draining {
        // A request that is sent while the connection closes would be lost.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // A stream lasts until its client disconnects, which is visible only as the end of its side. A compressed response has no
    // known size either, but an end.
    if response.body().size_hint().exact().is_none() && !response.headers().contains_key(CONTENT_ENCODING) {
        tracker.end_with_client();
    }
}

/// Sends the rejection, then reads until the client closes. Closing with unread data would reset the connection and
/// destroy the response.
async fn refuse(mut socket: TcpStream, words: Bytes) -> io::Result<()> {
    socket.write_all(&words).await?;
    socket.shutdown().await?;
    let mut nothing = [0; 1024];
    while socket.read(&mut nothing).await? > 0 {}
    Ok(())
}

/// Returns `true` if the error concerns only the connection that was being accepted.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
