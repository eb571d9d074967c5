//! To whom a row belongs.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

/// Longest name of a tenant, in bytes.
pub const LONGEST_NAME: usize = 128;

/// The owner of tools, calls and stats. Whoever needs no key is `default`, the operator's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

static DEFAULT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("default"));

impl Tenant {
    /// The tenant of this name; `None` if no tenant can have it: it has 1 to 128 characters, none of them a control.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_name = (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        is_name.then(|| Self::stored(name))
    }

    /// The tenant whose name stands in a row.
    #[must_use]
    pub fn stored(name: &str) -> Self {
        if name == &**DEFAULT { Self::default() } else { Self(name.into()) }
    }

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

    /// Whether it is the operator's own.
    #[must_use]
    pub fn is_default(&self) -> bool {
        Arc::ptr_eq(&self.0, &DEFAULT) || *self.0 == **DEFAULT
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self(DEFAULT.clone())
    }
}

/// How much each tenant may have at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Tools that were registered over the API.
    pub max_tools: u32,
    /// Groups that were made over the API.
    pub max_groups: u32,
    /// Hooks that were registered over the API.
    pub max_hooks: u32,
    /// Sessions that are not forgotten.
    pub max_sessions: u32,
    /// Keys that are not revoked.
    pub max_keys: u32,
}

/// Whatever they like.
impl Default for TenantLimits {
    fn default() -> Self {
        let most = u32::MAX;
        Self { max_tools: most, max_groups: most, max_hooks: most, max_sessions: most, max_keys: most }
    }
}

/// Something of which a tenant has only so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaResource {
    /// A registered tool.
    Tool,
    /// A group of tools.
    Group,
    /// A registered hook.
    Hook,
    /// A session.
    Session,
    /// An API key.
    Key,
}

impl QuotaResource {
    /// Several of them, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Tool => "registered tools",
            Self::Group => "groups of tools",
            Self::Hook => "registered hooks",
            Self::Session => "sessions",
            Self::Key => "keys",
        }
    }
}

impl TenantLimits {
    /// Most of these.
    #[must_use]
    pub fn most(&self, what: QuotaResource) -> u32 {
        match what {
            QuotaResource::Tool => self.max_tools,
            QuotaResource::Group => self.max_groups,
            QuotaResource::Hook => self.max_hooks,
            QuotaResource::Session => self.max_sessions,
            QuotaResource::Key => self.max_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_has_no_controls() {
        assert_eq!(Tenant::named("acme|eu 1").unwrap().as_str(), "acme|eu 1");
        for bad in ["", "a\0b", "a\nb", &"x".repeat(129)] {
            assert_eq!(Tenant::named(bad), None);
        }
        assert!(Tenant::named("default").unwrap().is_default() && !Tenant::stored("other").is_default());
    }
}
