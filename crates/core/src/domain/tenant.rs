//! Tenants, their quotas and the resources that the quotas count.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

/// Maximum length of a tenant's name, in characters.
pub const LONGEST_NAME: usize = 128;

/// The owner of keys, tools, sessions and calls. The operator's tenant is `default`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Tenant(Arc<str>);

static DEFAULT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("default"));

impl Tenant {
    /// Returns the tenant of this name. Returns `None` unless the name has 1 to 128 characters without control
    /// characters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_name = (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        is_name.then(|| Self::stored(name))
    }

    /// Returns the tenant of a name from the database, without checking it.
    #[must_use]
    pub fn stored(name: &str) -> Self {
        if name == &**DEFAULT { Self::default() } else { Self(name.into()) }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a shared handle to the name.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Returns `true` if this is the operator's tenant.
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

/// The quotas of each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Maximum number of tools that are registered over the API.
    pub max_tools: u32,
    /// Maximum number of groups that are created over the API.
    pub max_groups: u32,
    /// Maximum number of hooks that are registered over the API.
    pub max_hooks: u32,
    /// Maximum number of policies that are stored over the API.
    pub max_policies: u32,
    /// Maximum number of budgets.
    pub max_budgets: u32,
    /// Maximum number of sessions that are not deleted.
    pub max_sessions: u32,
    /// Maximum number of keys that are not revoked.
    pub max_keys: u32,
}

/// Sets no quotas.
impl Default for TenantLimits {
    fn default() -> Self {
        let max = u32::MAX;
        Self {
            max_tools: max,
            max_groups: max,
            max_hooks: max,
            max_policies: max,
            max_budgets: max,
            max_sessions: max,
            max_keys: max,
        }
    }
}

/// A resource that is limited by a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaResource {
    /// A registered tool.
    Tool,
    /// A group of tools.
    Group,
    /// A registered hook.
    Hook,
    /// A stored policy.
    Policy,
    /// A budget.
    Budget,
    /// A session.
    Session,
    /// An API key.
    Key,
}

impl QuotaResource {
    /// Returns the plural name of the resource.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Tool => "registered tools",
            Self::Group => "groups of tools",
            Self::Hook => "registered hooks",
            Self::Policy => "policies",
            Self::Budget => "budgets",
            Self::Session => "sessions",
            Self::Key => "keys",
        }
    }
}

impl TenantLimits {
    /// Returns the quota of a resource.
    #[must_use]
    pub fn max_of(&self, what: QuotaResource) -> u32 {
        match what {
            QuotaResource::Tool => self.max_tools,
            QuotaResource::Group => self.max_groups,
            QuotaResource::Hook => self.max_hooks,
            QuotaResource::Policy => self.max_policies,
            QuotaResource::Budget => self.max_budgets,
            QuotaResource::Session => self.max_sessions,
            QuotaResource::Key => self.max_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_short_and_has_no_control_characters() {
        assert_eq!(Tenant::named("acme|eu 1").unwrap().as_str(), "acme|eu 1");
        for bad in ["", "a\0b", "a\nb", &"x".repeat(129)] {
            assert_eq!(Tenant::named(bad), None);
        }
        assert!(Tenant::named("default").unwrap().is_default() && !Tenant::stored("other").is_default());
    }
}
