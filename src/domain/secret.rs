//! References to secrets of the service in declarations.

use serde::{Deserialize, Serialize};

use super::schemas::SecretName;

/// A reference to a secret: `{"secret":"X"}` is the environment variable `TOOLPOST_SECRET_X`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    /// The name in upper case.
    #[schema(value_type = SecretName)]
    pub secret: String,
}
