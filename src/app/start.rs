//! The start of a service: builds every part from the settings and connects the parts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::changes::{CallRules, Changes};
use super::{
    App, Builder, StackLayer, StartError, background, from_config, given_signing_secret, retention, shards, signing,
};
use crate::access::Access;
use crate::auth::{Auth, Defaults, Jwt};
use crate::budgets::Budgets;
use crate::callbacks::{self, Callbacks};
use crate::config::Config;
use crate::dispatch::Rates;
use crate::domain::{Clock, Cursor, IdGenerator, Shard, Tenant};
use crate::engine::{AdmissionControl, Engine, Lease, Settings, WorkerRules};
use crate::events::{Bus, remote};
use crate::executor::mcp::{ServerContext, Servers};
use crate::executor::signing_key::SigningKey;
use crate::executor::{Egress, HttpClient, Processes, Reporting, Secrets, Vault};
use crate::hooks::{Hooks, RustHook};
use crate::policies::{Bounds, Policies};
use crate::registry::builder::EntryBuilder;
use crate::registry::discovery::{self, SharedCatalogs};
use crate::registry::files::{self, ToolsFolder};
use crate::registry::{Registry, check, refresh};
use crate::store::journal::CommittedEvents;
use crate::store::lock::ServerLock;
use crate::store::{Db, Journal, Stores, partitions, timeout};
use crate::system_tools;
use crate::telemetry::{Metrics, Tracer};
use crate::tool::{BuiltinTool, builtin};
use crate::upstreams::{Declarations, Upstreams};

/// The id of the key that is derived from the signing secret.
const DERIVED: &str = "signing-secret";

/// The parts that most other parts are built from.
struct SharedParts {
    config: Config,
    clock: Clock,
    ids: IdGenerator,
    secrets: Secrets,
    stores: Stores,
    signing_key: SigningKey,
    vault: Vault,
    reporting: Reporting,
    client: HttpClient,
    tracer: Tracer,
    metrics: Metrics,
    background: CancellationToken,
    /// Whether the app is a command-line client of the database.
    is_command_line: bool,
    lock: Option<ServerLock>,
}

impl Builder {
    /// Opens the database, migrates it, loads the tools, and starts the background tasks.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, or a resource cannot be opened.
    pub async fn start(self) -> Result<App, StartError> {
        // A command has a user who waits for it.
        let limit = if self.is_command_line { 0 } else { self.config.store.start_timeout_ms };
        Box::pin(timeout::with_store_timeout(Duration::from_millis(limit), self.start_parts())).await
    }

