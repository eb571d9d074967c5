//! Upstream MCP servers: which there are, by the settings or over the API, and what becomes of the tools that they offer.
//!
//! `executor::mcp` keeps each server up and says what it offers. `desk` does one thing after the other with that: it compares
//! it with what was there before, holds it against the pins, and shows it in the registry. `declared` reads what stands in the
//! settings, `sealed` and `follow` what is stored, and `ask` is what the API asks for.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::domain::{Time, Upstream};
use crate::executor::mcp::{Server, ServerContext, Servers, ToolList};
use crate::executor::{BoxFuture, Vault, mcp};
use crate::registry::Registry;
use crate::store::{Store, StoreError};

mod commands;
pub mod declared;
mod reconcile;
mod sealed;
mod sync;
mod view;

pub use declared::Declarations;
pub use view::{UpstreamDetails, UpstreamView};

use reconcile::ReconcileJob;

/// Most servers that are registered over the API.
pub const MOST: usize = 100;
/// Jobs that wait for the desk.
const WAITING: usize = 64;
/// Most changes of a server's tools that are remembered.
const MOST_CHANGES: usize = 100;

/// Who has declared a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamSource)]
pub enum Origin {
    /// The service's settings, or the file that they name.
    Config,
    /// The API.
    Api,
}

/// A change of what a server offers.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    tool: String,
    kind: ChangeKind,
    members: Vec<&'static str>,
    is_withheld: bool,
    at: Time,
}

/// What has become of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamChangeKind)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another.
    Changed,
    /// Its change was accepted.
    Accepted,
}

/// A server and what is known of its tools.
struct UpstreamRecord {
    origin: Origin,
    /// Which server of this name it is.
    id: Uuid,
    /// `None` where it cannot be used.
    server: Option<Arc<Server>>,
    /// Why it cannot be used, if it cannot.
    fault: Option<String>,
    created_at: Time,
    /// What it has offered last, also while it is gone.
    listed: Option<Arc<ToolList>>,
    /// Whether it is gone for good.
    is_gone: bool,
    /// The tools that are shown, by their names there; those that rest are among them.
    offered: Vec<String>,
    /// What was refused of it: the tool, and why.
    refused: Vec<(String, String)>,
    pins: BTreeMap<String, String>,
    withheld: HashSet<String>,
    changes: VecDeque<Change>,
}

impl UpstreamRecord {
    fn new(origin: Origin, created_at: Time) -> Self {
        Self {
            origin,
            id: Uuid::nil(),
            server: None,
            fault: None,
            created_at,
            listed: None,
            is_gone: true,
            offered: Vec::new(),
            refused: Vec::new(),
            pins: BTreeMap::new(),
            withheld: HashSet::new(),
            changes: VecDeque::new(),
        }
    }

    fn remember(&mut self, change: Change) {
        if self.changes.len() == MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }
}

/// All upstream servers of this node.
pub struct Upstreams {
    servers: Servers,
    context: ServerContext,
    registry: Arc<Registry>,
    store: Store,
    vault: Vault,
    table: Mutex<UpstreamTable>,
    jobs: mpsc::Sender<ReconcileJob>,
}

/// All servers by name.
#[derive(Default)]
struct UpstreamTable {
    held: BTreeMap<String, UpstreamRecord>,
    /// The version of the stored servers and pins that is known.
    version: i64,
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstreams").finish_non_exhaustive()
    }
}

/// Why something was not done with a server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamRequestError {
    /// There is no such server.
    #[error("there is no upstream server of this name")]
    NotFound,
    /// There is one already.
    #[error("there is an upstream server of this name already")]
    NameTaken,
    /// It stands in the settings.
    #[error("the server is declared in the settings; remove it there")]
    Declared,
    /// It cannot be used.
    #[error("the server cannot be used: {0}")]
    Unusable(String),
    /// There are too many.
    #[error("there are {MOST} upstream servers; delete one first")]
    TooMany,
    /// A tool that it does not offer, and its place in the request.
    #[error("the server does not offer a tool \"{1}\"")]
    NoSuchTool(usize, String),
    /// Nothing can be sealed.
    #[error("{0}")]
    Vault(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Upstreams {
    /// With the servers that are declared; none of them is started yet.
    #[must_use]
    pub fn new(
        declarations: Declarations,
        servers: Servers,
        outfit: ServerContext,
        registry: Arc<Registry>,
        store: Store,
        vault: Vault,
    ) -> Arc<Self> {
        let (jobs, heard) = mpsc::channel(WAITING);
        let upstreams = Arc::new(Self {
            servers,
            context: outfit,
            registry,
            store,
            vault,
            table: Mutex::new(UpstreamTable { version: -1, ..UpstreamTable::default() }),
            jobs,
        });
        tokio::spawn(reconcile::run(Arc::downgrade(&upstreams), heard));
        let now = upstreams.context.clock.now();
        for (name, declared) in declarations.0 {
            let held = upstreams.start_server(&name, declared, UpstreamRecord::new(Origin::Config, now));
            upstreams.book().held.insert(name, held);
        }
        upstreams
    }

    fn book(&self) -> MutexGuard<'_, UpstreamTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_server(&self, name: &str, declared: Result<Upstream, String>, mut held: UpstreamRecord) -> UpstreamRecord {
        match declared {
            Ok(upstream) => {
                held.id = self.context.ids.next();
                let audience = Arc::new(reconcile::ReconcileObserver { jobs: self.jobs.clone(), id: held.id });
                held.server = Some(self.servers.add(name, upstream, self.context.clone(), audience));
            }
            Err(fault) => {
                tracing::error!(upstream = name, fault, "an upstream server cannot be used");
                held.fault = Some(fault);
            }
        }
        held
    }

    /// The version of the stored servers and pins that is known.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.book().version
    }

    /// Starts all servers that do not run yet.
    pub fn start(&self) {
        self.servers.list().iter().for_each(Server::start);
    }

    /// Waits until each has been started or could not be, for so long at most.
    pub async fn wait_first_attempt(&self, wait: Duration) {
        let servers = self.servers.list();
        let all = async {
            for server in &servers {
                server.wait_first_attempt().await;
            }
        };
        let _ = tokio::time::timeout(wait, all).await;
    }

    /// The same for one server.
    pub async fn settled(&self, name: &str, wait: Duration) {
        if let Some(server) = self.servers.get(name) {
            let _ = tokio::time::timeout(wait, server.wait_first_attempt()).await;
        }
    }

    /// Stops all servers.
    pub async fn stop(&self) {
        let servers = self.servers.list();
        futures_util::future::join_all(servers.iter().map(|server| server.stop())).await;
    }
}

/// A tool's name at its server, of that or of ours.
fn tool_name<'a>(server: &str, tool: &'a str) -> &'a str {
    tool.strip_prefix(server).and_then(|rest| rest.strip_prefix('.')).unwrap_or(tool)
}

impl mcp::ToolListObserver for reconcile::ReconcileObserver {
    fn tools_changed(&self, server: &str, listed: Option<Arc<ToolList>>) -> BoxFuture<()> {
        let (jobs, id, server) = (self.jobs.clone(), self.id, server.to_owned());
        Box::pin(async move { reconcile::tools_listed(&jobs, server, id, listed).await })
    }
}
