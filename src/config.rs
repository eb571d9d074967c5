//! Settings: the embedded defaults < a file < the environment < flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::domain::caller::JwtConfig;
use crate::domain::limits::{PauseRule, ServerLimits};
use crate::domain::policy::PolicyDefinition;
pub use crate::domain::secret::SecretString;
use crate::domain::tenant::TenantLimits;
use crate::domain::{HookDefinition, McpLowering, NameSeparator};
use crate::telemetry;

mod calls;
pub mod limits;
pub mod reference;
mod server;
mod tools;

pub use calls::{ApprovalConfig, ExpressionsConfig, WorkersConfig};
pub use server::{ForwardedHeader, Server};
pub use tools::{EgressConfig, ProcessConfig, ToolLimit, Tools, WebFetchMode, WorkspaceConfig};

/// The default settings with their documentation. This file is the reference of all settings.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// The minimum retention. Idempotency keys are valid for one day, and callbacks are retried slightly longer; both need
/// their calls.
const MIN_RETENTION_MS: u64 = 2 * 24 * 60 * 60 * 1000;

/// All settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The HTTP server.
    pub server: Server,
    /// The database.
    pub store: StoreConfig,
    /// The queue of detached calls.
    pub queue: QueueConfig,
    /// Heartbeat and lease of this node.
    pub node: NodeConfig,
    /// Pauses of tools that time out repeatedly.
    pub pause: PauseRule,
    /// Streamed arguments.
    pub streams: StreamsConfig,
    /// Event streams.
    pub events: EventsConfig,
    /// Quotas of each tenant.
    pub tenants: TenantLimits,
    /// Approvals.
    pub approvals: ApprovalConfig,
    /// The evaluation of expressions.
    pub expressions: ExpressionsConfig,
    /// Worker programs.
    pub workers: WorkersConfig,
    /// The result cache.
    pub cache: CacheConfig,
    /// Per-session instances of tools that are created by factories.
    pub instances: InstancesConfig,
    /// Sessions.
    pub sessions: SessionsConfig,
    /// Retention of calls and events.
    pub retention: RetentionConfig,
    /// Authentication and rate limits.
    pub auth: AuthConfig,
    /// Sources and rate limits of tools.
    pub tools: Tools,
    /// The memory of registered tools.
    pub registry: RegistryConfig,
    /// Hosts that `http` tools may reach.
    pub egress: EgressConfig,
    /// The workspace tools.
    pub workspace: WorkspaceConfig,
    /// Tools that are programs on this machine.
    pub process: ProcessConfig,
    /// The Model Context Protocol at `/mcp`.
    pub mcp: McpConfig,
    /// Lifecycle of upstream MCP servers.
    pub mcp_servers: McpServersConfig,
    /// Upstream MCP servers by name. Their values can contain secrets.
    #[serde(default)]
    pub upstreams: SecretObjects,
    /// Secrets for tools.
    pub secrets: SecretsConfig,
    /// Context objects by name.
    #[serde(default)]
    pub context: SecretObjects,
    /// Default and maximum limits of calls.
    pub limits: ServerLimits,
    /// Policies of all tenants, which come before the stored ones.
    #[serde(default)]
    pub policies: Vec<PolicyDefinition>,
    /// Hooks around calls.
    #[serde(default)]
    pub hooks: Vec<HookDefinition>,
    /// The log.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
}

/// Settings of secrets for tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretsConfig {
    /// A file of `NAME=value` lines; empty for none.
    pub file: String,
    /// Keys that encrypt preset values stored over the API: `id:base64,…`.
    pub encryption_keys: SecretString,
}

/// Objects by name, which `Debug` does not print.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SecretObjects(pub BTreeMap<String, Map<String, Value>>);

impl std::fmt::Debug for SecretObjects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Shows the names alone.
impl Serialize for SecretObjects {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.keys())
    }
}

/// Settings of the database.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// URL of the database; empty for a SQLite file in the user's data folder.
    #[serde(serialize_with = "scheme")]
    pub database_url: String,
    /// Timeout for requests that wait for an unavailable database.
    pub patience_ms: u64,
    /// Time for which a starting service waits for a busy database.
    pub start_timeout_ms: u64,
    /// Maximum number of shards to which this node writes new calls.
    pub max_shards: usize,
}

/// Settings of the queue of detached calls.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Maximum number of detached calls, queued and running.
    pub max_length: usize,
    /// Maximum number of detached calls that run at once on this node.
    pub max_running: usize,
}

/// Settings of the heartbeat and lease of this node.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Interval between heartbeats.
    pub heartbeat_ms: u64,
    /// Time without a heartbeat after which a node is considered lost.
    pub lease_ms: u64,
    /// Interval between two polls for changes of other nodes.
    pub poll_ms: u64,
}

/// Settings of streamed arguments.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsConfig {
    /// Maximum time between two chunks.
    pub silence_ms: u64,
}

/// Settings of the memory of registered tools.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// Maximum memory of compiled tools and rendered lists in bytes; 0 disables the limit.
    pub compiled_bytes: usize,
}

/// Settings of the result cache.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Maximum memory of cached results; 0 disables the cache.
    pub max_mib: u64,
}

/// Settings of per-session instances of tools that are created by factories.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstancesConfig {
    /// Timeout after which an unused instance is dropped.
    pub idle_ms: u64,
}

/// Settings of event streams.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    /// Maximum number of open event streams.
    pub max_subscribers: usize,
    /// Maximum number of open event streams of one key or subject; 0 disables the limit.
    pub max_subscribers_per_key: usize,
}

