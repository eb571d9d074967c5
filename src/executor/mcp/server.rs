//! One server, kept up: it is started, its tools are listed whenever they may have changed, and it is started again when it is
//! gone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::child::ChildGuard;
use super::connection::{self, ConnectError, Connection, ConnectionShutdown, Handshake};
use super::link::Link;
use super::listed_tool::ListedTool;
use super::outfit::ServerContext;
use super::ring::Ring;
use super::status::{ServerState, ServerStatus, ToolList, ToolListObserver};
use super::{fault, resolve};
use crate::domain::upstream::Upstream;
use crate::telemetry::metrics::UpstreamCounts;

/// A server that has stayed up for so long is not one that fails again and again.
const STABLE: Duration = Duration::from_secs(10);
/// How long the end of a server may take, its program's included.
const END: Duration = Duration::from_secs(10);
/// Between two tries to be told of changes.
const LISTEN_AGAIN: Duration = Duration::from_secs(30);

/// What calls can do with it.
#[derive(Debug, Clone)]
enum Availability {
    /// Wait a moment.
    Connecting,
    /// Be made.
    Ready(Arc<Link>),
    /// Fail.
    Unavailable,
}

/// A server.
pub struct Server {
    /// Its name.
    pub name: String,
    /// As it is declared.
    pub upstream: Upstream,
    pub(super) counts: UpstreamCounts,
    context: ServerContext,
    observer: Arc<dyn ToolListObserver>,
    shown: Mutex<ServerStatus>,
    /// Tools whose changed definitions nobody has accepted.
    quarantined: Mutex<HashSet<String>>,
    stderr: Ring,
    phase: watch::Sender<Availability>,
    /// Turns true when the first start has come to an end, whichever.
    tried: watch::Sender<bool>,
    restart: Notify,
    look: Notify,
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

/// Why a connection is over.
enum DisconnectReason {
    /// It was lost, or never came about.
    Lost(String),
    /// Somebody wants it started again.
    Restart,
    /// It is to stop.
    Stop,
}

impl Server {
    pub(super) fn new(
        name: &str,
        upstream: Upstream,
        outfit: ServerContext,
        audience: Arc<dyn ToolListObserver>,
    ) -> Self {
        let shown = ServerStatus {
            state: ServerState::Stopped,
            since: outfit.clock.now(),
            pid: None,
            restarts: 0,
            last_error: None,
            protocol_version: None,
            implementation: None,
        };
        Self {
            name: name.to_owned(),
            upstream,
            counts: outfit.metrics.upstream(name),
            context: outfit,
            observer: audience,
            shown: Mutex::new(shown),
            quarantined: Mutex::default(),
            stderr: Ring::default(),
            phase: watch::Sender::new(Availability::Connecting),
            tried: watch::Sender::new(false),
            restart: Notify::new(),
            look: Notify::new(),
            is_older: AtomicBool::new(false),
            stop: CancellationToken::new(),
            task: Mutex::default(),
        }
    }

    /// What is known of it.
    #[must_use]
    pub fn shown(&self) -> ServerStatus {
        lock(&self.shown).clone()
    }

    /// The last lines of its standard error.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.lines()
    }

    /// Whether calls of this tool are refused.
    #[must_use]
    pub fn is_quarantined(&self, tool: &str) -> bool {
        lock(&self.quarantined).contains(tool)
    }

    /// From now on calls of these tools, and of no others, are refused.
    pub fn quarantine(&self, tools: HashSet<String>) {
        *lock(&self.quarantined) = tools;
    }

    /// Starts it and keeps it up, once.
    pub fn start(self: &Arc<Self>) {
        let mut task = lock(&self.task);
        if task.is_none() && !self.stop.is_cancelled() {
            *task = Some(tokio::spawn(self.clone().supervise()));
        }
    }

    /// Starts it again, at once, if it runs or rests.
    pub fn restart(&self) {
        self.restart.notify_one();
    }

    /// Lists its tools again.
    pub(super) fn request_refresh(&self) {
        self.look.notify_one();
    }

