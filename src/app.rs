//! The one place that names every concrete type and joins them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::auth::{Auth, Jwt};
use crate::callbacks::{self, Callbacks};
use crate::config::{Config, ProcessConfig};
use crate::domain::{Call, CallRequest, Clock, IdGenerator, Tenant};
use crate::engine::{Engine, Lease, PauseRule, RecordError, Settings, Submission, SubmitError, Wait};
use crate::events::Bus;
use crate::executor::mcp::{ServerContext, Servers};
use crate::executor::signing_key::{InvalidSigningSecret, SigningKey};
use crate::executor::vault::KeyringError;
use crate::executor::{Egress, HttpClient, Processes, Reporting, Secrets, Vault};
use crate::hooks::{Hooks, RustHook};
use crate::policy::StackLayer;
use crate::registry::discovery::{self, SharedCatalogs};
use crate::registry::entry::EntryBuilder;
use crate::registry::files::{self, ToolsFolder};
use crate::registry::{Registry, check, refresh};
use crate::store::journal::Committed;
use crate::store::lock::ServerLock;
use crate::store::{Db, Journal, Store, StoreError, Stores};
use crate::telemetry::{Metrics, Tracer};
use crate::tool::{BuiltinTool, builtin, system};
use crate::upstreams::Upstreams;

mod background;
mod from_config;
mod retention;
mod signing;

