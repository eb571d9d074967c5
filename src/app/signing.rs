//! The secret that signs outgoing requests: from the settings, or from the database.

use super::StartError;
use crate::config::Config;
use crate::executor::signing_key::SigningKey;
use crate::store::{Store, StoreError};

/// Returns the signing secret of the settings, if it is set.
///
/// # Errors
/// Returns an error if the secret is invalid.
pub fn given_signing_secret(config: &Config) -> Result<Option<String>, StartError> {
    let text = config.server.signing_secret.0.trim();
    if text.is_empty() {
        return Ok(None);
    }
    SigningKey::parse(text).map_err(StartError::SigningSecret)?;
    Ok(Some(text.to_owned()))
}

/// Returns the signing secret of the database, and generates it on first use.
///
/// # Errors
/// Returns an error if the database fails, or stores an invalid secret.
pub async fn kept_signing_secret(store: &Store) -> Result<String, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Randomness(error.to_string()))?;
    Ok(store.signing_secret(&SigningKey::text_of(&bytes)).await?)
}

/// Returns the signing key of the service. `given` is the secret of the settings.
pub(super) async fn signing_key(given: Option<String>, store: &Store) -> Result<SigningKey, StartError> {
    let text = match given {
        Some(text) => text,
        None => kept_signing_secret(store).await?,
    };
    SigningKey::parse(&text).map_err(|error| StoreError::Corrupt(format!("the stored signing secret: {error}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecretString;

    fn given(text: &str) -> Result<Option<String>, StartError> {
        let mut config = Config::default();
        config.server.signing_secret = SecretString(text.to_owned());
        given_signing_secret(&config)
    }

    #[test]
    fn invalid_secret_is_rejected_without_quoting_it() {
        assert_eq!(given(" \n").unwrap(), None);
        let secret = SigningKey::text_of(&[7; 32]);
        assert_eq!(given(&format!("{secret}\n")).unwrap(), Some(secret));
        let error = given("whsec_tooshort").unwrap_err().to_string();
        assert!(error.starts_with("TOOLPOST_SIGNING_SECRET: ") && !error.contains("tooshort"), "{error}");
    }

    #[tokio::test]
    async fn generated_secret_is_kept() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let made = kept_signing_secret(&store).await.unwrap();
        assert!(SigningKey::parse(&made).is_ok(), "{made}");
        assert_eq!(kept_signing_secret(&store).await.unwrap(), made);
        let other = kept_signing_secret(&Store::open("sqlite::memory:").await.unwrap()).await.unwrap();
        assert_ne!(other, made);
        // A configured secret takes precedence, and is not stored.
        let set = SigningKey::text_of(&[7; 32]);
        let key = signing_key(Some(set.clone()), &store).await.unwrap();
        assert_eq!(key.signature("id", 1, b""), SigningKey::parse(&set).unwrap().signature("id", 1, b""));
        assert_eq!(kept_signing_secret(&store).await.unwrap(), made);
    }
}
