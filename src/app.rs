//! The assembled service: builds every concrete type and connects them.

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
use crate::executor::{Egress, HttpClient, Processes, Reporting, Vault};
use crate::hooks::{Hooks, RustHook};
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

pub use crate::executor::{Invocation, Secrets};
pub use crate::policy::{Stack, StackLayer};
pub use signing::{given_signing_secret, kept_signing_secret};

/// An error returned by [`Builder::start`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The setting `egress.allow` is invalid.
    #[error("egress.allow: {0}")]
    Egress(String),
    /// The setting `process.user` is invalid.
    #[error("process.user: {0}")]
    ProcessUser(String),
    /// The endpoint for traces is invalid.
    #[error("telemetry.otlp_endpoint: {0}")]
    Telemetry(String),
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    /// The signing secret is invalid.
    #[error("TOOLPOST_SIGNING_SECRET: {0}")]
    SigningSecret(InvalidSigningSecret),
    /// The encryption keys are invalid.
    #[error("TOOLPOST_ENCRYPTION_KEYS: {0}")]
    EncryptionKeys(KeyringError),
    /// The settings of the token issuer are invalid.
    #[error("{0}")]
    Issuer(String),
    /// The secrets file cannot be read, or is invalid.
    #[error("cannot use the secrets file {}: {reason}", file.display())]
    SecretsFile {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The operating system returned no random bytes.
    #[error("random bytes are unavailable: {0}")]
    Randomness(String),
    /// A hook of the settings or of the program is invalid.
    #[error("hook {number} is invalid: {reason}")]
    Hook {
        /// Its position in its list, from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// The declarations of the upstream MCP servers are invalid.
    #[error("invalid upstream MCP servers: {0}")]
    Upstreams(String),
    /// The definition of a built-in tool is invalid.
    #[error("the built-in tool \"{name}\" is invalid: {reason}")]
    Builtin {
        /// The name of the tool.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The folder of the workspace tools cannot be opened.
    #[error("cannot open the workspace {}: {source}", folder.display())]
    Workspace {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The tools folder cannot be read.
    #[error("cannot read the tools folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// An error returned by [`App::call`] for a call that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Too many calls are in flight.
    #[error("too many calls are in flight")]
    Overloaded,
    /// The service is shutting down.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The call could not be recorded.
    #[error("the call could not be recorded: the database is unavailable")]
    NotRecorded,
}

/// A builder of an [`App`].
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

/// The running service without its HTTP server.
#[derive(Debug)]
pub struct App {
    /// The settings.
    pub config: Config,
    /// The engine, which runs calls.
    pub engine: Arc<Engine>,
    /// The store of the default tenant: calls, events and statistics.
    pub store: Store,
    /// The operator's access, with all permissions.
    pub operator: Access,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// The bus that publishes committed events.
    pub bus: Bus,
    /// The clock.
    pub clock: Clock,
    /// The write path of calls.
    pub journal: Journal,
    /// The key that signs outgoing requests and the tokens of calls.
    pub signing_key: SigningKey,
    /// The addresses at which external tools report. The HTTP server sets the base once it listens.
    pub reporting: Reporting,
    /// Wakes the delivery of callbacks.
    pub callback_wakeup: Arc<Notify>,
    /// The encryption of preset values that are stored over the API.
    pub vault: Vault,
    /// The upstream MCP servers.
    pub upstreams: Arc<Upstreams>,
    /// The metrics.
    pub metrics: Metrics,
    /// The tracer.
    pub tracer: Tracer,
    /// The counts of callback deliveries.
    pub callback_counts: Arc<callbacks::Counts>,
    node: Arc<str>,
    background: CancellationToken,
    writer: JoinHandle<()>,
    heartbeat: JoinHandle<()>,
    callbacks: JoinHandle<()>,
    lock: Option<ServerLock>,
}

impl Builder {
    /// Adds a tool, or replaces the built-in tool of the same name.
    #[must_use]
    pub fn tool(mut self, tool: BuiltinTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Wraps every tool in a tower layer, outside of the layers of the service.
    #[must_use]
    pub fn wrap(mut self, layer: StackLayer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Adds a hook around calls.
    #[must_use]
    pub fn hook(mut self, hook: RustHook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Sets the source of time and ids. Defaults to the machine's clock and random ids.
    #[must_use]
    pub fn clock(self, clock: Clock, ids: IdGenerator) -> Self {
        Self { clock, ids, ..self }
    }

    /// Sets the source of secrets. Defaults to the environment.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Marks the app as a command-line client of a database that a service may use at the same time. It adopts no
    /// calls, deletes no expired data, and takes no server lock.
    #[must_use]
    pub fn command_line(self) -> Self {
        Self { is_command_line: true, ..self }
    }

    /// Opens the database, migrates it, loads the tools, and starts the background tasks.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, or a resource cannot be opened.
    pub async fn start(self) -> Result<App, StartError> {
        let Self { config, tools, layers, hooks, clock, ids, secrets, is_command_line } = self;
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
        // The HTTP client above installs what this client needs.
        let tracer = Tracer::new(&config.telemetry).map_err(StartError::Telemetry)?;
        let metrics = Metrics::default();
        let hooks = hooks_of(&config, hooks, &client, &signing_key, &clock, &ids)?;
        let catalogs = SharedCatalogs::default();
        let discovery = if config.tools.discovery { discovery::tools(&catalogs) } else { Vec::new() };
        let read = BuiltinTool::new(builtin::ReadResult::new(stores.clone()));
        let system = system::tools(&stores, &clock, background::manageable_groups(&catalogs));
        let ProcessConfig { registration, helper, user, limits } = &config.process;
        let processes = Processes::new(helper, *registration, *limits, secrets.clone());
        let processes = processes.with_user(user).map_err(StartError::ProcessUser)?;
        let given = from_config::tools(&config, &client, &processes)?;
        let builtins = builtin::standard(&clock).into_iter().chain([read]).chain(given);
        let builtins = builtins.chain(discovery).chain(system).chain(tools).collect();
        let servers = Servers::default();
        let server_context = ServerContext {
            client: client.clone(),
            processes: processes.clone(),
            secrets: secrets.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            pace: from_config::server_timing(&config.mcp_servers),
            metrics: metrics.clone(),
        };
        let entries = EntryBuilder::new(builtins, client.clone(), layers)
            .processes(processes)
            .servers(servers.clone())
            .name_separator(config.mcp.name_separator.clone());
        let registry = Registry::new(entries, clock.clone(), catalogs)
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
        let upstreams =
            Upstreams::new(declarations, servers, server_context, registry.clone(), store.clone(), vault.clone());
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
        let callback_wakeup = Arc::<Notify>::default();
        let callbacks = Callbacks::new(stores.clone(), client, signing_key.clone(), clock.clone());
        let callback_counts = callbacks.counts();
        let callbacks = tokio::spawn(callbacks.run(callback_wakeup.clone(), background.clone()));
        let settings = Settings {
            node: node.clone(),
            limits: config.limits,
            store_patience: Duration::from_millis(config.store.patience_ms),
            room_kib: config.server.max_in_flight_mib * 1024,
            rush: from_config::admission_control(&config.server),
            rates: from_config::rates(&config),
            max_queued: config.queue.max_length,
            max_running: config.queue.max_running,
            silence: Duration::from_millis(config.streams.silence_ms),
            session_idle_ms: config.sessions.idle_ms,
            pause: PauseRule { after_timeouts: config.pause.after_timeouts, cooldown_ms: config.pause.cooldown_ms },
            results_bytes: config.cache.max_mib.saturating_mul(1024 * 1024),
            callbacks_kick: callback_wakeup.clone(),
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
        let key_limits = from_config::key_limits(&config);
        let is_insecure = config.auth.insecure_no_auth;
        let auth = Auth::open(stores.clone(), registry.clone(), clock.clone(), jwt, key_limits, is_insecure).await?;
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
        let heartbeat = tokio::spawn(engine.clone().live_on(lease, background.clone()));
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
            callback_wakeup,
            vault,
            upstreams,
            metrics,
            tracer,
            callback_counts,
            node,
            background,
            writer,
            heartbeat,
            callbacks,
            lock,
        })
    }
}

impl App {
    /// Returns a builder of an app with these settings.
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

    /// Runs a call as the operator and waits for its end.
    ///
    /// # Errors
    /// Returns an error if the call was not accepted or not recorded. A failed call is not an error; its outcome
    /// contains the failure.
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

    /// Waits for running calls (for at most `drain_ms`), writes pending changes, and closes the database.
    pub async fn stop(self) {
        self.engine.drain(Duration::from_millis(self.config.server.drain_ms)).await;
        self.background.cancel();
        self.upstreams.stop().await;
        self.engine.registry().instances().close().await;
        self.journal.close();
        // The wait for an unavailable database is limited. Changes that are lost were never acknowledged.
        let callbacks = self.callbacks.abort_handle();
        let last_writes = async { tokio::join!(self.writer, self.callbacks) };
        if tokio::time::timeout(LAST_WRITES, last_writes).await.is_err() {
            callbacks.abort();
            tracing::error!("the database is unavailable; dropping unacknowledged changes");
        }
        // After this, the next start or another node adopts the remaining calls immediately.
        let signed_off = tokio::time::timeout(LAST_WRITES, async {
            // A last heartbeat would register the node again.
            let _ = self.heartbeat.await;
            self.store.deregister(&self.node).await
        })
        .await;
        if !matches!(signed_off, Ok(Ok(()))) {
            tracing::warn!("the database is unavailable; remaining calls are adopted after the lease expires");
        }
        self.store.close().await;
        self.tracer.stop().await;
        drop(self.lock);
    }
}

/// Timeout for the last writes at shutdown.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Creates the hooks of the program and of the settings.
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

/// Returns a unique node name from the host, the process and the start time.
fn node_name(clock: &Clock, is_command_line: bool) -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "node" } else { host };
    let kind = if is_command_line { "cli-" } else { "" };
    let (started, number) = (clock.now().0 / 1000, STARTED.fetch_add(1, Ordering::Relaxed));
    format!("{kind}{host}-{}-{started:x}-{number}", std::process::id())
}
