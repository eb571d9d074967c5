//! Settings: the embedded defaults < a file < the environment < flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::jwt::JwtConfig;
use crate::domain::limits::ServerLimits;
use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};
use crate::domain::tenant::TenantLimits;
use crate::domain::{HookDefinition, NameSeparator};

mod bounds;
pub mod limits;
mod origins;
mod ports;
mod proxies;
pub mod reference;
mod retention;

pub use bounds::{EventsConfig, ToolLimit};
pub use proxies::ForwardedHeader;
pub use retention::RetentionConfig;

/// The default settings with their documentation. This file is the reference of all settings.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// All settings.
#[derive(Debug, Clone, Deserialize)]
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
    pub pause: PauseConfig,
    /// Streamed arguments.
    pub streams: StreamsConfig,
    /// Event streams.
    pub events: EventsConfig,
    /// Quotas of each tenant.
    pub tenants: TenantLimits,
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
    /// Hooks around calls.
    #[serde(default)]
    pub hooks: Vec<HookDefinition>,
    /// The log.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
}

/// Settings of the HTTP server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address that the service listens on.
    pub listen: String,
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// Timeout for receiving a request body.
    pub body_timeout_ms: u64,
    /// Timeout for receiving the headers of a request; 0 disables it.
    pub header_timeout_ms: u64,
    /// Timeout for an idle connection; 0 disables it.
    pub idle_timeout_ms: u64,
    /// Timeout for a client that does not read its response; 0 disables it.
    pub write_timeout_ms: u64,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum size of a request head.
    pub max_header_bytes: usize,
    /// Origins of web pages that may use the service from a browser.
    #[serde(deserialize_with = "origins::read")]
    pub cors_origins: Vec<String>,
    /// Proxies that may declare the address of a client.
    #[serde(deserialize_with = "proxies::read")]
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Header in which trusted proxies declare the client.
    pub forwarded_header: ForwardedHeader,
    /// Maximum memory of requests in flight.
    pub max_in_flight_mib: usize,
    /// Maximum number of calls waiting to be recorded; 0 disables the limit.
    pub max_backlog: usize,
    /// Maximum number of calls waiting to be recorded during a burst.
    pub burst: usize,
    /// Maximum duration of a burst.
    pub burst_ms: u64,
    /// Maximum number of calls in one request.
    pub max_batch_calls: usize,
    /// Time for running calls to end after the first signal.
    pub drain_ms: u64,
    /// Public address for external tools; empty for the address that the service listens on.
    pub public_url: String,
    /// Secret that signs outgoing requests; empty for the secret that the database stores.
    pub signing_secret: SecretString,
}

/// A secret setting, which `Debug` does not print.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_empty() { "\"\"" } else { "…" })
    }
}

/// Settings of secrets for tools.
#[derive(Debug, Clone, Deserialize)]
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

/// Settings of the database.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// URL of the database; empty for a SQLite file in the user's data folder.
    pub database_url: String,
    /// Timeout for requests that wait for an unavailable database.
    pub patience_ms: u64,
}

/// Settings of the queue of detached calls.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Maximum number of detached calls, queued and running.
    pub max_length: usize,
    /// Maximum number of detached calls that run at once on this node.
    pub max_running: usize,
}

/// Settings of the heartbeat and lease of this node.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Interval between heartbeats.
    pub heartbeat_ms: u64,
    /// Time without a heartbeat after which a node is considered lost.
    pub lease_ms: u64,
}

/// Settings of pauses of tools that time out repeatedly.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseConfig {
    /// Number of consecutive timeouts that pause a tool; 0 disables pauses.
    pub after_timeouts: u32,
    /// Duration of a pause.
    pub cooldown_ms: u64,
}

/// Settings of streamed arguments.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsConfig {
    /// Maximum time between two chunks.
    pub silence_ms: u64,
}

/// Settings of the result cache.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Maximum memory of cached results; 0 disables the cache.
    pub max_mib: u64,
}

/// Settings of per-session instances of tools that are created by factories.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstancesConfig {
    /// Timeout after which an unused instance is dropped.
    pub idle_ms: u64,
}

/// Settings of sessions.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsConfig {
    /// Time after which an idle session is deleted; 0 keeps sessions forever.
    pub idle_ms: u64,
}

/// Settings of authentication.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Disables authentication.
    pub insecure_no_auth: bool,
    /// Maximum number of requests per minute for a key without its own rate; 0 disables the limit.
    pub rate: u32,
    /// Maximum number of concurrent requests for a key without its own concurrency; 0 disables the limit.
    pub concurrency: u32,
    /// Tokens of an external issuer.
    pub jwt: JwtConfig,
}

/// Settings of the sources and rate limits of tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Folder of tool definitions; empty for none.
    pub dir: String,
    /// Adds the tools `find_tools` and `call_tool`.
    pub discovery: bool,
    /// Rate limits by tool name.
    #[serde(default)]
    pub limits: BTreeMap<String, ToolLimit>,
}

