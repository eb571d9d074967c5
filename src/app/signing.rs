//! Which secret outgoing requests are signed with: the one that is set, or the one that the database keeps.

use super::StartError;
use crate::config::Config;
use crate::executor::signing_key::SigningKey;
use crate::store::{Store, StoreError};

/// The signing secret that the settings give, if they do.
///
/// # Errors
/// If it is none.
pub fn given_signing_secret(config: &Config) -> Result<Option<String>, StartError> {
    let text = config.server.signing_secret.0.trim();
    if text.is_empty() {
        return Ok(None);
    }
    SigningKey::parse(text).map_err(StartError::SigningSecret)?;
    Ok(Some(text.to_owned()))
}

/// The signing secret that the database keeps; made if there is none yet.
///
/// # Errors
/// If the database fails, or keeps something else under its name.
pub async fn kept_signing_secret(store: &Store) -> Result<String, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Randomness(error.to_string()))?;
    Ok(store.signing_secret(&SigningKey::text_of(&bytes)).await?)
}

/// The key of this service; `given` is what the settings say.
pub(super) async fn signing_key(given: Option<String>, store: &Store) -> Result<SigningKey, StartError> {
    let text = match given {
        Some(text) => text,
        None => kept_signing_secret(store).await?,
    };
    SigningKey::parse(&text).map_err(|error| StoreError::Corrupt(format!("the kept signing secret: {error}")).into())
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
    fn a_secret_that_is_none_is_refused_by_the_name_of_its_variable_and_not_repeated() {
        assert_eq!(given(" \n").unwrap(), None);
        let secret = SigningKey::text_of(&[7; 32]);
        assert_eq!(given(&format!("{secret}\n")).unwrap(), Some(secret));
        let error = given("whsec_tooshort").unwrap_err().to_string();
        assert!(error.starts_with("TOOLPOST_SIGNING_SECRET: ") && !error.contains("tooshort"), "{error}");
    }

    #[tokio::test]
    async fn the_secret_that_was_made_once_stays() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let made = kept_signing_secret(&store).await.unwrap();
        assert!(SigningKey::parse(&made).is_ok(), "{made}");
        assert_eq!(kept_signing_secret(&store).await.unwrap(), made);
        let other = kept_signing_secret(&Store::open("sqlite::memory:").await.unwrap()).await.unwrap();
        assert_ne!(other, made);
        // What is set comes first, and is not kept.
        let set = SigningKey::text_of(&[7; 32]);
        let key = signing_key(Some(set.clone()), &store).await.unwrap();
        assert_eq!(key.signature("id", 1, b""), SigningKey::parse(&set).unwrap().signature("id", 1, b""));
        assert_eq!(kept_signing_secret(&store).await.unwrap(), made);
    }
}