pub use signing::{given_signing_secret, kept_signing_secret};

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What `http` tools may reach.
    #[error("egress.allow: {0}")]
    Egress(String),
    /// Whom programs run as.
    #[error("process.user: {0}")]
    ProcessUser(String),
    /// Where traces are to be sent.
    #[error("telemetry.otlp_endpoint: {0}")]
    Telemetry(String),
    /// The HTTP client.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
    /// What outgoing requests are to be signed with.
    #[error("TOOLPOST_SIGNING_SECRET: {0}")]
    SigningSecret(InvalidSigningSecret),
    /// What stored values are to be sealed with.
    #[error("TOOLPOST_ENCRYPTION_KEYS: {0}")]
    EncryptionKeys(KeyringError),
    /// Whose tokens count.
    #[error("{0}")]
    Issuer(String),
    /// The secrets file.
    #[error("the secrets file {} cannot be used: {reason}", file.display())]
    SecretsFile {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The machine gives no random bytes.
    #[error("the machine gives no random bytes: {0}")]
    Randomness(String),
    /// A hook of the settings or of the program that is refused.
    #[error("hook {number} is refused: {reason}")]
    Hook {
        /// Its place among its like, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
    /// The upstream MCP servers.
    #[error("the upstream MCP servers cannot be used: {0}")]
    Upstreams(String),
    /// A built-in tool whose definition is refused.
    #[error("the built-in tool \"{name}\" is refused: {reason}")]
    Builtin {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The folder of the workspace tools.
    #[error("the workspace {} cannot be used: {source}", folder.display())]
    Workspace {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The tools folder.
    #[error("the tools folder {} cannot be read: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Why a call made from Rust did not come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Too many calls are in flight.
    #[error("too many calls are in flight")]
    Overloaded,
    /// The service is stopping.
    #[error("the service is stopping")]
    ShuttingDown,
    /// The database is away.
    #[error("the call could not be recorded: the database is away")]
    NotRecorded,
}

/// Makes an [`App`].
pub struct Builder {
    config: Config,
    tools: Vec<BuiltinTool>,
    layers: Vec<StackLayer>,
    hooks: Vec<RustHook>,
    clock: Clock,
    ids: IdGenerator,
    secrets: Secrets,
    is_command_line: bool,
}

/// The whole service without its server.
#[derive(Debug)]
pub struct App {
    /// Its settings.
    pub config: Config,
    /// Runs calls.
    pub engine: Arc<Engine>,
    /// Reads what the default tenant has: calls, events and stats.
    pub store: Store,
    /// The operator's own access, with which everything is allowed.
    pub operator: Access,
    /// Who may do what.
    pub auth: Arc<Auth>,
    /// Tells of what was committed.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// The way to the database.
    pub journal: Journal,
    /// Signs outgoing requests, and makes the tokens of calls.
    pub signing_key: SigningKey,
    /// How tools outside report back; it is told the address once the service listens.
    pub reporting: Reporting,
    /// Wakes the sender of callbacks.
    pub callback_wakeup: Arc<Notify>,
    /// Seals values that are written over the API.
    pub vault: Vault,
    /// The upstream MCP servers.
    pub upstreams: Arc<Upstreams>,
    /// What is counted.
    pub metrics: Metrics,
    /// What is traced.
    pub tracer: Tracer,
    /// What becomes of callbacks.
    pub callback_counts: Arc<callbacks::Counts>,
    node: Arc<str>,
    background: CancellationToken,
    writer: JoinHandle<()>,
    heartbeat: JoinHandle<()>,
    callbacks: JoinHandle<()>,
    lock: Option<ServerLock>,
}

impl Builder {
    /// Adds a tool, or replaces the built-in one of the same name.
    #[must_use]
    pub fn tool(mut self, tool: BuiltinTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Wraps every tool in a tower layer of one's own, outside the service's.
    #[must_use]
    pub fn wrap(mut self, wrap: StackLayer) -> Self {
        self.layers.push(wrap);
        self
    }

    /// Adds a hook around calls.
    #[must_use]
    pub fn hook(mut self, hook: RustHook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Where time and ids come from; the machine's unless given.
    #[must_use]
    pub fn clock(self, clock: Clock, ids: IdGenerator) -> Self {
        Self { clock, ids, ..self }
    }

    /// Where secrets come from; the environment unless given.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// It runs one call beside a server on the same database, and leaves what others have left behind to that.
    #[must_use]
    pub fn command_line(self) -> Self {
        Self { is_command_line: true, ..self }
    }

    /// Opens the database, brings it to the newest version, and reads the tools.
    ///
    /// # Errors
    /// What cannot be opened, read or used.
    pub async fn start(self) -> Result<App, StartError> {
        let Self { config, tools, layers: wraps, hooks, clock, ids, secrets, is_command_line } = self;
        let node: Arc<str> = node_name(&clock, is_command_line).into();
        let given_secret = given_signing_secret(&config)?;
        let secrets = from_config::secrets(secrets, &config)?;
        let declarations = from_config::declarations(&config)?;
        let egress = Egress::new(&config.egress.allow).map_err(StartError::Egress)?;
        let egress = egress.with_ports(config.egress.allow_ports.iter().copied());
        let stores = Stores::open(&config.database_url()).await?.bounded(config.tenants);
        let store = stores.of(&Tenant::default());
        let lock = match Db::file(&config.database_url()) {
            Some(file) if !is_command_line => Some(ServerLock::take(&file).await?),
            _ => None,
        };
        let signing_key = signing::signing_key(given_secret, &store).await?;
        let vault = from_config::vault(&config, &signing_key)?;
        let reporting = Reporting::new(signing_key.clone());
        if !config.server.public_url.is_empty() {
            reporting.set_base(&config.server.public_url);
        }
        let client =
            HttpClient::new(egress, secrets.clone(), clock.clone(), reporting.clone()).map_err(StartError::Client)?;
        // Its own client needs what was made ready for the one above.
        let tracer = Tracer::new(&config.telemetry).map_err(StartError::Telemetry)?;
        let metrics = Metrics::default();
        let hooks = hooks_of(&config, hooks, &client, &signing_key, &clock, &ids)?;
        let shown = SharedCatalogs::default();
        let discovery = if config.tools.discovery { discovery::tools(&shown) } else { Vec::new() };
        let read = BuiltinTool::new(builtin::ReadResult::new(stores.clone()));
        let system = system::tools(&stores, &clock, background::manageable_groups(&shown));
        let ProcessConfig { registration, helper, user, limits } = &config.process;
        let processes = Processes::new(helper, *registration, *limits, secrets.clone());
        let processes = processes.as_user(user).map_err(StartError::ProcessUser)?;
        let given = from_config::tools(&config, &client, &processes)?;
        let builtins = builtin::standard(&clock).into_iter().chain([read]).chain(given);
        let builtins = builtins.chain(discovery).chain(system).chain(tools).collect();
        let servers = Servers::default();
        let outfit = ServerContext {
            client: client.clone(),
            processes: processes.clone(),
            secrets: secrets.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            pace: from_config::pace(&config.mcp_servers),
            metrics: metrics.clone(),
        };
        let workshop = EntryBuilder::new(builtins, client.clone(), wraps)
            .processes(processes)
            .servers(servers.clone())
            .name_separator(config.mcp.name_separator.clone());
        let registry = Registry::new(workshop, clock.clone(), shown)
            .map_err(|(name, faults)| StartError::Builtin { name, reason: check::summary(&faults) })?;
        let registry = Arc::new(registry);
        let background = CancellationToken::new();
        if !config.tools.dir.is_empty() {
            let folder = PathBuf::from(&config.tools.dir);
            let mut tools = ToolsFolder::new(folder.clone());
            let broken =
                tools.read(&registry).map_err(|source| StartError::Folder { folder: folder.clone(), source })?;
            files::report(&folder, Ok(broken));
            tokio::spawn(files::watch(tools, registry.clone(), background.clone()));
        }
        registry.reload(&store).await?;
        hooks.reload(&stores).await?;
        let upstreams = Upstreams::new(declarations, servers, outfit, registry.clone(), store.clone(), vault.clone());
        upstreams.reload(!is_command_line).await?;
        if !is_command_line {
            tokio::spawn(refresh::run(registry.clone(), background.clone()));
        }
        tokio::spawn(background::fold_stats(stores.clone(), background.clone()));
        let followed = (registry.clone(), hooks.clone(), upstreams.clone());
        tokio::spawn(background::follow_tools(stores.clone(), followed, !is_command_line, background.clone()));
        let idle = Duration::from_millis(config.instances.idle_ms);
        tokio::spawn(background::end_idle_instances(registry.instances().clone(), idle, background.clone()));
        let bus = Bus::default();
        let (publisher, counting) = (bus.clone(), metrics.clone());
        let sink = Arc::new(move |committed: &Committed| {
            publisher.publish(committed);
            counting.committed(committed.changes(), committed.took, committed.ended());
        });
        tokio::spawn(background::keep_metrics(metrics.clone(), background.clone()));
        let (journal, writer) = Journal::start(stores.db().clone(), clock.clone(), ids.clone(), sink);
        let callbacks_kick = Arc::<Notify>::default();
        let callbacks = Callbacks::new(stores.clone(), client, signing_key.clone(), clock.clone());
        let callback_counts = callbacks.counts();
        let callbacks = tokio::spawn(callbacks.run(callbacks_kick.clone(), background.clone()));
        let settings = Settings {
            node: node.clone(),
            limits: config.limits,
            store_patience: Duration::from_millis(config.store.patience_ms),
            room_kib: config.server.max_in_flight_mib * 1024,
            rush: from_config::rush(&config.server),
            rates: from_config::rates(&config),
            max_queued: config.queue.max_length,
            max_running: config.queue.max_running,
            silence: Duration::from_millis(config.streams.silence_ms),
            session_idle_ms: config.sessions.idle_ms,
            pause: PauseRule { after_timeouts: config.pause.after_timeouts, cooldown_ms: config.pause.cooldown_ms },
            results_bytes: config.cache.max_mib.saturating_mul(1024 * 1024),
            callbacks_kick: callbacks_kick.clone(),
            hooks,
            secrets: secrets.clone(),
            vault: vault.clone(),
            context: config.context.0.clone().into(),
            metrics: metrics.clone(),
            tracer: tracer.clone(),
        };
        let operator = Access::operator(&stores, &registry);
        let jwt = Jwt::new(config.auth.jwt.clone(), clock.clone(), reporting.clone());
        let jwt = jwt.map_err(StartError::Issuer)?;
        let bounds = from_config::bounds(&config);
        let is_insecure = config.auth.insecure_no_auth;
        let auth = Auth::open(stores.clone(), registry.clone(), clock.clone(), jwt, bounds, is_insecure).await?;
        let auth = Arc::new(auth);
        tokio::spawn(auth.clone().follow(background.clone()));
        let engine = Engine::new(registry, journal.clone(), stores, clock.clone(), ids, settings);
        let engine = Arc::new(engine);
        let lease = Lease {
            heartbeat: Duration::from_millis(config.node.heartbeat_ms.max(1)),
            lease: Duration::from_millis(config.node.lease_ms),
            adopts_calls: !is_command_line,
            is_alone: matches!(store.db(), Db::Sqlite(_)),
        };
        engine.sign_on(lease).await?;
        let heart = tokio::spawn(engine.clone().live_on(lease, background.clone()));
        if !is_command_line {
            let idle = Duration::from_millis(config.sessions.idle_ms);
            tokio::spawn(engine.clone().keep_sessions(idle, background.clone()));
            tokio::spawn(retention::run(store.stores().clone(), clock.clone(), config.retention, background.clone()));
        }
        if !is_command_line {
            upstreams.wait_first_attempt(Duration::from_millis(config.mcp_servers.start_wait_ms)).await;
        }
        Ok(App {
            config,
            engine,
            store,
            operator,
            auth,
            bus,
            clock,
            journal,
            signing_key,
            reporting,
            callback_wakeup: callbacks_kick,
            vault,
            upstreams,
            metrics,
            tracer,
            callback_counts,
            node,
            background,
            writer,
            heartbeat: heart,
            callbacks,
            lock,
        })
    }
}

impl App {
    /// An app with these settings.
    #[must_use]
    pub fn builder(config: Config) -> Builder {
        Builder {
            config,
            tools: Vec::new(),
            layers: Vec::new(),
            hooks: Vec::new(),
            clock: Clock::system(),
            ids: IdGenerator::random(),
            secrets: Secrets::from_env(),
            is_command_line: false,
        }
    }

    /// Runs one call to its end.
    ///
    /// # Errors
    /// If it was not taken or not recorded. A call that ends badly is no error here: its outcome says so.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Arc<Call>, CallError> {
        let request = CallRequest { name: name.to_owned(), arguments: Some(arguments), ..CallRequest::default() };
        let submission = Submission { calls: vec![request], wait: Wait::Result, ..Submission::default() };
        let submitted = self.engine.submit_now(&self.operator, submission, &self.engine.ids(1), 0).map_err(
            |refusal| match refusal {
                SubmitError::ShuttingDown => CallError::ShuttingDown,
                _ => CallError::Overloaded,
            },
        )?;
        let ended = submitted.wait_all().await.map_err(|RecordError { .. }| CallError::NotRecorded)?;
        ended.into_iter().next().ok_or(CallError::NotRecorded)
    }

    /// Lets running calls end (for `drain_ms` at most), writes everything, and closes the database.
    pub async fn stop(self) {
        self.engine.drain(Duration::from_millis(self.config.server.drain_ms)).await;
        self.background.cancel();
        self.upstreams.stop().await;
        self.engine.registry().instances().close().await;
        self.journal.close();
        // A database that is away is not waited for beyond this: what it should have got was never acknowledged.
        let callbacks = self.callbacks.abort_handle();
        let last_writes = async { tokio::join!(self.writer, self.callbacks) };
        if tokio::time::timeout(LAST_WRITES, last_writes).await.is_err() {
            callbacks.abort();
            tracing::error!("the database is away; changes that were not acknowledged are given up");
        }
        // What is left behind is seen to by the next start, or by another node, at once.
        let signed_off = tokio::time::timeout(LAST_WRITES, async {
            // It might say once more that it lives.
            let _ = self.heartbeat.await;
            self.store.deregister(&self.node).await
        })
        .await;
        if !matches!(signed_off, Ok(Ok(()))) {
            tracing::warn!("the database is away; what is left behind is seen to once the lease is over");
        }
        self.store.close().await;
        self.tracer.stop().await;
        drop(self.lock);
    }
}

/// How long the last changes may take to be written at the end.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The hooks of the program and of the settings.
fn hooks_of(
    config: &Config,
    own: Vec<RustHook>,
    client: &HttpClient,
    key: &SigningKey,
    clock: &Clock,
    ids: &IdGenerator,
) -> Result<Arc<Hooks>, StartError> {
    let hooks = Hooks::new(client.clone(), key.clone(), clock.clone(), ids.clone(), own, &config.hooks);
    let hooks = hooks.map_err(|(place, faults)| {
        let faults: Vec<String> = faults.iter().map(|(pointer, fault)| format!("{pointer}: {fault}")).collect();
        StartError::Hook { number: place + 1, reason: faults.join("; ") }
    });
    hooks.map(Arc::new)
}

/// The host's name and the process, and what tells it from any process before it.
fn node_name(clock: &Clock, is_command_line: bool) -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "node" } else { host };
    let kind = if is_command_line { "cli-" } else { "" };
    let (started, number) = (clock.now().0 / 1000, STARTED.fetch_add(1, Ordering::Relaxed));
    format!("{kind}{host}-{}-{started:x}-{number}", std::process::id())
}
