//! Upstream MCP servers: which there are, by the settings or over the API, and what becomes of the tools that they offer.
//!
//! `executor::mcp` keeps each server up and says what it offers. `desk` does one thing after the other with that: it compares
//! it with what was there before, holds it against the pins, and shows it in the registry. `declared` reads what stands in the
//! settings, `sealed` what is stored.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::domain::{Time, ToolDefinition, Upstream};
use crate::executor::mcp::{Listed, Outfit, Server, Servers};
use crate::executor::{BoxFuture, Vault, mcp};
use crate::registry::Registry;
use crate::store::upstreams::{Pinning, StoredPin, StoredUpstream};
use crate::store::{Store, StoreError};

pub mod declared;
mod desk;
mod sealed;
mod view;

pub use declared::Declarations;
pub use view::{ChangeView, Implementation, LastError, LeftOut, UpstreamDetails, UpstreamView};

use desk::Job;

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
struct Held {
    origin: Origin,
    /// Which server of this name it is.
    id: Uuid,
    /// `None` where it cannot be used.
    server: Option<Arc<Server>>,
    /// Why it cannot be used, if it cannot.
    fault: Option<String>,
    created_at: Time,
    /// What it has offered last, also while it is gone.
    listed: Option<Arc<Listed>>,
    /// Whether it is gone for good.
    is_gone: bool,
    /// What was refused of it: the tool, and why.
    refused: Vec<(String, String)>,
    pins: BTreeMap<String, String>,
    withheld: HashSet<String>,
    changes: VecDeque<Change>,
}

