//! Construction of parts of the service from the settings.

use std::path::PathBuf;
use std::time::Duration;

use super::StartError;
use crate::config::{Config, McpServersConfig, ProcessConfig, WorkspaceConfig};
use crate::executor::mcp::ServerTiming;
use crate::executor::{HttpClient, Processes, Secrets, SecretsFile};
use crate::tool::BuiltinTool;
use crate::tool::web_fetch::WebFetch;
use crate::tool::workspace::{self, Shell, Workspace};

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
    let opened = SecretsFile::open(file.clone()).map_err(|reason| StartError::SecretsFile(file, reason))?;
    Ok(secrets.or_file(opened))
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

/// Returns the runner of programs.
///
/// # Errors
/// Returns an error if the configured user is invalid.
pub(super) fn processes(config: &ProcessConfig, secrets: &Secrets) -> Result<Processes, StartError> {
    let ProcessConfig { registration, helper, user, limits } = config;
    let processes = Processes::new(helper, *registration, *limits, secrets.clone());
    processes.with_user(user).map_err(StartError::ProcessUser)
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
        let opened = Workspace::open(&folder).map_err(|source| StartError::Workspace(folder, source))?;
        let read = read.iter().map(PathBuf::from).collect();
        let shell = bash.then(|| Shell { network: *network, sandbox: *sandbox, read });
        tools.extend(workspace::tools(&opened, shell, processes));
    }
    if config.egress.has_web_fetch() {
        tools.push(BuiltinTool::new(WebFetch(client.clone())));
    }
    Ok(tools)
}
