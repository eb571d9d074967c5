//! What the operator gives for tools to work with: secrets, and the keys that values are sealed with.

use std::path::PathBuf;
use std::time::Duration;

use super::StartError;
use crate::config::{Config, McpServersConfig};
use crate::executor::mcp::Pace;
use crate::executor::token::SigningKey;
use crate::executor::{Secrets, SecretsFile, Vault};
use crate::upstreams::Declarations;

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

/// The upstream servers that the settings declare.
///
/// # Errors
/// What is wrong with their file, or their names.
pub(super) fn declarations(config: &Config) -> Result<Declarations, StartError> {
    Declarations::read(&config.upstreams.0, &config.mcp_servers.file).map_err(StartError::Upstreams)
}

/// The clocks of upstream servers.
pub(super) fn pace(config: &McpServersConfig) -> Pace {
    let ms = Duration::from_millis;
    Pace {
        start: ms(config.start_timeout_ms.max(1)),
        wait: ms(config.call_wait_ms),
        poll: ms(config.poll_ms.max(100)),
        initial_backoff: ms(config.initial_backoff_ms.max(1)),
        max_backoff: ms(config.max_backoff_ms.max(1)),
        give_up_after: config.give_up_after.max(1),
    }
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
