//! To whom a row belongs.

use std::sync::{Arc, LazyLock};

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
