//! Construction of parts of the service from the settings.

use std::path::PathBuf;
use std::time::Duration;

use super::StartError;
use crate::auth::Defaults;
use crate::config::{Config, McpServersConfig, Server, WorkspaceConfig};
use crate::engine::{AdmissionControl, Rates};
use crate::executor::mcp::ServerTiming;
use crate::executor::signing_key::SigningKey;
use crate::executor::{HttpClient, Processes, Secrets, SecretsFile, Vault};
use crate::tool::BuiltinTool;
use crate::tool::web_fetch::WebFetch;
use crate::tool::workspace::{self, Shell, Workspace};
use crate::upstreams::Declarations;

/// Adds the secrets of the secrets file, if one is configured.
///
/// # Errors
/// Returns an error if the file cannot be read, or is invalid.
pub(super) fn secrets(secrets: Secrets, config: &Config) -> Result<Secrets, StartError> {
    let path = config.secrets.file.trim();
    if path.is_empty() {
        return Ok(secrets);
    }
    let file = PathBuf::from(path);
    let opened = SecretsFile::open(file.clone()).map_err(|reason| StartError::SecretsFile { file, reason })?;
    Ok(secrets.or_file(opened))
}

/// Returns the upstream servers declared in the settings.
///
/// # Errors
/// Returns an error if their file or a name is invalid.
pub(super) fn declarations(config: &Config) -> Result<Declarations, StartError> {
    Declarations::read(&config.upstreams.0, &config.mcp_servers.file).map_err(StartError::Upstreams)
}

/// Returns the timeouts and backoffs of upstream servers.
pub(super) fn server_timing(config: &McpServersConfig) -> ServerTiming {
    let ms = Duration::from_millis;
    ServerTiming {
        start: ms(config.start_timeout_ms.max(1)),
        wait: ms(config.call_wait_ms),
        poll: ms(config.poll_ms.max(100)),
        initial_backoff: ms(config.initial_backoff_ms.max(1)),
        max_backoff: ms(config.max_backoff_ms.max(1)),
        give_up_after: config.give_up_after.max(1),
    }
}

/// The id of the key that is derived from the signing secret.
const DERIVED: &str = "signing-secret";

/// Creates the vault from the configured keys. A key derived from the signing secret is the fallback, so that values
/// stored over the API are always encrypted.
///
/// # Errors
/// Returns an error if the keys are invalid.
pub(super) fn vault(config: &Config, signing_key: &SigningKey) -> Result<Vault, StartError> {
    let vault = Vault::parse(&config.secrets.encryption_keys.0).map_err(StartError::EncryptionKeys)?;
    Ok(vault.with_fallback_key(DERIVED, signing_key.derived("presets")))
}

/// Returns the default limits of keys.
pub(super) fn key_limits(config: &Config) -> Defaults {
    let streams = config.events.max_subscribers_per_key;
    Defaults { rate: config.auth.rate, concurrency: config.auth.concurrency, streams }
}

/// Creates the admission control for new calls.
pub(super) fn admission_control(config: &Server) -> AdmissionControl {
    AdmissionControl::new(config.max_backlog, config.burst, Duration::from_millis(config.burst_ms))
}

/// Creates the rate limits of tools.
pub(super) fn rates(config: &Config) -> Rates {
    Rates::new(config.tools.limits.iter().map(|(name, limit)| (name.clone(), limit.rate_per_minute)))
}

/// Returns the built-in tools that depend on the settings: the workspace tools and `web_fetch`.
///
/// # Errors
/// Returns an error if the workspace cannot be opened.
pub(super) fn tools(
    config: &Config,
    client: &HttpClient,
    processes: &Processes,
) -> Result<Vec<BuiltinTool>, StartError> {
    let mut tools = Vec::new();
    let WorkspaceConfig { dir, bash, network, sandbox, read } = &config.workspace;
    if !dir.is_empty() {
        let folder = PathBuf::from(dir);
        let opened = Workspace::open(&folder).map_err(|source| StartError::Workspace { folder, source })?;
        let read = read.iter().map(PathBuf::from).collect();
        let shell = bash.then(|| Shell { network: *network, sandbox: *sandbox, read });
        tools.extend(workspace::tools(&opened, shell, processes));
    }
    if config.egress.has_web_fetch() {
        tools.push(BuiltinTool::new(WebFetch::new(client.clone())));
    }
    Ok(tools)
}
