//! Secrets in settings and declarations, and references to secrets of the service.

use serde::{Deserialize, Serialize, Serializer};

use super::schemas::SecretName;

/// A reference to a secret: `{"secret":"X"}` is the environment variable `TOOLPOST_SECRET_X`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    /// The name in upper case.
    #[schema(value_type = SecretName)]
    pub secret: String,
}

/// A secret, which `Debug` does not print.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_empty() { "\"\"" } else { "…" })
    }
}

/// Shows only whether there is a secret.
impl Serialize for SecretString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { "…" })
    }
}
