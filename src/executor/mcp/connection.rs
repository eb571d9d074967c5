//! One connection of a server, from its beginning to its end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::child::{self, ChildGuard};
use super::lines::LineTransport;
use super::link::Link;
use super::outfit::ServerContext;
use super::progress::ProgressRouter;
use super::resolve::{ResolvedServer, ResolvedTransport};
use super::ring::Ring;
use super::tap::Tap;
use super::{annotations, fault, http};
use crate::executor::Redaction;

/// Most pages of a list of tools.
const MOST_PAGES: usize = 100;
/// Most tools of a server.
const MOST_TOOLS: usize = 2000;
/// How long a page may take.
const PAGE: Duration = Duration::from_secs(30);
/// How long the end of a connection may take.
const END: Duration = Duration::from_secs(2);

/// A connection that is up.
pub struct Connection {
    /// What calls are made with.
    pub link: Arc<Link>,
    /// What the server has said of itself.
    pub info: Option<Arc<ServerPeerInfo>>,
    /// Fires when it has said that its tools have changed.
    pub changed: Arc<Notify>,
    /// Its program, if it has one.
    pub child: Option<ChildGuard>,
    running: RunningService<RoleClient, McpClient>,
    lost: CancellationToken,
}

/// Who we are to a server.
struct McpClient;

impl ClientHandler for McpClient {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("toolpost", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// With the newest revision, or else an older one.
    Newest,
    /// With `initialize`, as servers of older revisions want it; some of them take nothing before it.
    Initialize,
}

impl Handshake {
    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Newest => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Initialize => ClientLifecycleMode::Initialize,
        }
    }
}

/// Why there is no connection.
pub struct ConnectError {
    /// For people.
    pub reason: String,
    /// Whether another beginning could help.
    pub may_be_older: bool,
}

impl ConnectError {
    fn because(reason: String) -> Self {
        Self { reason, may_be_older: false }
    }
}

/// Begins a connection.
///
/// # Errors
/// Why there is none.
pub async fn open(
    given: ResolvedServer,
    beginning: Handshake,
    outfit: &ServerContext,
    stderr: &Ring,
) -> Result<Connection, ConnectError> {
    let redaction =
        Redaction::of(&given.secrets).map_err(|_| ConnectError::because("its secrets are too long".to_owned()))?;
    let redaction = redaction.map(Arc::new);
    let (listeners, changed, lost) = (ProgressRouter::default(), Arc::<Notify>::default(), CancellationToken::new());
    let (begun, child, url) = match given.reached {
        ResolvedTransport::Stdio { argv, env, cwd } => {
            let (child, pipes) =
                child::start(&outfit.processes, &argv, &env, cwd.as_deref()).map_err(ConnectError::because)?;
            let (ring, hidden) = (stderr.clone(), redaction.clone());
            let reading = tokio::spawn(async move { ring.fill(pipes.stderr, hidden.as_deref()).await });
            let child = child.with_last_line(reading);
            let inner = LineTransport::new(pipes.stdout, pipes.stdin);
            let tap =
                Tap { inner, listeners: listeners.clone(), changed: changed.clone(), lost: lost.clone().drop_guard() };
            (begin(tap, beginning, None).await, Some(child), None)
        }
        ResolvedTransport::Http { url, headers } => {
            let (inner, url) = http::transport(&outfit.client, &url, &headers).map_err(ConnectError::because)?;
            let tap =
                Tap { inner, listeners: listeners.clone(), changed: changed.clone(), lost: lost.clone().drop_guard() };
            (begin(tap, beginning, Some(&url)).await, None, Some(url))
        }
    };
    let clean = |reason: String| match &redaction {
        Some(redaction) => redaction.text(&reason).into_owned(),
        None => reason,
    };
    match begun {
        Ok(running) => {
            let link = Link { peer: running.peer().clone(), listeners, redaction, url };
            let info = link.peer.peer_info();
            Ok(Connection { link: Arc::new(link), info, changed, child, running, lost })
        }
        Err(ConnectError { reason, may_be_older }) => {
            let ended = match child {
                Some(child) => child.end().await,
                None => None,
            };
            let reason = ended.map_or(reason.clone(), |ended| format!("{reason}; {ended}"));
            Err(ConnectError { reason: clean(reason), may_be_older })
        }
    }
}

async fn begin(
    transport: Tap<impl Transport<RoleClient> + 'static>,
    beginning: Handshake,
    url: Option<&Url>,
) -> Result<RunningService<RoleClient, McpClient>, ConnectError> {
    McpClient.serve_with_lifecycle(transport, beginning.mode()).await.map_err(|error| {
        let (reason, may_be_older) = fault::of_start(&error, url);
        ConnectError { reason, may_be_older: may_be_older && beginning == Handshake::Newest }
    })
}

impl Connection {
    /// What it is used by, who tells of changes, and what ends of it.
    pub fn split(self) -> (Arc<Link>, Arc<Notify>, ConnectionShutdown) {
        let Self { link, changed, child, running, lost, .. } = self;
        (link, changed, ConnectionShutdown { running, child, lost })
    }
}

/// What ends of a connection. Dropped, it ends in the background.
pub struct ConnectionShutdown {
    running: RunningService<RoleClient, McpClient>,
    child: Option<ChildGuard>,
    lost: CancellationToken,
}

impl ConnectionShutdown {
    /// Pends until the connection is lost.
    pub async fn wait(&self) {
        self.lost.cancelled().await;
    }

    /// Ends it. Says how its program ended, if it has one.
    pub async fn end(mut self) -> Option<String> {
        let _ = self.running.close_with_timeout(END).await;
        match self.child.take() {
            Some(child) => child.end().await,
            None => None,
        }
    }
}

/// All tools that a server has now.
///
/// # Errors
/// Why they are not known.
pub async fn tools(link: &Link) -> Result<Vec<Value>, ServiceError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let handle = link.peer.send_cancellable_request(request, PeerRequestOptions::with_timeout(PAGE)).await?;
        let (page, next) = page(handle.await_response().await?)?;
        tools.extend(page);
        // A cursor that stays the same would lead round in circles.
        if next.is_none() || next == cursor || tools.len() > MOST_TOOLS {
            break;
        }
        cursor = next;
    }
    tools.truncate(MOST_TOOLS);
    Ok(tools)
}

/// The tools of a page, each as it is: one that rmcp does not take is no reason not to see the others.
fn page(result: ServerResult) -> Result<(Vec<Value>, Option<String>), ServiceError> {
    let Ok(Value::Object(mut page)) = serde_json::to_value(result) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let Some(Value::Array(mut tools)) = page.remove("tools") else { return Err(ServiceError::UnexpectedResponse) };
    tools.iter_mut().for_each(annotations::unpack);
    let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty()).map(str::to_owned);
    Ok((tools, next))
}

/// Waits for a word of a server of the newest revision that its tools have changed; older ones say it unasked.
pub async fn hear_of_changes(link: &Link, info: Option<&ServerPeerInfo>, changed: &Notify) {
    let tells = info.is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        !info.protocol_version.has_initialize() && tools.is_some_and(|tools| tools.list_changed == Some(true))
    });
    if tells {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = link.peer.listen(filter).await {
            // What it says, the tap has heard already.
            while let Ok(Some(_)) = subscription.next().await {}
            // Whatever was said while nobody listened is seen by looking.
            changed.notify_one();
        }
    }
}
