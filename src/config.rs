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

/// The defaults with what they mean: the reference of all settings.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// All settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The HTTP server.
    pub server: Server,
    /// The database.
    pub store: StoreConfig,
    /// Calls that nobody waits for.
    pub queue: QueueConfig,
    /// This node among others.
    pub node: NodeConfig,
    /// Tools that time out again and again.
    pub pause: PauseConfig,
    /// Arguments that come piece by piece.
    pub streams: StreamsConfig,
    /// Who reads events.
    pub events: EventsConfig,
    /// What each tenant may have.
    pub tenants: TenantLimits,
    /// Results that are kept.
    pub cache: CacheConfig,
    /// What tools made by factories keep.
    pub instances: InstancesConfig,
    /// Sessions.
    pub sessions: SessionsConfig,
    /// How long what has happened is kept.
    pub retention: RetentionConfig,
    /// Who may do what.
    pub auth: AuthConfig,
    /// What tools there are.
    pub tools: Tools,
    /// What `http` tools may reach.
    pub egress: EgressConfig,
    /// The folder that the workspace tools work in.
    pub workspace: WorkspaceConfig,
    /// Tools that are programs on this machine.
    pub process: ProcessConfig,
    /// The Model Context Protocol at `/mcp`.
    pub mcp: McpConfig,
    /// How upstream MCP servers are kept.
    pub mcp_servers: McpServersConfig,
    /// Upstream MCP servers, by name. What they are given may be secrets.
    #[serde(default)]
    pub upstreams: SecretObjects,
    /// Secrets that tools are given.
    pub secrets: SecretsConfig,
    /// Objects for tools that name them, by name.
    #[serde(default)]
    pub context: SecretObjects,
    /// Bounds of calls.
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
    /// Where it listens.
    pub listen: String,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// How long a request body may take.
    pub body_timeout_ms: u64,
    /// How long the headers of a request may take.
    pub header_timeout_ms: u64,
    /// How long a connection may ask nothing.
    pub idle_timeout_ms: u64,
    /// How long a client may read nothing of what there is for it.
    pub write_timeout_ms: u64,
    /// Most connections at once.
    pub max_connections: usize,
    /// Largest head of a request.
    pub max_header_bytes: usize,
    /// Whose pages may use the service from a browser.
    #[serde(deserialize_with = "origins::read")]
    pub cors_origins: Vec<String>,
    /// Who may say where requests come from.
    #[serde(deserialize_with = "proxies::read")]
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// The header in which they do.
    pub forwarded_header: ForwardedHeader,
    /// Memory that requests in flight may hold.
    pub max_in_flight_mib: usize,
    /// Calls at once that wait to be recorded; 0 is no bound.
    pub max_backlog: usize,
    /// As many may wait in a rush.
    pub burst: usize,
    /// How long a rush may last.
    pub burst_ms: u64,
    /// Most calls of one request.
    pub max_batch_calls: usize,
    /// How long running calls may take to end after the first signal.
    pub drain_ms: u64,
    /// How tools outside reach it; empty for the address that it listens on.
    pub public_url: String,
    /// What outgoing requests are signed with; empty for the one that the database keeps.
    pub signing_secret: SecretString,
}

/// A setting that is never shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_empty() { "\"\"" } else { "…" })
    }
}

/// Settings of secrets that tools are given.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretsConfig {
    /// A file of `NAME=value` lines; empty for none.
    pub file: String,
    /// What values that are written over the API are sealed with: `id:base64,…`.
    pub encryption_keys: SecretString,
}

/// Objects by name that are never shown by `Debug`.
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
    /// Which one; empty for the file in the user's data folder.
    pub database_url: String,
    /// How long a caller waits while it is away.
    pub patience_ms: u64,
}

/// Settings of calls that nobody waits for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Most of them, running and waiting.
    pub max_length: usize,
    /// Most that run at once on one node.
    pub max_running: usize,
}

/// Settings of one node among others.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// How often it says that it lives.
    pub heartbeat_ms: u64,
    /// When it is taken for lost.
    pub lease_ms: u64,
}

/// Settings of tools that time out again and again.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseConfig {
    /// Timeouts in a row that pause a tool.
    pub after_timeouts: u32,
    /// How long it rests.
    pub cooldown_ms: u64,
}

/// Settings of arguments that come piece by piece.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsConfig {
    /// How long they may be silent.
    pub silence_ms: u64,
}

/// Settings of results that are kept.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory that they may take.
    pub max_mib: u64,
}

/// Settings of what tools made by factories keep.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstancesConfig {
    /// How long a session may do nothing with its own.
    pub idle_ms: u64,
}

/// Settings of sessions.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionsConfig {
    /// How long one may be idle before it is forgotten; 0 is for ever.
    pub idle_ms: u64,
}

/// Settings of who may do what.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Nobody is asked for a key, whoever can reach the service.
    pub insecure_no_auth: bool,
    /// Requests a minute of a key that has no bound of its own; 0 is no bound.
    pub rate: u32,
    /// Requests at once of such a key; 0 is no bound.
    pub concurrency: u32,
    /// Tokens of an issuer.
    pub jwt: JwtConfig,
}

/// Settings of what tools there are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// The folder; empty for none.
    pub dir: String,
    /// Whether there are `find_tools` and `call_tool`.
    pub discovery: bool,
    /// How often tools may be called, by name.
    #[serde(default)]
    pub limits: BTreeMap<String, ToolLimit>,
}

