//! Upstream MCP servers: the servers declared in the settings or registered over the API, and their tools.
//!
//! `executor::mcp` keeps each server running and reports its tools. `reconcile` compares them with the previous list
//! and the pins, one server at a time, and publishes them in the registry. `declared` reads the servers of the
//! settings, `sealed` and `sync` the stored servers, and `commands` contains the operations of the API.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::domain::{Time, Upstream};
use crate::executor::Vault;
use crate::executor::mcp::{Server, ServerContext, Servers, ToolList};
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

/// Maximum number of servers that are registered over the API.
pub const MAX_SERVERS: usize = 100;
/// Capacity of the queue of reconcile jobs.
const QUEUE_CAPACITY: usize = 64;
/// Maximum number of recorded changes of a server's tools.
const MAX_CHANGES: usize = 100;

/// The declaration of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamSource)]
pub enum Origin {
    /// Declared in the settings, or in the file that they name.
    Config,
    /// Registered over the API.
    Api,
}

/// A change of a server's tools.
#[derive(Debug, Clone, serde::Serialize, utoipa::ToSchema)]
#[schema(as = UpstreamChange)]
pub(crate) struct Change {
    /// The name of the tool in Toolpost.
    tool: String,
    /// The kind of the change.
    change: ChangeKind,
    /// The changed members of the definition, if known.
    members: Vec<&'static str>,
    /// Whether the tool is quarantined until the change is accepted.
    quarantined: bool,
    /// The time of the change.
    at: Time,
}

/// The kind of a change of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = UpstreamChangeKind)]
pub enum ChangeKind {
    /// The tool is new.
    Added,
    /// The server no longer offers the tool.
    Removed,
    /// The definition of the tool changed.
    Changed,
    /// The changed definition was accepted.
    Accepted,
}

/// A server and the state of its tools.
struct UpstreamRecord {
    origin: Origin,
    /// Distinguishes servers that had the same name one after another.
    id: Uuid,
    /// `None` if the declaration is invalid.
    server: Option<Arc<Server>>,
    /// The reason why the declaration is invalid.
    fault: Option<String>,
    created_at: Time,
    /// The last list of tools, also while the server is unavailable.
    listed: Option<Arc<ToolList>>,
    /// Whether the server is unavailable and its tools are withdrawn.
    is_gone: bool,
    /// The published tools, by their names at the server; includes quarantined tools.
    offered: Vec<String>,
    /// The tools that were rejected, with the reasons.
    refused: Vec<(String, String)>,
    /// The offered tools whose schemas were corrected, by their names at the server, with what was corrected.
    corrected: Vec<(String, String)>,
    pins: BTreeMap<String, String>,
    quarantined: HashSet<String>,
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
            corrected: Vec::new(),
            pins: BTreeMap::new(),
            quarantined: HashSet::new(),
            changes: VecDeque::new(),
        }
    }

    fn remember(&mut self, change: Change) {
        if self.changes.len() == MAX_CHANGES {
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

/// All servers, by name.
#[derive(Default)]
struct UpstreamTable {
    records: BTreeMap<String, UpstreamRecord>,
    /// The version of the stored servers and pins that this node has read.
    version: i64,
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstreams").finish_non_exhaustive()
    }
}

/// The error of a request concerning an upstream server.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamRequestError {
    /// No server has this name.
    #[error("unknown upstream server")]
    NotFound,
    /// A server has this name already.
    #[error("an upstream server with this name already exists")]
    NameTaken,
    /// The server is declared in the settings.
    #[error("the server is declared in the settings; remove it there")]
    Declared,
    /// The declaration of the server is invalid.
    #[error("the server cannot be used: {0}")]
    Unusable(String),
    /// The limit of registered servers is reached.
    #[error("the limit of {MAX_SERVERS} upstream servers is reached; delete one first")]
    TooMany,
    /// The server does not offer this tool; with the index of the tool in the request.
    #[error("the server does not offer a tool \"{1}\"")]
    NoSuchTool(usize, String),
    /// The secrets of the server cannot be sealed.
    #[error("{0}")]
    Vault(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Upstreams {
    /// Creates the servers that the settings declare, without starting them.
    #[must_use]
    pub fn new(
        declarations: Declarations,
        servers: Servers,
        context: ServerContext,
        registry: Arc<Registry>,
        store: Store,
        vault: Vault,
    ) -> Arc<Self> {
        let (jobs, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let upstreams = Arc::new(Self {
            servers,
            context,
            registry,
            store,
            vault,
            table: Mutex::new(UpstreamTable { version: -1, ..UpstreamTable::default() }),
            jobs,
        });
        tokio::spawn(reconcile::run(Arc::downgrade(&upstreams), receiver));
        let now = upstreams.context.clock.now();
        for (name, declared) in declarations.0 {
            let record = upstreams.start_server(&name, declared, UpstreamRecord::new(Origin::Config, now));
            upstreams.table().records.insert(name, record);
        }
        upstreams
    }

    fn table(&self) -> MutexGuard<'_, UpstreamTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_server(
        &self,
        name: &str,
        declared: Result<Upstream, String>,
        mut record: UpstreamRecord,
    ) -> UpstreamRecord {
        match declared {
            Ok(upstream) => {
                record.id = self.context.ids.next();
                let audience = Arc::new(reconcile::ReconcileObserver { jobs: self.jobs.clone(), id: record.id });
                record.server = Some(self.servers.add(name, upstream, self.context.clone(), audience));
            }
            Err(fault) => {
                tracing::error!(upstream = name, fault, "an upstream server cannot be used");
                record.fault = Some(fault);
            }
        }
        record
    }

    /// Returns the version of the stored servers and pins that this node has read.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.table().version
    }

    /// Starts all servers that are not running.
    pub fn start(&self) {
        self.servers.list().iter().for_each(Server::start);
    }

    /// Waits until the first start of each server has succeeded or failed, for at most `wait`.
    pub async fn wait_first_attempt(&self, wait: Duration) {
        let servers = self.servers.list();
        let all = async {
            for server in &servers {
                server.wait_first_attempt().await;
            }
        };
        let _ = tokio::time::timeout(wait, all).await;
    }

    /// Waits until the first start of one server has succeeded or failed, for at most `wait`.
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

/// Returns a tool's name at its server; accepts that name or the name in the registry.
fn tool_name<'a>(server: &str, tool: &'a str) -> &'a str {
    tool.strip_prefix(server).and_then(|rest| rest.strip_prefix('.')).unwrap_or(tool)
}
