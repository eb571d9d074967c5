//! Supervision of one server: starts it, lists its tools whenever they may have changed, and restarts it when the
//! connection is lost.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::child::ChildGuard;
use super::connection::{self, ConnectError, Connection, Handshake};
use super::context::ServerContext;
use super::counts::UpstreamCounts;
use super::link::Link;
use super::ring::Ring;
use super::status::{ServerState, ServerStatus, ToolList, ToolListObserver};
use super::{fault, resolve};
use toolpost_core::domain::upstream::Upstream;

/// Minimum uptime that resets the count of failures.
const STABLE: Duration = Duration::from_secs(10);
/// Timeout for stopping a server, including its program.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before subscribing to tool changes again.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(30);

/// The availability of a server for calls.
#[derive(Debug, Clone)]
enum Availability {
    /// Calls wait for the connection.
    Connecting,
    /// Calls can be sent.
    Ready(Arc<Link>),
    /// Calls fail.
    Unavailable,
}

/// An upstream server.
pub struct Server {
    /// The name of the server.
    pub name: String,
    /// The declaration of the server.
    pub upstream: Upstream,
    pub(super) counts: UpstreamCounts,
    context: ServerContext,
    observer: Arc<dyn ToolListObserver>,
    shown: Mutex<ServerStatus>,
    /// Tools with changed definitions that have not been accepted.
    quarantined: Mutex<HashSet<String>>,
    stderr: Ring,
    phase: watch::Sender<Availability>,
    /// Set to `true` when the first start has succeeded or failed.
    tried: watch::Sender<bool>,
    restart: Notify,
    refresh: Notify,
    is_older: AtomicBool,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason for the end of a connection.
enum DisconnectReason {
    /// The connection was lost or could not be established.
    Lost(String),
    /// A restart was requested.
    Restart,
    /// A stop was requested.
    Stop,
}

impl Server {
    pub(super) fn new(
        name: &str,
        upstream: Upstream,
        context: ServerContext,
        observer: Arc<dyn ToolListObserver>,
    ) -> Self {
        let shown = ServerStatus { since: context.clock.now(), ..ServerStatus::default() };
        Self {
            name: name.to_owned(),
            upstream,
            counts: context.metrics.upstream(name),
            context,
            observer,
            shown: Mutex::new(shown),
            quarantined: Mutex::default(),
            stderr: Ring::default(),
            phase: watch::Sender::new(Availability::Connecting),
            tried: watch::Sender::new(false),
            restart: Notify::new(),
            refresh: Notify::new(),
            is_older: AtomicBool::new(false),
            stop: CancellationToken::new(),
            task: Mutex::default(),
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn shown(&self) -> ServerStatus {
        lock(&self.shown).clone()
    }

    /// Returns the last lines of standard error.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.lines()
    }

    /// Returns `true` if calls of this tool are rejected.
    #[must_use]
    pub fn is_quarantined(&self, tool: &str) -> bool {
        lock(&self.quarantined).contains(tool)
    }

    /// Rejects calls of these tools, and allows all others.
    pub fn quarantine(&self, tools: HashSet<String>) {
        *lock(&self.quarantined) = tools;
    }

    /// Starts the server and its supervision, unless already started.
    pub fn start(self: &Arc<Self>) {
        let mut task = lock(&self.task);
        if task.is_none() && !self.stop.is_cancelled() {
            *task = Some(tokio::spawn(self.clone().supervise()));
        }
    }

    /// Restarts the server immediately, also during a backoff.
    pub fn restart(&self) {
        self.restart.notify_one();
    }

    /// Requests a new list of tools.
    pub(super) fn request_refresh(&self) {
        self.refresh.notify_one();
    }

    /// Stops the server permanently and waits for its end, up to a timeout.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = lock(&self.task).take();
        if let Some(mut task) = task
            && tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// Waits until the first start has succeeded or failed.
    pub async fn wait_first_attempt(&self) {
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// Returns the link for calls. Waits for a short time while the server is starting.
    ///
    /// # Errors
    /// Returns a message with the reason if the server is unavailable.
    pub(super) async fn link(&self) -> Result<Arc<Link>, String> {
        let mut phase = self.phase.subscribe();
        let settled = tokio::time::timeout(
            self.context.timing.wait,
            phase.wait_for(|phase| !matches!(phase, Availability::Connecting)),
        );
        if let Ok(Ok(phase)) = settled.await
            && let Availability::Ready(link) = &*phase
        {
            return Ok(link.clone());
        }
        let reason = self.shown().last_error.map_or_else(|| "it is still starting".to_owned(), |(reason, _)| reason);
        Err(format!("the upstream server \"{}\" is unavailable: {reason}", self.name))
    }

    fn enter(&self, state: ServerState, phase: Availability) {
        let mut shown = lock(&self.shown);
        if shown.state != state {
            shown.since = self.context.clock.now();
        }
        shown.state = state;
        if state != ServerState::Ready {
            shown.pid = None;
        }
        drop(shown);
        self.phase.send_replace(phase);
    }

    fn note(&self, error: &str) {
        tracing::warn!(upstream = self.name, error, "upstream server failed");
        self.counts.errors.increment(1);
        lock(&self.shown).last_error = Some((error.to_owned(), self.context.clock.now()));
    }

    async fn supervise(self: Arc<Self>) {
        let mut failures = 0_u32;
        for restarts in 0.. {
            if restarts > 0 {
                lock(&self.shown).restarts = restarts;
                self.counts.restarts.increment(1);
            }
            self.enter(ServerState::Starting, Availability::Connecting);
            let mut up_since = None;
            let end_reason = self.run(&mut up_since).await;
            if up_since.is_some_and(|since: Instant| since.elapsed() >= STABLE) {
                failures = 0;
            }
            match end_reason {
                DisconnectReason::Stop => break,
                DisconnectReason::Restart => {
                    failures = 0;
                    continue;
                }
                DisconnectReason::Lost(reason) => self.note(&reason),
            }
            failures = failures.saturating_add(1);
            if failures >= self.context.timing.give_up_after {
                self.enter(ServerState::Failed, Availability::Unavailable);
                self.observer.tools_changed(&self.name, None).await;
            } else {
                self.enter(ServerState::Backoff, Availability::Connecting);
            }
            self.tried.send_replace(true);
            let low = self.context.ids.next().as_u128() as u64 & ((1 << 53) - 1);
            let rest = self.context.timing.rest(failures, low as f64 / (1_u64 << 53) as f64);
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.restart.notified() => failures = 0,
                () = tokio::time::sleep(rest) => {}
            }
        }
        self.enter(ServerState::Stopped, Availability::Unavailable);
        self.tried.send_replace(true);
        self.observer.tools_changed(&self.name, None).await;
    }

    /// Opens one connection and waits for its end.
    async fn run(&self, up_since: &mut Option<Instant>) -> DisconnectReason {
        let opened = tokio::select! {
            () = self.stop.cancelled() => return DisconnectReason::Stop,
            () = self.restart.notified() => return DisconnectReason::Restart,
            opened = tokio::time::timeout(self.context.timing.start, self.open()) => opened,
        };
        let connection = match opened {
            Ok(Ok(connection)) => connection,
            Ok(Err(reason)) => return DisconnectReason::Lost(reason),
            Err(_) => {
                let ms = self.context.timing.start.as_millis();
                return DisconnectReason::Lost(format!("it did not complete the handshake within {ms} ms"));
            }
        };
        self.publish_info(&connection);
        let Connection { link, info, changed, .. } = &connection;
        let end_reason = tokio::select! {
            () = self.stop.cancelled() => DisconnectReason::Stop,
            () = self.restart.notified() => DisconnectReason::Restart,
            () = connection.wait_lost() => DisconnectReason::Lost("the connection was lost".to_owned()),
            reason = self.poll_tools(link, changed, up_since) => DisconnectReason::Lost(reason),
            () = async {
                loop {
                    connection::listen_for_changes(link, info.as_deref(), changed).await;
                    tokio::time::sleep(RESUBSCRIBE_DELAY).await;
                }
            } => DisconnectReason::Stop,
        };
        // New calls must wait for the next connection.
        self.phase.send_replace(Availability::Connecting);
        match (end_reason, connection.end().await) {
            (DisconnectReason::Lost(reason), Some(ended)) => DisconnectReason::Lost(format!("{reason}: {ended}")),
            (end_reason, _) => end_reason,
        }
    }

    /// Updates the status with the server's description of itself.
    fn publish_info(&self, connection: &Connection) {
        let info = connection.info.as_deref();
        let implementation = info.and_then(|info| info.server_info.as_ref());
        let mut shown = lock(&self.shown);
        shown.protocol_version = info.map(|info| info.protocol_version.as_str().to_owned());
        shown.implementation = implementation.map(|server| (server.name.clone(), server.version.clone()));
        shown.pid = connection.child.as_ref().and_then(ChildGuard::id);
    }

    async fn open(&self) -> Result<Connection, String> {
        let resolved = || resolve::fill(&self.upstream, &self.context.secrets, &|name| std::env::var(name).ok());
        let was_older = self.is_older.load(Ordering::Relaxed);
        let handshake = if was_older { Handshake::Initialize } else { Handshake::Newest };
        match connection::open(resolved()?, handshake, &self.context, &self.stderr).await {
            Ok(connection) => Ok(connection),
            Err(ConnectError { reason, may_be_older: true }) => {
                let second = connection::open(resolved()?, Handshake::Initialize, &self.context, &self.stderr).await;
                self.is_older.store(second.is_ok(), Ordering::Relaxed);
                second.map_err(|_| reason)
            }
            Err(ConnectError { reason, .. }) => {
                self.is_older.store(false, Ordering::Relaxed);
                Err(reason)
            }
        }
    }

    /// Lists the tools now and whenever they may have changed. Returns a message when the connection is lost.
    async fn poll_tools(&self, link: &Arc<Link>, changed: &Notify, up_since: &mut Option<Instant>) -> String {
        loop {
            match connection::tools(link).await {
                Ok(tools) => {
                    let listed = ToolList::read(&self.name, tools);
                    self.observer.tools_changed(&self.name, Some(Arc::new(listed))).await;
                }
                Err(error) if fault::is_broken(&error) => {
                    return format!("listing its tools failed: {}", fault::message(error, link));
                }
                // The server is connected but has no tools or is busy.
                Err(error) => self.note(&format!("listing its tools failed: {}", fault::message(error, link))),
            }
            if up_since.is_none() {
                *up_since = Some(Instant::now());
                tracing::info!(upstream = self.name, "upstream server ready");
                self.enter(ServerState::Ready, Availability::Ready(link.clone()));
                self.tried.send_replace(true);
            }
            tokio::select! {
                () = changed.notified() => {}
                () = self.refresh.notified() => {}
                () = tokio::time::sleep(self.context.timing.poll) => {}
            }
        }
    }
}