    async fn start_parts(self) -> Result<App, StartError> {
        let Self { config, tools, layers, hooks, clock, ids, secrets, is_command_line } = self;
        let node: Arc<str> = node_name(&clock, is_command_line).into();
        let declarations = Declarations::read(&config.upstreams.0, &config.mcp_servers.file);
        let declarations = declarations.map_err(StartError::Upstreams)?;
        let parts = SharedParts::open(config, clock, ids, secrets, is_command_line).await?;
        let store = parts.stores.for_tenant(&Tenant::default());
        let rules = parts.call_rules(hooks, &node)?;
        let (processes, servers) = (from_config::processes(&parts.config.process, &parts.secrets)?, Servers::default());
        let registry = parts.registry(tools, layers, &processes, &servers)?;
        let context = parts.server_context(processes);
        let upstreams =
            Upstreams::new(declarations, servers, context, registry.clone(), store.clone(), parts.vault.clone());
        // Claiming a shard waits for the database's disk while the tools are read.
        let (newest, shard) =
            tokio::try_join!(parts.read_stored(&registry, &rules, &upstreams), parts.claim_shard(&node))?;
        parts.spawn_upkeep(&registry, &rules.2);
        let changes = parts.changes(&registry, &rules, &upstreams);
        let bus = Bus::default();
        bus.skip_to(&newest);
        let (journal, writer) = parts.journal(bus.clone(), &node, shard);
        let callback_wakeup = Arc::<Notify>::default();
        let (callback_counts, callbacks) = parts.spawn_callbacks(callback_wakeup.clone());
        let operator = Access::operator(&parts.stores, &registry);
        let auth = parts.auth(registry.clone()).await?;
        let settings = parts.engine_settings(node.clone(), callback_wakeup.clone(), rules);
        let (stores, clock, ids) = (parts.stores.clone(), parts.clock.clone(), parts.ids.clone());
        let engine = Arc::new(Engine::new(registry, journal.clone(), stores, clock, ids, settings));
        if !is_command_line {
            // Before calls of other nodes are adopted, whose tools may belong to these servers.
            upstreams.wait_first_attempt(Duration::from_millis(parts.config.mcp_servers.start_wait_ms)).await;
        }
        let heartbeat = parts.spawn_heartbeat(&engine).await?;
        parts.join_nodes(&node, changes).await;
        Ok(App {
            config: parts.config,
            engine,
            store,
            operator,
            auth,
            bus,
            clock: parts.clock,
            journal,
            signing_key: parts.signing_key,
            reporting: parts.reporting,
            callback_wakeup,
            vault: parts.vault,
            upstreams,
            metrics: parts.metrics,
            tracer: parts.tracer,
            callback_counts,
            node,
            background: parts.background,
            writer,
            heartbeat,
            callbacks,
            lock: parts.lock,
        })
    }
}

impl SharedParts {
    async fn open(
        config: Config,
        clock: Clock,
        ids: IdGenerator,
        secrets: Secrets,
        is_command_line: bool,
    ) -> Result<Self, StartError> {
        let given_secret = given_signing_secret(&config)?;
        let secrets = from_config::secrets(secrets, &config)?;
        let egress = Egress::new(&config.egress.allow).map_err(StartError::Egress)?;
        let egress = egress.with_ports(config.egress.allow_ports.iter().copied());
        // Reading root certificates and connecting to the database take about as long.
        let transport = tokio::task::spawn_blocking({
            let egress = egress.clone();
            move || HttpClient::transport(&egress)
        });
        let stores = Stores::open(&config.database_url()).await?.bounded(config.tenants);
        let lock = match Db::file(&config.database_url()) {
            Some(file) if !is_command_line => Some(ServerLock::take(&file).await?),
            _ => None,
        };
        let signing_key = signing::signing_key(given_secret, &stores.for_tenant(&Tenant::default())).await?;
        // A key derived from the signing secret is the fallback, so that values stored over the API are always
        // encrypted.
        let vault = Vault::parse(&config.secrets.encryption_keys.0).map_err(StartError::EncryptionKeys)?;
        let vault = vault.with_fallback_key(DERIVED, signing_key.derived("presets"));
        let reporting = Reporting::new(signing_key.clone());
        if !config.server.public_url.is_empty() {
            reporting.set_base(&config.server.public_url);
        }
        let transport = transport.await.map_err(|error| StartError::Client(error.to_string()))?;
        let transport = transport.map_err(StartError::Client)?;
        let client = HttpClient::over(transport, egress, secrets.clone(), clock.clone(), reporting.clone());
        // The HTTP client above installs what this client needs.
        let tracer = Tracer::new(&config.telemetry.otlp_endpoint, &config.telemetry.service_name)
            .map_err(StartError::Telemetry)?;
        Ok(Self {
            config,
            clock,
            ids,
            secrets,
            stores,
            signing_key,
            vault,
            reporting,
            client,
            tracer,
            metrics: Metrics::default(),
            background: CancellationToken::new(),
            is_command_line,
            lock,
        })
    }