/// Settings of the hosts that `http` tools may reach.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressConfig {
    /// CIDRs, addresses and host names to allow in addition to the public internet.
    pub allow: Vec<String>,
    /// Ports to allow although they belong to other protocols than HTTP.
    #[serde(deserialize_with = "ports::read")]
    pub allow_ports: Vec<u16>,
    /// Availability of the tool `web_fetch`.
    pub web_fetch: WebFetchMode,
}

impl EgressConfig {
    /// Returns `true` if the tool `web_fetch` is available.
    #[must_use]
    pub fn has_web_fetch(&self) -> bool {
        match self.web_fetch {
            WebFetchMode::On => true,
            WebFetchMode::Off => false,
            WebFetchMode::Auto => !self.allow.is_empty(),
        }
    }
}

/// Availability of the tool `web_fetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebFetchMode {
    /// Available if `allow` is not empty.
    Auto,
    /// Available.
    On,
    /// Not available.
    Off,
}

/// Settings of the workspace tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// The folder; empty for none.
    pub dir: String,
    /// Enables the tool `bash`.
    pub bash: bool,
    /// Network access of `bash`.
    pub network: NetworkAccess,
    /// Confinement of `bash`.
    pub sandbox: SandboxMode,
    /// Further paths that `bash` may read.
    pub read: Vec<String>,
}

/// Settings of tools that are programs on this machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Allows registration of such tools over the API.
    pub registration: bool,
    /// Path of the program `toolpost`; empty for the running program.
    pub helper: String,
    /// User that programs run as; empty for the user of the service.
    pub user: String,
    /// Resource limits of programs that declare no `limits`.
    pub limits: ResourceLimits,
}

/// Settings of the Model Context Protocol at `/mcp`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// Host names under which clients reach `/mcp`, in addition to the names of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may use `/mcp`, in addition to the origins of these hosts.
    pub allowed_origins: Vec<String>,
    /// Replacement for each dot of a tool name.
    pub name_separator: NameSeparator,
    /// Maximum number of sessions for clients older than revision 2026-07-28.
    pub sessions: usize,
}

/// Settings of the lifecycle of upstream MCP servers.
#[derive(Debug, Clone, Deserialize)]
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
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Format of the log.
    pub format: LogFormat,
    /// Filter by level and module.
    pub filter: String,
}

/// Settings of traces.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Endpoint for traces (OTLP/HTTP); empty to disable them.
    pub otlp_endpoint: String,
    /// Service name in traces.
    pub service_name: String,
}

/// A format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
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
mod tests {
    use super::*;

    #[test]
    fn the_embedded_defaults_are_complete() {
        let config = Config::default();
        assert_eq!(config.limits.timeout_ms, 30_000);
        assert!(config.database_url().ends_with("toolpost/toolpost.db"));
    }

    #[test]
    fn file_overrides_defaults_and_unknown_setting_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[limits]\ntimeout_ms = 5\n").unwrap();
        let config = Config::load(Some(&file)).unwrap();
        assert_eq!((config.limits.timeout_ms, config.limits.max_timeout_ms), (5, 1_800_000));
        std::fs::write(&file, "[limits]\ntimout_ms = 5\n").unwrap();
        assert!(Config::load(Some(&file)).unwrap_err().to_string().contains("timout_ms"));
    }

    #[test]
    fn illegal_name_separator_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[mcp]\nname_separator = \"-\"\n").unwrap();
        assert_eq!(Config::load(Some(&file)).unwrap().mcp.name_separator.as_str(), "-");
        for illegal in ["", ".", "/", "123456789"] {
            std::fs::write(&file, format!("[mcp]\nname_separator = \"{illegal}\"\n")).unwrap();
            let message = Config::load(Some(&file)).unwrap_err().to_string();
            assert!(message.contains("name separator"), "{message}");
        }
    }

    #[test]
    fn web_fetch_follows_egress_by_default() {
        let mut egress = Config::default().egress;
        assert!(!egress.has_web_fetch());
        egress.allow = vec!["10.0.0.0/8".into()];
        assert!(egress.has_web_fetch());
        egress.web_fetch = WebFetchMode::Off;
        assert!(!egress.has_web_fetch());
        egress = EgressConfig { allow: Vec::new(), allow_ports: Vec::new(), web_fetch: WebFetchMode::On };
        assert!(egress.has_web_fetch());
    }

    #[test]
    fn context_objects_keep_types_and_are_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[context.user]\nName = \"Ada\"\nage = 36\n[context.user.home]\ncity = \"Bern\"\n")
            .unwrap();
        let config = Config::load(Some(&file)).unwrap();
        let user = serde_json::json!({"Name": "Ada", "age": 36, "home": {"city": "Bern"}});
        assert_eq!(Value::Object(config.context.0["user"].clone()), user);
        assert!(!format!("{config:?}").contains("Ada"), "{config:?}");
        std::fs::write(&file, "[context]\nuser = \"Ada\"\n").unwrap();
        assert!(Config::load(Some(&file)).is_err(), "a context object must be an object");
    }

    #[test]
    fn signing_secret_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[server]\nsigning_secret = \"whsec_hidden\"\n").unwrap();
        let config = Config::load(Some(&file)).unwrap();
        assert_eq!(config.server.signing_secret.0, "whsec_hidden");
        assert!(!format!("{config:?}").contains("hidden"), "{config:?}");
    }
}
