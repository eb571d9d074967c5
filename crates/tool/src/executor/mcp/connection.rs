//! One connection to a server, from handshake to shutdown.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::child::{self, ChildGuard};
use super::context::ServerContext;
use super::lines::LineTransport;
use super::link::Link;
use super::progress::{ProgressRouter, Receivers, Tap};
use super::resolve::{ResolvedServer, ResolvedTransport};
use super::ring::Ring;
use super::unanswered::UnansweredTransport;
use super::{annotations, fault, http};
use crate::executor::Redaction;

/// Maximum number of pages of a tool list.
const MAX_PAGES: usize = 100;
/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 2000;
/// Timeout for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// An established connection.
pub struct Connection {
    /// The part of the connection that calls use.
    pub link: Arc<Link>,
    /// The server's description of itself.
    pub info: Option<Arc<ServerPeerInfo>>,
    /// Notified when the server reports that its tools have changed.
    pub changed: Arc<Notify>,
    /// The program of a stdio server.
    pub child: Option<ChildGuard>,
    running: RunningService<RoleClient, ClientConfig>,
    lost: CancellationToken,
}

/// The handshake of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// Starts with the newest revision and falls back to an older one.
    Newest,
    /// Starts with `initialize`, as in older revisions; some servers accept nothing before it.
    Initialize,
}

/// An error returned by [`open`].
pub struct ConnectError {
    /// Message for people.
    pub reason: String,
    /// Whether the other handshake may succeed.
    pub may_be_older: bool,
}

impl From<String> for ConnectError {
    fn from(reason: String) -> Self {
        Self { reason, may_be_older: false }
    }
}

/// Opens a connection.
///
/// # Errors
/// Returns a [`ConnectError`] if the server cannot be started or reached, or if the handshake fails.
pub async fn open(
    server: ResolvedServer,
    handshake: Handshake,
    context: &ServerContext,
    stderr: &Ring,
) -> Result<Connection, ConnectError> {
    let redaction = Redaction::of(&server.secrets).map_err(|_| "its secrets are too long".to_owned())?;
    let redaction = redaction.map(Arc::new);
    let (progress, changed, lost) = (ProgressRouter::default(), Arc::<Notify>::default(), CancellationToken::new());
    let receivers = Receivers { progress: progress.clone(), changed: changed.clone(), lost: lost.clone().drop_guard() };
    let (begun, child, url) = match server.reached {
        ResolvedTransport::Stdio { argv, env, cwd } => {
            let (child, stdout, stdin) =
                child::start(&context.processes, &argv, &env, cwd.as_deref(), stderr, redaction.clone())?;
            let inner = UnansweredTransport::new(LineTransport::new(stdout, stdin));
            (begin(Tap { inner, receivers }, handshake, None).await, Some(child), None)
        }
        ResolvedTransport::Http { url, headers } => {
            let (inner, url) = http::transport(&context.client, &url, &headers)?;
            (begin(Tap { inner, receivers }, handshake, Some(&url)).await, None, Some(url))
        }
    };
    match begun {
        Ok(running) => {
            let link = Link { peer: running.peer().clone(), progress, redaction, url };
            let info = link.peer.peer_info();
            Ok(Connection { link: Arc::new(link), info, changed, child, running, lost })
        }
        Err(ConnectError { mut reason, may_be_older }) => {
            if let Some(child) = child
                && let Some(ended) = child.end().await
            {
                reason = format!("{reason}; {ended}");
            }
            Err(ConnectError { reason: Redaction::apply(redaction.as_deref(), reason), may_be_older })
        }
    }
}

async fn begin(
    transport: Tap<impl Transport<RoleClient> + 'static>,
    handshake: Handshake,
    url: Option<&Url>,
) -> Result<RunningService<RoleClient, ClientConfig>, ConnectError> {
    let implementation = Implementation::new("toolpost", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), implementation)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let mode = match handshake {
        Handshake::Newest => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Handshake::Initialize => ClientLifecycleMode::Initialize,
    };
    client.serve_with_lifecycle(transport, mode).await.map_err(|error| {
        let (reason, may_be_older) = fault::of_start(&error, url);
        ConnectError { reason, may_be_older: may_be_older && handshake == Handshake::Newest }
    })
}

impl Connection {
    /// Waits until the connection is lost.
    pub async fn wait_lost(&self) {
        self.lost.cancelled().await;
    }

    /// Closes the connection. Returns a message about the end of the program, if the server is a program. Dropping the
    /// connection closes it in the background.
    pub async fn end(mut self) -> Option<String> {
        let _ = self.running.close_with_timeout(CLOSE_TIMEOUT).await;
        self.child?.end().await
    }
}

/// Lists all tools of a server.
///
/// # Errors
/// Returns a [`ServiceError`] if a page cannot be read.
pub async fn tools(link: &Link) -> Result<Vec<Value>, ServiceError> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let handle =
            link.peer.send_cancellable_request(request, PeerRequestOptions::with_timeout(PAGE_TIMEOUT)).await?;
        let (page, next) = page(handle.await_response().await?)?;
        tools.extend(page);
        // A repeated cursor would cause an endless loop.
        if next.is_none() || next == cursor || tools.len() > MAX_TOOLS {
            break;
        }
        cursor = next;
    }
    tools.truncate(MAX_TOOLS);
    Ok(tools)
}

/// Returns the tools of a page as raw JSON, because one tool that rmcp cannot parse must not hide the others.
fn page(result: ServerResult) -> Result<(Vec<Value>, Option<String>), ServiceError> {
    let Ok(Value::Object(mut page)) = serde_json::to_value(result) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let Some(Value::Array(mut tools)) = page.remove("tools") else { return Err(ServiceError::UnexpectedResponse) };
    tools.iter_mut().for_each(annotations::unpack);
    let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty()).map(str::to_owned);
    Ok((tools, next))
}

/// Subscribes to tool changes of a server of the newest revision; older revisions send them without a subscription.
/// Returns when the subscription ends.
pub async fn listen_for_changes(link: &Link, info: Option<&ServerPeerInfo>, changed: &Notify) {
    let notifies = info.is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        !info.protocol_version.has_initialize() && tools.is_some_and(|tools| tools.list_changed == Some(true))
    });
    if notifies {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = link.peer.listen(filter).await {
            // The tap has already handled these notifications.
            while let Ok(Some(_)) = subscription.next().await {}
            // Lists the tools again, because changes after the end of the subscription were not reported.
            changed.notify_one();
        }
    }
}
