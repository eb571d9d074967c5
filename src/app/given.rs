//! What the operator gives for tools to work with: secrets, and the keys that values are sealed with.

use std::path::PathBuf;

use super::StartError;
use crate::config::Config;
use crate::executor::{Secrets, SecretsFile, Vault};

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

/// The keys that the settings name.
///
/// # Errors
/// If they are none.
pub(super) fn vault(config: &Config) -> Result<Vault, StartError> {
    Vault::parse(&config.secrets.encryption_keys.0).map_err(StartError::EncryptionKeys)
}
