//! Where the values of secrets come from. A definition only ever names a secret.

use std::sync::Arc;

mod file;

pub use file::SecretsFile;

/// Prefix of the environment variable that holds a secret.
const PREFIX: &str = "TOOLPOST_SECRET_";

/// From a secret's name to its value.
type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Looks secrets up by name at the moment of use. Cheap to clone.
#[derive(Clone)]
pub struct Secrets(Arc<LookUp>);

impl Secrets {
    /// The secret `X` is the environment variable `TOOLPOST_SECRET_X`.
    #[must_use]
    pub fn from_env() -> Self {
        Self::new(|name| std::env::var(format!("{PREFIX}{name}")).ok())
    }

    /// These, and where there is none those of a file.
    #[must_use]
    pub fn or_file(self, file: SecretsFile) -> Self {
        Self::new(move |name| (self.0)(name).filter(|value| !value.is_empty()).or_else(|| file.get(name)))
    }

    /// Secrets from anywhere else.
    #[must_use]
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look_up))
    }

    /// The value of the secret `name`.
    ///
    /// # Errors
    /// A sentence that names the secret and says how the operator sets it. It never holds a value.
    pub fn get(&self, name: &str) -> Result<String, String> {
        (self.0)(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            format!("the secret \"{name}\" is not set; the operator of this service sets it as {PREFIX}{name}")
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secrets")
    }
}

/// Whether `name` can be part of an environment variable's name (and so be the name of a secret).
#[must_use]
pub fn is_valid_secret_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_secret_is_none_and_nothing_shows_a_value() {
        let secrets = Secrets::new(|name| Some(if name == "SET" { "value".into() } else { String::new() }));
        assert_eq!(secrets.get("SET").as_deref(), Ok("value"));
        assert!(secrets.get("EMPTY").unwrap_err().contains("TOOLPOST_SECRET_EMPTY"));
        assert_eq!(format!("{secrets:?}"), "Secrets");
        assert!(is_valid_secret_name("MAIL_API_KEY2"));
        assert!(!is_valid_secret_name("") && !is_valid_secret_name("A-B") && !is_valid_secret_name("A=B"));
    }
}
