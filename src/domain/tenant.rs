//! To whom a row belongs.

use std::sync::Arc;

/// The owner of tools, calls and stats. There is one, `default`, until keys name others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The tenant's name as it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, to be shared.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl Default for Tenant {
    fn default() -> Self {
        static DEFAULT: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from("default"));
        Self(DEFAULT.clone())
    }
}