/// Settings of sessions.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsConfig {
    /// Time after which an idle session is deleted; 0 keeps sessions forever.
    pub idle_ms: u64,
}

/// Settings of the retention of calls and events.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionConfig {
    /// Retention of calls after their end; 0 keeps them forever.
    #[serde(deserialize_with = "long_enough")]
    pub calls_ms: u64,
    /// Retention of progress reports after the end of their calls; 0 keeps them as long as the calls.
    #[serde(deserialize_with = "long_enough")]
    pub events_ms: u64,
    /// Approximate number of calls that one transaction deletes.
    pub batch: u32,
    /// Pause between two transactions.
    pub pause_ms: u64,
}

/// The URL can contain a password, so only its scheme is shown.
fn scheme<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(url.split_once(':').map_or("", |(scheme, _)| scheme))
}

fn long_enough<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        short if (1..MIN_RETENTION_MS).contains(&short) => {
            let message =
                format!("a retention of {short} ms is too short: use at least {MIN_RETENTION_MS} (two days), or 0");
            Err(serde::de::Error::custom(message))
        }
        enough => Ok(enough),
    }
}

/// Settings of authentication.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Disables authentication.
    pub insecure_no_auth: bool,
    /// Maximum number of requests per minute for a key without its own rate; 0 disables the limit.
    pub rate: u32,
    /// Maximum number of concurrent requests for a key without its own concurrency; 0 disables the limit.
    pub concurrency: u32,
    /// Maximum number of invalid keys and tokens per minute of one client address; 0 disables the limit.
    pub failures: u32,
    /// Tokens of an external issuer.
    pub jwt: JwtConfig,
}

/// Settings of the Model Context Protocol at `/mcp`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// Host names under which clients reach `/mcp`, in addition to the names of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may use `/mcp`, in addition to the origins of these hosts.
    pub allowed_origins: Vec<String>,
    /// Replacement for each dot of a tool name.
    pub name_separator: NameSeparator,
    /// How lists show schemas.
    pub lowering: McpLowering,
    /// Maximum number of sessions for clients older than revision 2026-07-28.
    pub sessions: usize,
}

/// Settings of the lifecycle of upstream MCP servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServersConfig {
    /// A JSON file with `mcpServers`; empty for none.
    pub file: String,
    /// Maximum time that the start of the service waits for upstream servers.
    pub start_wait_ms: u64,
    /// Timeout for the initialization of a server.
    pub start_timeout_ms: u64,
    /// Maximum time that a call waits for a server that is starting.
    pub call_wait_ms: u64,
    /// Interval for listing tools without an announced change.
    pub poll_ms: u64,
    /// Backoff after the first failed start.
    pub initial_backoff_ms: u64,
    /// Maximum backoff.
    pub max_backoff_ms: u64,
    /// Number of consecutive failed starts after which the tools are removed.
    pub give_up_after: u32,
}

/// Settings of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Format of the log.
    pub format: LogFormat,
    /// Filter by level and module.
    pub filter: String,
}

impl Log {
    /// Starts the log of this process. An invalid filter is reported and replaced by `info`.
    pub fn start(&self) {
        let format = match self.format {
            LogFormat::Text => telemetry::LogFormat::Text,
            LogFormat::Json => telemetry::LogFormat::Json,
        };
        telemetry::start(format, &self.filter);
    }
}

/// Settings of traces.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Endpoint for traces (OTLP/HTTP); empty to disable them.
    pub otlp_endpoint: String,
    /// Service name in traces.
    pub service_name: String,
}

/// A format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// An error in the settings: an unreadable file, an unknown setting, or an invalid value.
#[derive(Debug, thiserror::Error)]
#[error("invalid settings: {0}")]
pub struct ConfigError(#[from] config::ConfigError);

impl Config {
    /// Loads the settings: the defaults, overridden by `file`, overridden by `TOOLPOST__SECTION__KEY` in the
    /// environment.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, a setting is unknown, or a value is invalid.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let mut builder = Self::defaults_source();
        if let Some(file) = file {
            builder = builder.add_source(config::File::from(file).format(config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix("TOOLPOST")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .list_separator(",")
            .with_list_parse_key("egress.allow")
            .with_list_parse_key("egress.allow_ports")
            .with_list_parse_key("server.cors_origins")
            .with_list_parse_key("server.trusted_proxies")
            .with_list_parse_key("mcp.allowed_hosts")
            .with_list_parse_key("mcp.allowed_origins")
            .with_list_parse_key("auth.jwt.algorithms")
            .with_list_parse_key("workspace.read");
        Ok(builder.add_source(environment).build()?.try_deserialize()?)
    }

    fn defaults_source() -> config::ConfigBuilder<config::builder::DefaultState> {
        config::Config::builder().add_source(config::File::from_str(DEFAULTS, config::FileFormat::Toml))
    }

    /// Returns the URL of the database. The default is a SQLite file in the user's data folder.
    #[must_use]
    pub fn database_url(&self) -> String {
        if !self.store.database_url.is_empty() {
            return self.store.database_url.clone();
        }
        format!("sqlite://{}", data_folder().join("toolpost.db").display())
    }
}

impl Default for Config {
    fn default() -> Self {
        let built = Self::defaults_source().build().and_then(config::Config::try_deserialize);
        #[expect(clippy::expect_used, reason = "a unit test loads the embedded file")]
        built.expect("the embedded defaults are complete")
    }
}

/// Returns the folder for the user's data (XDG Base Directory Specification).
fn data_folder() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("toolpost")
}

#[cfg(test)]
mod tests;
