//! Sources of secret values. Definitions contain only names of secrets.

use std::sync::Arc;

mod file;

pub use file::SecretsFile;

/// Prefix of the environment variable that holds a secret.
const PREFIX: &str = "TOOLPOST_SECRET_";

/// A function from a secret's name to its value.
type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A lookup of secrets by name at the moment of use. Cheap to clone.
#[derive(Clone)]
pub struct Secrets(Arc<LookUp>);

impl Secrets {
    /// Creates a lookup that reads the secret `X` from the environment variable `TOOLPOST_SECRET_X`.
    #[must_use]
    pub fn from_env() -> Self {
        Self::new(|name| std::env::var(format!("{PREFIX}{name}")).ok())
    }

    /// Adds a file as the fallback for secrets that are not set.
    #[must_use]
    pub fn or_file(self, file: SecretsFile) -> Self {
        Self::new(move |name| (self.0)(name).filter(|value| !value.is_empty()).or_else(|| file.get(name)))
    }

    /// Creates a lookup from a function.
    #[must_use]
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look_up))
    }

    /// Returns the value of the secret `name`.
    ///
    /// # Errors
    /// Returns a message that names the secret and explains how the operator sets it. It never contains a value.
    pub fn get(&self, name: &str) -> Result<String, String> {
        (self.0)(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            format!("the secret \"{name}\" is not set; the operator of this service can set it as {PREFIX}{name}")
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secrets")
    }
}

/// Returns `true` if `name` is a valid name of a secret, that is, a valid part of an environment variable's name.
#[must_use]
pub fn is_valid_secret_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_secret_counts_as_not_set() {
        let secrets = Secrets::new(|name| Some(if name == "SET" { "value".into() } else { String::new() }));
        assert_eq!(secrets.get("SET").as_deref(), Ok("value"));
        assert!(secrets.get("EMPTY").unwrap_err().contains("TOOLPOST_SECRET_EMPTY"));
        assert_eq!(format!("{secrets:?}"), "Secrets");
        assert!(is_valid_secret_name("MAIL_API_KEY2"));
        assert!(!is_valid_secret_name("") && !is_valid_secret_name("A-B") && !is_valid_secret_name("A=B"));
    }
}