    /// Creates the rules for calls: the hooks of the program, and the hooks and policies of the settings. Stored ones are
    /// added when they are read.
    fn call_rules(&self, own: Vec<RustHook>, node: &Arc<str>) -> Result<CallRules, StartError> {
        let expressions = &self.config.expressions;
        let max_bytes = expressions.max_memory_kib.saturating_mul(1024);
        let bounds = Bounds { max_steps: expressions.max_steps, max_bytes };
        let policies = Policies::new(&self.config.policies, bounds, self.clock.now());
        let policies = policies.map_err(|(name, error)| StartError::Policy(name, error))?;
        let budgets = Budgets::new(node.clone(), self.stores.clone(), self.clock.clone(), self.ids.clone());
        Ok((self.hooks(own)?, Arc::new(policies), Arc::new(budgets)))
    }

    /// Creates the hooks of the program and of the settings.
    fn hooks(&self, own: Vec<RustHook>) -> Result<Arc<Hooks>, StartError> {
        let (client, key, clock) = (self.client.clone(), self.signing_key.clone(), self.clock.clone());
        let hooks = Hooks::new(client, key, clock, self.ids.clone(), own, &self.config.hooks);
        hooks.map(Arc::new).map_err(|(index, faults)| {
            let faults: Vec<String> = faults.iter().map(|(pointer, fault)| format!("{pointer}: {fault}")).collect();
            StartError::Hook(index + 1, faults.join("; "))
        })
    }

    /// Creates the registry with the built-in tools and the tools folder.
    fn registry(
        &self,
        tools: Vec<BuiltinTool>,
        layers: Vec<StackLayer>,
        processes: &Processes,
        servers: &Servers,
    ) -> Result<Arc<Registry>, StartError> {
        let catalogs = SharedCatalogs::default();
        let mut builtins = builtin::standard(&self.clock);
        builtins.push(BuiltinTool::new(system_tools::ReadResult(self.stores.clone())));
        builtins.extend(from_config::tools(&self.config, &self.client, processes)?);
        if self.config.tools.discovery {
            builtins.extend(discovery::tools(&catalogs));
        }
        builtins.extend(system_tools::tools(&self.stores, &self.clock, background::manageable_groups(&catalogs)));
        builtins.extend(tools);
        let mut entries = EntryBuilder::new(builtins, self.client.clone(), layers)
            .with_compiled_bytes(self.config.registry.compiled_bytes);
        entries.processes = processes.clone();
        entries.servers = servers.clone();
        entries.name_separator = self.config.mcp.name_separator.clone();
        let registry = Registry::new(entries, self.clock.clone(), catalogs)
            .map_err(|(name, faults)| StartError::Builtin(name, check::summary(&faults)))?;
        let registry = Arc::new(registry);
        if !self.config.tools.dir.is_empty() {
            let folder = PathBuf::from(&self.config.tools.dir);
            let mut tools = ToolsFolder::new(folder.clone());
            let broken = tools.read(&registry).map_err(|source| StartError::Folder(folder.clone(), source))?;
            files::report(&folder, Ok(broken));
            tokio::spawn(files::watch(tools, registry.clone(), self.background.clone()));
        }
        Ok(registry)
    }

    /// Returns the parts that connections to upstream servers need.
    fn server_context(&self, processes: Processes) -> ServerContext {
        ServerContext {
            client: self.client.clone(),
            processes,
            secrets: self.secrets.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            timing: from_config::server_timing(&self.config.mcp_servers),
            metrics: Arc::new(self.metrics.clone()),
        }
    }

    /// Returns what follows the changes of other nodes.
    fn changes(&self, registry: &Arc<Registry>, rules: &CallRules, upstreams: &Arc<Upstreams>) -> Changes {
        let followed = (registry.clone(), upstreams.clone());
        Changes::new(self.stores.clone(), followed, rules.clone(), !self.is_command_line)
    }

    /// Starts the signals between nodes, and follows changes of other nodes.
    async fn join_nodes(&self, node: &Arc<str>, mut changes: Changes) {
        let changed = self.stores.signals().tools();
        // After the receivers exist, so that none misses the first signal.
        self.stores.signals().start(self.stores.db(), node.clone());
        // Other nodes wait for this one from its registration on. What they have acknowledged before is read here.
        changes.catch_up().await;
        tokio::spawn(changes.follow(changed, self.poll(), self.background.clone()));
    }