    /// Stops it for good, and waits for that within a bound.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = lock(&self.task).take();
        if let Some(mut task) = task
            && tokio::time::timeout(END, &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// Waits until its first start has come to an end, whichever.
    pub async fn wait_first_attempt(&self) {
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// What calls are made with. Waits for a moment while it is being started.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(super) async fn link(&self) -> Result<Arc<Link>, String> {
        let mut phase = self.phase.subscribe();
        let settled = tokio::time::timeout(
            self.context.pace.wait,
            phase.wait_for(|phase| !matches!(phase, Availability::Connecting)),
        );
        match settled.await {
            Ok(Ok(phase)) => match &*phase {
                Availability::Ready(link) => Ok(link.clone()),
                Availability::Unavailable | Availability::Connecting => Err(self.absence()),
            },
            Ok(Err(_)) | Err(_) => Err(self.absence()),
        }
    }

    fn absence(&self) -> String {
        let reason =
            self.shown().last_error.map_or_else(|| "it is just being started".to_owned(), |(reason, _)| reason);
        format!("the upstream server \"{}\" is not there: {reason}", self.name)
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
        tracing::warn!(upstream = self.name, error, "an upstream server has failed");
        self.counts.erred();
        lock(&self.shown).last_error = Some((error.to_owned(), self.context.clock.now()));
    }

    async fn supervise(self: Arc<Self>) {
        let (mut failures, mut is_again) = (0_u32, false);
        loop {
            if is_again {
                lock(&self.shown).restarts += 1;
                self.counts.restarted();
            }
            is_again = true;
            self.enter(ServerState::Starting, Availability::Connecting);
            let mut up_since = None;
            let over = self.run(&mut up_since).await;
            if up_since.is_some_and(|since: Instant| since.elapsed() >= STABLE) {
                failures = 0;
            }
            match over {
                DisconnectReason::Stop => break,
                DisconnectReason::Restart => {
                    failures = 0;
                    continue;
                }
                DisconnectReason::Lost(reason) => self.note(&reason),
            }
            failures = failures.saturating_add(1);
            if failures >= self.context.pace.give_up_after {
                self.enter(ServerState::Failed, Availability::Unavailable);
                self.observer.tools_changed(&self.name, None).await;
            } else {
                self.enter(ServerState::Backoff, Availability::Connecting);
            }
            self.tried.send_replace(true);
            let low = self.context.ids.next().as_u128() as u64 & ((1 << 53) - 1);
            let rest = self.context.pace.rest(failures, low as f64 / (1_u64 << 53) as f64);
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

    /// One life of it.
    async fn run(&self, up_since: &mut Option<Instant>) -> DisconnectReason {
        let opened = tokio::select! {
            () = self.stop.cancelled() => return DisconnectReason::Stop,
            () = self.restart.notified() => return DisconnectReason::Restart,
            opened = tokio::time::timeout(self.context.pace.start, self.open()) => opened,
        };
        let session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(reason)) => return DisconnectReason::Lost(reason),
            Err(_) => {
                let ms = self.context.pace.start.as_millis();
                return DisconnectReason::Lost(format!("it did not say what it is within {ms} ms"));
            }
        };
        self.publish_info(&session);
        let info = session.info.clone();
        let (link, changed, ending) = session.split();
        let over = tokio::select! {
            () = self.stop.cancelled() => DisconnectReason::Stop,
            () = self.restart.notified() => DisconnectReason::Restart,
            () = ending.wait() => DisconnectReason::Lost("the connection was lost".to_owned()),
            reason = self.poll_tools(&link, &changed, up_since) => DisconnectReason::Lost(reason),
            () = async {
                loop {
                    connection::hear_of_changes(&link, info.as_deref(), &changed).await;
                    tokio::time::sleep(LISTEN_AGAIN).await;
                }
            } => DisconnectReason::Stop,
        };
        // Nobody begins a call with what is just ending.
        self.phase.send_replace(Availability::Connecting);
        self.end(ending, over).await
    }

    /// What a connection tells of the server.
    fn publish_info(&self, session: &Connection) {
        let info = session.info.as_deref();
        let implementation = info.and_then(|info| info.server_info.as_ref());
        let mut shown = lock(&self.shown);
        shown.protocol_version = info.map(|info| info.protocol_version.as_str().to_owned());
        shown.implementation = implementation.map(|server| (server.name.clone(), server.version.clone()));
        shown.pid = session.child.as_ref().and_then(ChildGuard::id);
    }

    async fn end(&self, ending: ConnectionShutdown, over: DisconnectReason) -> DisconnectReason {
        let ended = ending.end().await;
        match (over, ended) {
            (DisconnectReason::Lost(reason), Some(ended)) => DisconnectReason::Lost(format!("{reason}: {ended}")),
            (over, _) => over,
        }
    }

    async fn open(&self) -> Result<Connection, String> {
        let given = || resolve::fill(&self.upstream, &self.context.secrets, &|name| std::env::var(name).ok());
        let was_older = self.is_older.load(Ordering::Relaxed);
        let beginning = if was_older { Handshake::Initialize } else { Handshake::Newest };
        match connection::open(given()?, beginning, &self.context, &self.stderr).await {
            Ok(session) => Ok(session),
            Err(ConnectError { reason, may_be_older: true }) => {
                let second = connection::open(given()?, Handshake::Initialize, &self.context, &self.stderr).await;
                self.is_older.store(second.is_ok(), Ordering::Relaxed);
                second.map_err(|_| reason)
            }
            Err(ConnectError { reason, .. }) => {
                self.is_older.store(false, Ordering::Relaxed);
                Err(reason)
            }
        }
    }

    /// Lists its tools now and whenever they may have changed, until it cannot be reached any more.
    async fn poll_tools(&self, link: &Arc<Link>, changed: &Notify, up_since: &mut Option<Instant>) -> String {
        loop {
            match connection::tools(link).await {
                Ok(tools) => {
                    let mut listed = ToolList::default();
                    for (place, tool) in tools.into_iter().enumerate() {
                        match ListedTool::read(place, tool) {
                            Ok(told) if listed.tools.iter().any(|other| other.name == told.name) => {
                                listed.left_out.push((told.name, "another tool has the same name".to_owned()));
                            }
                            Ok(told) => listed.tools.push(told),
                            Err(left_out) => listed.left_out.push(left_out),
                        }
                    }
                    self.observer.tools_changed(&self.name, Some(Arc::new(listed))).await;
                }
                Err(error) if fault::is_broken(&error) => {
                    return format!("its tools could not be listed: {}", fault::told(error, link));
                }
                // It is there, but has no tools to tell of, or is busy.
                Err(error) => self.note(&format!("its tools could not be listed: {}", fault::told(error, link))),
            }
            if up_since.is_none() {
                *up_since = Some(Instant::now());
                tracing::info!(upstream = self.name, "an upstream server is ready");
                self.enter(ServerState::Ready, Availability::Ready(link.clone()));
                self.tried.send_replace(true);
            }
            tokio::select! {
                () = changed.notified() => {}
                () = self.look.notified() => {}
                () = tokio::time::sleep(self.context.pace.poll) => {}
            }
        }
    }
}
