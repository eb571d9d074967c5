//! What the operator gives for tools to work with: secrets, and the keys that values are sealed with.

use std::path::PathBuf;

use super::StartError;
use crate::config::Config;
use crate::executor::token::SigningKey;
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