    /// Starts the tasks that release unused data.
    fn spawn_upkeep(&self, registry: &Arc<Registry>, budgets: &Arc<Budgets>) {
        let stop = || self.background.clone();
        if !self.is_command_line {
            tokio::spawn(refresh::run(registry.clone(), stop()));
        }
        tokio::spawn(background::fold_stats(self.stores.clone(), stop()));
        let wanted = self.stores.signals().budgets();
        tokio::spawn(background::return_budgets(budgets.clone(), wanted, stop()));
        let idle = Duration::from_millis(self.config.instances.idle_ms);
        tokio::spawn(background::end_idle_instances(registry.instances().clone(), idle, stop()));
        tokio::spawn(background::keep_metrics(self.metrics.clone(), stop()));
    }

    /// Returns the interval between two polls for changes of other nodes.
    fn poll(&self) -> Duration {
        Duration::from_millis(self.config.node.poll_ms.max(1))
    }

    /// Reads the stored tools, hooks, policies, budgets and upstream servers. Returns the position of the newest event of each shard.
    async fn read_stored(
        &self,
        registry: &Registry,
        (hooks, policies, budgets): &CallRules,
        upstreams: &Upstreams,
    ) -> Result<Cursor, StartError> {
        registry.reload(&self.stores.for_tenant(&Tenant::default())).await?;
        hooks.reload(&self.stores).await?;
        policies.reload(&self.stores).await?;
        budgets.reload().await?;
        upstreams.reload(!self.is_command_line).await?;
        Ok(self.stores.newest().await?)
    }

    /// Returns the shard for the calls of this node.
    async fn claim_shard(&self, node: &str) -> Result<Shard, StartError> {
        // Commands are short and share a shard.
        if self.is_command_line { Ok(Shard::default()) } else { Ok(self.stores.claim_shard(node).await?) }
    }

    /// Starts the journal, which publishes its commits on the bus.
    fn journal(&self, bus: Bus, node: &Arc<str>, shard: Shard) -> (Journal, JoinHandle<()>) {
        let metrics = self.metrics.clone();
        let (signals, published) = (self.stores.signals().clone(), bus.clone());
        let sink = Arc::new(move |committed: &CommittedEvents| {
            published.publish(committed);
            signals.notify_commits();
            metrics.committed(committed.changes(), committed.took, committed.ended());
        });
        let (db, clock, ids) = (self.stores.db().clone(), self.clock.clone(), self.ids.clone());
        let (journal, writer) = Journal::start(db, clock, ids, shard, sink);
        if !self.is_command_line {
            let follow = shards::add_while_slow(
                self.stores.clone(),
                journal.clone(),
                node.clone(),
                self.config.store.max_shards,
            );
            tokio::spawn(self.background.clone().run_until_cancelled_owned(follow));
            if matches!(self.stores.db(), Db::Postgres(_)) {
                let remote = remote::run(self.stores.clone(), bus, journal.clone(), self.poll());
                tokio::spawn(self.background.clone().run_until_cancelled_owned(remote));
            }
        }
        (journal, writer)
    }

    /// Starts the delivery of callbacks.
    fn spawn_callbacks(&self, wakeup: Arc<Notify>) -> (Arc<callbacks::Counts>, JoinHandle<()>) {
        let (stores, client) = (self.stores.clone(), self.client.clone());
        let callbacks = Callbacks::new(stores, client, self.signing_key.clone(), self.clock.clone());
        (callbacks.counts(), tokio::spawn(callbacks.run(wakeup, self.background.clone())))
    }