/// Settings of what `http` tools may reach.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressConfig {
    /// CIDRs, addresses or host names.
    pub allow: Vec<String>,
    /// Ports that are allowed although they are those of services that do not speak HTTP.
    #[serde(deserialize_with = "ports::read")]
    pub allow_ports: Vec<u16>,
    /// Whether there is `web_fetch`.
    pub web_fetch: WebFetchMode,
}

impl EgressConfig {
    /// Whether there is `web_fetch`.
    #[must_use]
    pub fn has_web_fetch(&self) -> bool {
        match self.web_fetch {
            WebFetchMode::On => true,
            WebFetchMode::Off => false,
            WebFetchMode::Auto => !self.allow.is_empty(),
        }
    }
}

/// When there is `web_fetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebFetchMode {
    /// Where something is allowed beside the public internet.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Settings of the workspace tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// The folder; empty for none.
    pub dir: String,
    /// Whether there is `bash`.
    pub bash: bool,
    /// Whether it may use the network.
    pub network: NetworkAccess,
    /// Whether it runs where its confinement cannot be enforced.
    pub sandbox: SandboxMode,
    /// What it may read beside the workspace and the system.
    pub read: Vec<String>,
}

/// Settings of tools that are programs on this machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Whether they may be registered over the API.
    pub registration: bool,
    /// The program `toolpost`, which keeps them; empty for this program itself.
    pub helper: String,
    /// The user that programs run as; empty for the service's own.
    pub user: String,
    /// What a program may use that declares nothing else.
    pub limits: ResourceLimits,
}

/// Settings of the Model Context Protocol at `/mcp`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// Hosts under which clients know the service, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, beside those of these hosts.
    pub allowed_origins: Vec<String>,
    /// What stands in place of each dot of a tool's name.
    pub name_separator: NameSeparator,
    /// Most sessions of clients before 2026-07-28.
    pub sessions: usize,
}

/// Settings of upstream MCP servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServersConfig {
    /// A JSON file with `mcpServers`; empty for none.
    pub file: String,
    /// How long the service's start waits for them.
    pub start_wait_ms: u64,
    /// How long one may take to say what it is.
    pub start_timeout_ms: u64,
    /// How long a call waits for one that is being started.
    pub call_wait_ms: u64,
    /// How often tools are listed again unasked.
    pub poll_ms: u64,
    /// The rest after the first failed start.
    pub initial_backoff_ms: u64,
    /// The longest rest.
    pub max_backoff_ms: u64,
    /// Failed starts in a row after which the tools are there no more.
    pub give_up_after: u32,
}

/// Settings of the log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// For people or programs.
    pub format: LogFormat,
    /// What is logged.
    pub filter: String,
}

/// Settings of traces.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Where they are sent (OTLP/HTTP); empty for nowhere.
    pub otlp_endpoint: String,
    /// What the service is called in them.
    pub service_name: String,
}

/// For whom the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// People.
    Text,
    /// Programs: one JSON object a line.
    Json,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the settings cannot be used: {0}")]
pub struct ConfigError(#[from] config::ConfigError);

impl Config {
    /// The defaults, a file if one is named, and `TOOLPOST__SECTION__KEY` from the environment.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown setting, or a value of the wrong type.
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

    /// The database's URL; the file in the user's data folder if none was set.
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
        #[expect(clippy::expect_used, reason = "the embedded file is a constant that a test reads")]
        built.expect("the embedded defaults are complete")
    }
}

/// Where the user's data belongs (XDG Base Directory Specification).
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
    fn a_file_changes_what_it_names_and_a_typo_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[limits]\ntimeout_ms = 5\n").unwrap();
        let config = Config::load(Some(&file)).unwrap();
        assert_eq!((config.limits.timeout_ms, config.limits.max_timeout_ms), (5, 1_800_000));
        std::fs::write(&file, "[limits]\ntimout_ms = 5\n").unwrap();
        assert!(Config::load(Some(&file)).unwrap_err().to_string().contains("timout_ms"));
    }

    #[test]
    fn illegal_name_separator_is_refused() {
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
    fn web_fetch_is_there_where_egress_is_on() {
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
    fn context_objects_are_read_with_their_types_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[context.user]\nName = \"Ada\"\nage = 36\n[context.user.home]\ncity = \"Bern\"\n")
            .unwrap();
        let config = Config::load(Some(&file)).unwrap();
        let user = serde_json::json!({"Name": "Ada", "age": 36, "home": {"city": "Bern"}});
        assert_eq!(Value::Object(config.context.0["user"].clone()), user);
        assert!(!format!("{config:?}").contains("Ada"), "{config:?}");
        std::fs::write(&file, "[context]\nuser = \"Ada\"\n").unwrap();
        assert!(Config::load(Some(&file)).is_err(), "a context object is an object");
    }

    #[test]
    fn the_signing_secret_is_read_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[server]\nsigning_secret = \"whsec_hidden\"\n").unwrap();
        let config = Config::load(Some(&file)).unwrap();
        assert_eq!(config.server.signing_secret.0, "whsec_hidden");
        assert!(!format!("{config:?}").contains("hidden"), "{config:?}");
    }
}