impl Held {
    fn new(origin: Origin, created_at: Time) -> Self {
        Self {
            origin,
            id: Uuid::nil(),
            server: None,
            fault: None,
            created_at,
            listed: None,
            is_gone: true,
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
    outfit: Outfit,
    registry: Arc<Registry>,
    store: Store,
    vault: Vault,
    book: Mutex<Book>,
    jobs: mpsc::Sender<Job>,
}

/// All servers by name.
#[derive(Default)]
struct Book {
    held: BTreeMap<String, Held>,
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
pub enum Refused {
    /// There is no such server.
    #[error("there is no upstream server of this name")]
    Missing,
    /// There is one already.
    #[error("there is an upstream server of this name already")]
    Taken,
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
        outfit: Outfit,
        registry: Arc<Registry>,
        store: Store,
        vault: Vault,
    ) -> Arc<Self> {
        let (jobs, heard) = mpsc::channel(WAITING);
        let upstreams = Arc::new(Self {
            servers,
            outfit,
            registry,
            store,
            vault,
            book: Mutex::new(Book { version: -1, ..Book::default() }),
            jobs,
        });
        tokio::spawn(desk::run(Arc::downgrade(&upstreams), heard));
        let now = upstreams.outfit.clock.now();
        for (name, declared) in declarations.0 {
            let held = upstreams.put_up(&name, declared, Held::new(Origin::Config, now));
            upstreams.book().held.insert(name, held);
        }
        upstreams
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_up(&self, name: &str, declared: Result<Upstream, String>, mut held: Held) -> Held {
        match declared {
            Ok(upstream) => {
                held.id = self.outfit.ids.next();
                let audience = Arc::new(desk::Ear { jobs: self.jobs.clone(), id: held.id });
                held.server = Some(self.servers.add(name, upstream, self.outfit.clone(), audience));
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

    /// Reads the stored servers and pins: new servers are put up, and started if `starts`; those that are gone are stopped.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn reload(&self, starts: bool) -> Result<(), StoreError> {
        let (stored, pins, version) = self.store.upstreams().await?;
        let (gone, changed) = self.follow(&stored, &pins, version);
        for (name, server) in gone {
            if let Some(server) = server {
                server.stop().await;
            }
            desk::settle(&self.jobs, &name).await;
        }
        for name in changed {
            desk::settle(&self.jobs, &name).await;
        }
        if starts {
            self.start();
        }
        Ok(())
    }

    /// Makes the book say what is stored, unless that is older than what it says: the servers that are no more, and those
    /// whose pins are others.
    fn follow(
        &self,
        stored: &[StoredUpstream],
        pins: &[StoredPin],
        version: i64,
    ) -> (Vec<(String, Option<Arc<Server>>)>, Vec<String>) {
        let mut book = self.book();
        if version < book.version {
            return (Vec::new(), Vec::new());
        }
        book.version = version;
        let is_gone = |name: &str, held: &Held| {
            held.origin == Origin::Api && !stored.iter().any(|one| one.name == name && one.created_at == held.created_at)
        };
        let gone: Vec<String> =
            book.held.iter().filter(|(name, held)| is_gone(name, held)).map(|(name, _)| name.clone()).collect();
        let mut stopped = Vec::new();
        for name in gone {
            book.held.remove(&name);
            let server = self.servers.remove(&name);
            stopped.push((name, server));
        }
        for one in stored {
            if !book.held.contains_key(&one.name) {
                let upstream = sealed::open(one, &self.vault, self.store.tenant());
                let held = self.put_up(&one.name, upstream, Held::new(Origin::Api, one.created_at));
                book.held.insert(one.name.clone(), held);
            }
        }
        let mut changed = Vec::new();
        for (name, held) in &mut book.held {
            let own = pins.iter().filter(|pin| pin.upstream == *name);
            let own: BTreeMap<String, String> = own.map(|pin| (pin.tool.clone(), pin.hash.clone())).collect();
            if held.pins != own {
                held.pins = own;
                changed.push(name.clone());
            }
        }
        (stopped, changed)
    }

    /// Starts all servers that do not run yet.
    pub fn start(&self) {
        self.servers.list().iter().for_each(Server::start);
    }

    /// Waits until each has been started or could not be, for so long at most.
    pub async fn tried(&self, wait: Duration) {
        let servers = self.servers.list();
        let all = async {
            for server in &servers {
                server.tried().await;
            }
        };
        let _ = tokio::time::timeout(wait, all).await;
    }

    /// The same for one server.
    pub async fn settled(&self, name: &str, wait: Duration) {
        if let Some(server) = self.servers.get(name) {
            let _ = tokio::time::timeout(wait, server.tried()).await;
        }
    }

    /// Starts the server of which a tool of this name could be, if there is one, and waits for it.
    pub async fn reach(&self, tool: &str, wait: Duration) {
        let snapshot = self.registry.snapshot().clone();
        let of_definition = snapshot.find(tool).and_then(|entry| match &entry.declared.executor {
            crate::domain::ExecutorSpec::Mcp { server, .. } => Some(server.clone()),
            _ => None,
        });
        let name = of_definition.or_else(|| tool.split_once('.').map(|(server, _)| server.to_owned()));
        if let Some(server) = name.and_then(|name| self.servers.get(&name)) {
            server.start();
            let _ = tokio::time::timeout(wait, server.tried()).await;
        }
    }

    /// Stops all servers.
    pub async fn stop(&self) {
        let servers = self.servers.list();
        futures_util::future::join_all(servers.iter().map(|server| server.stop())).await;
    }

    /// Puts up a server that was registered over the API, and starts it.
    ///
    /// # Errors
    /// Why not.
    pub async fn register(&self, name: &str, upstream: &Upstream) -> Result<(), Refused> {
        self.reload(true).await?;
        {
            let book = self.book();
            if book.held.contains_key(name) {
                return Err(Refused::Taken);
            }
            if book.held.values().filter(|held| held.origin == Origin::Api).count() >= MOST {
                return Err(Refused::TooMany);
            }
        }
        let stored = sealed::seal(name, upstream, &self.vault, self.store.tenant(), self.outfit.clock.now())
            .map_err(Refused::Vault)?;
        if !self.store.insert_upstream(&stored).await? {
            return Err(Refused::Taken);
        }
        self.reload(true).await?;
        Ok(())
    }

    /// Takes down a server that was registered over the API.
    ///
    /// # Errors
    /// Why not.
    pub async fn delete(&self, name: &str) -> Result<(), Refused> {
        if self.book().held.get(name).is_some_and(|held| held.origin == Origin::Config) {
            return Err(Refused::Declared);
        }
        if !self.store.delete_upstream(name).await? {
            return Err(Refused::Missing);
        }
        self.reload(true).await?;
        Ok(())
    }

    /// Starts a server again, at once. Calls that it is working on fail.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub fn restart(&self, name: &str) -> Result<(), Refused> {
        let book = self.book();
        let held = book.held.get(name).ok_or(Refused::Missing)?;
        match &held.server {
            Some(server) => {
                server.start();
                server.restart();
                Ok(())
            }
            None => Err(Refused::Unusable(held.fault.clone().unwrap_or_default())),
        }
    }

    /// Accepts the definitions that tools have now; without names, of all that rest.
    ///
    /// # Errors
    /// If there is no such server or tool, or the database fails.
    pub async fn accept(&self, name: &str, tools: Option<&[String]>) -> Result<(), Refused> {
        let pins = {
            let book = self.book();
            let held = book.held.get(name).ok_or(Refused::Missing)?;
            let offered = held.listed.iter().flat_map(|listed| &listed.tools);
            let hashes: BTreeMap<&str, String> = offered.map(|told| (told.name.as_str(), desk::hash(told))).collect();
            let wanted: Vec<String> = match tools {
                Some(tools) => tools.iter().map(|tool| own_name(name, tool).to_owned()).collect(),
                None => held.withheld.iter().cloned().collect(),
            };
            let mut pins = Vec::with_capacity(wanted.len());
            for (place, tool) in wanted.into_iter().enumerate() {
                let Some(hash) = hashes.get(tool.as_str()).cloned() else { return Err(Refused::NoSuchTool(place, tool)) };
                pins.push((tool, hash));
            }
            pins
        };
        if !pins.is_empty() {
            let now = self.outfit.clock.now();
            self.store.pin(name, &pins, Pinning::Accepted, now).await?;
            for (tool, _) in pins {
                let change =
                    Change { tool, kind: ChangeKind::Accepted, members: Vec::new(), is_withheld: false, at: now };
                if let Some(held) = self.book().held.get_mut(name) {
                    held.remember(change);
                }
            }
            self.reload(true).await?;
        }
        Ok(())
    }

    /// Gives a definition that names a server's tool the words and schemas of that where it has none of its own.
    pub fn complete(&self, definition: &mut ToolDefinition) {
        let crate::domain::ExecutorSpec::Mcp { server, tool } = &definition.executor else { return };
        let listed = self.book().held.get(server).and_then(|held| held.listed.clone());
        let told = listed.iter().flat_map(|listed| &listed.tools).find(|told| told.name == *tool);
        let Some(Ok(theirs)) = told.map(|told| mcp::definition(server, told, definition.output_check)) else { return };
        if definition.input_schema.is_null() {
            definition.input_schema = theirs.input_schema;
            // A schema of one's own may have other results as well.
            definition.output_schema = definition.output_schema.take().or(theirs.output_schema);
        }
        if definition.description.is_empty() {
            definition.description = theirs.description;
        }
    }
}

/// A tool's name at its server, of that or of ours.
fn own_name<'a>(server: &str, tool: &'a str) -> &'a str {
    tool.strip_prefix(server).and_then(|rest| rest.strip_prefix('.')).unwrap_or(tool)
}

impl mcp::Audience for desk::Ear {
    fn hears(&self, server: &str, listed: Option<Arc<Listed>>) -> BoxFuture<()> {
        let (jobs, id, server) = (self.jobs.clone(), self.id, server.to_owned());
        Box::pin(async move { desk::heard(&jobs, server, id, listed).await })
    }
}