    /// Creates the authentication, and follows changes of keys.
    async fn auth(&self, registry: Arc<Registry>) -> Result<Arc<Auth>, StartError> {
        let Config { auth, events, .. } = &self.config;
        let jwt = Jwt::new(auth.jwt.clone(), self.clock.clone(), self.reporting.clone()).map_err(StartError::Issuer)?;
        let streams = events.max_subscribers_per_key;
        let limits = Defaults { rate: auth.rate, concurrency: auth.concurrency, streams, failures: auth.failures };
        let (stores, clock) = (self.stores.clone(), self.clock.clone());
        let auth = Arc::new(Auth::open(stores, registry, clock, jwt, limits, auth.insecure_no_auth).await?);
        let changed = self.stores.signals().keys();
        tokio::spawn(auth.clone().follow(changed, self.poll(), self.background.clone()));
        Ok(auth)
    }

    fn engine_settings(
        &self,
        node: Arc<str>,
        callbacks_due: Arc<Notify>,
        (hooks, policies, budgets): CallRules,
    ) -> Settings {
        let Config { server, store, queue, streams, sessions, cache, tools, .. } = &self.config;
        let rates = tools.limits.iter().map(|(name, limit)| (name.clone(), limit.rate_per_minute));
        Settings {
            node,
            limits: self.config.limits,
            store_timeout: Duration::from_millis(store.patience_ms),
            memory_kib: server.max_in_flight_mib * 1024,
            admission: AdmissionControl::new(server.max_backlog, server.burst, Duration::from_millis(server.burst_ms)),
            rates: Rates::new(rates),
            max_queued: queue.max_length,
            max_running: queue.max_running,
            approvals_url: Some(&*self.config.approvals.notify_url).filter(|url| !url.is_empty()).map(Arc::from),
            allows_self_approval: self.config.approvals.allow_self,
            silence: Duration::from_millis(streams.silence_ms),
            session_idle_ms: sessions.idle_ms,
            pause: self.config.pause,
            results_bytes: cache.max_mib.saturating_mul(1024 * 1024),
            callbacks_due,
            hooks,
            policies,
            budgets,
            secrets: self.secrets.clone(),
            vault: self.vault.clone(),
            context: self.config.context.0.clone().into(),
            metrics: self.metrics.clone(),
            tracer: self.tracer.clone(),
        }
    }

    /// Registers the node and starts its heartbeat. A service then also deletes expired data.
    async fn spawn_heartbeat(&self, engine: &Arc<Engine>) -> Result<JoinHandle<()>, StartError> {
        let Self { config, stores, clock, background, is_command_line, .. } = self;
        let lease = Lease {
            heartbeat: Duration::from_millis(config.node.heartbeat_ms.max(1)),
            lease: Duration::from_millis(config.node.lease_ms),
            poll: self.poll(),
            adopts_calls: !is_command_line,
            is_alone: matches!(stores.db(), Db::Sqlite(_)),
        };
        let is_registered = engine.sign_on(lease).await?;
        let heartbeat = tokio::spawn(engine.clone().live_on(lease, is_registered, background.clone()));
        tokio::spawn(engine.follow_others(lease.heartbeat, background.clone()));
        if !is_command_line {
            let poll = (!lease.is_alone).then_some(lease.heartbeat);
            let rules = WorkerRules { poll, forget_ms: config.workers.forget_ms };
            tokio::spawn(engine.serve_workers(rules, background.clone()));
            let idle = Duration::from_millis(config.sessions.idle_ms);
            tokio::spawn(engine.clone().keep_sessions(idle, background.clone()));
            let node = engine.node().clone();
            tokio::spawn(background::index_words(stores.clone(), node, clock.clone(), background.clone()));
            let width = partitions::width_for(config.retention.calls_ms);
            stores.create_partitions(clock.now(), width).await?;
            tokio::spawn(retention::create_partitions(stores.clone(), clock.clone(), width, background.clone()));
            tokio::spawn(retention::run(stores.clone(), clock.clone(), config.retention, background.clone()));
        }
        Ok(heartbeat)
    }
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
