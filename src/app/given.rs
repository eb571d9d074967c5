//! What the operator gives: secrets, the keys that values are sealed with, whose tokens count, a folder, the web.

use std::path::PathBuf;

use super::StartError;
use crate::auth::jwt::JwtSettings;
use crate::config::{Config, JwtConfig, WorkspaceConfig};
use crate::executor::token::SigningKey;
use crate::executor::{HttpClient, Processes, Secrets, SecretsFile, Vault};
use crate::tool::BuiltinTool;
use crate::tool::web_fetch::WebFetch;
use crate::tool::workspace::{self, Shell, Workspace};

/// The secrets, with those of the file that the settings name.
///
/// # Errors
/// If the file cannot be used.
pub(super) fn secrets(secrets: Secrets, config: &Config) -> Result<Secrets, StartError> {
    let path = config.secrets.file.trim();
    if path.is_empty() {
        return Ok(secrets);
    }
    let file = PathBuf::from(path);
    let opened = SecretsFile::open(file.clone()).map_err(|reason| StartError::SecretsFile { file, reason })?;
    Ok(secrets.or_file(opened))
}

/// The id of the key that follows from the signing secret.
const DERIVED: &str = "signing-secret";

/// The keys that the settings name; without any, one that follows from the signing secret, so that what is written over the
/// API is sealed all the same.
///
/// # Errors
/// If they are none.
pub(super) fn vault(config: &Config, signing_key: &SigningKey) -> Result<Vault, StartError> {
    let vault = Vault::parse(&config.secrets.encryption_keys.0).map_err(StartError::EncryptionKeys)?;
    Ok(vault.or_key(DERIVED, signing_key.derived("presets")))
}

/// Whose tokens count.
pub(super) fn jwt(config: &JwtConfig) -> JwtSettings {
    let JwtConfig { issuer, audience, jwks_url, algorithms, tenant_claim, scope_claim, leeway_s } = config.clone();
    JwtSettings { issuer, audience, jwks_url, algorithms, tenant_claim, scope_claim, leeway_s }
}

/// The built-in tools that are there because something was given: a workspace, or a way into the web.
///
/// # Errors
/// If the workspace cannot be used.
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
