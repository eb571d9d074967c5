//! The names of the tools of a snapshot in other formats, and the tools by these names.

use std::collections::HashMap;
use std::sync::Arc;

use super::name_map::NameMap;
use toolpost_core::domain::{NameSeparator, Naming, Vendor};
use toolpost_core::formats::alias;

/// Aliases of tools whose names some vendor rejects. A change of one tool changes only its own aliases, unless the
/// aliases of two tools collide.
#[derive(Debug, Clone, Default)]
pub(super) struct Aliases {
    separator: NameSeparator,
    by_name: NameMap<ToolAliases>,
    /// The names of the tools by alias.
    tools: NameMap<Arc<str>>,
    /// Whether some alias depends on other tools than its own.
    has_collisions: bool,
}

/// The aliases of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
struct ToolAliases {
    /// The name for vendors; `None` if all aliases are names of other tools.
    for_vendors: Option<Arc<str>>,
    /// The name over MCP.
    over_mcp: Option<Arc<str>>,
}

impl Aliases {
    /// Creates the aliases of these tools, in the order of their names.
    pub fn new<'a>(names: impl Iterator<Item = &'a Arc<str>> + Clone, separator: &NameSeparator) -> Self {
        let mut aliases = Self { separator: separator.clone(), ..Self::default() };
        let refused = alias::aliases(names.clone().map(|name| &**name));
        let joined = alias::over_mcp(names.clone().map(|name| &**name), &refused, separator.as_str());
        let shared = |name: &Arc<str>, of: &HashMap<&str, String>| of.get(&**name).map(|alias| Arc::from(&**alias));
        for name in names.filter(|name| !alias::is_taken_by(Vendor::Gemini, name)) {
            let own = ToolAliases { for_vendors: shared(name, &refused), over_mcp: shared(name, &joined) };
            aliases.has_collisions |= own != aliases.usual(name);
            aliases.set(name.clone(), own);
        }
        aliases
    }

    /// Returns the name of the tool with this alias.
    pub fn tool(&self, alias: &str) -> Option<&Arc<str>> {
        self.tools.get(alias)
    }

    /// Returns a tool's name in this naming, or `None` if it has no valid name there.
    pub fn name_for<'a>(&'a self, name: &'a str, naming: Naming) -> Option<&'a str> {
        let (vendor, is_for_mcp) = match naming {
            Naming::Own => return Some(name),
            Naming::Vendor(vendor) => (vendor, false),
            // MCP clients pass names on to any vendor, and Gemini has the narrowest rule.
            Naming::Mcp => (Vendor::Gemini, true),
        };
        if alias::is_taken_by(vendor, name) {
            return Some(name);
        }
        let aliases = self.by_name.get(name)?;
        if is_for_mcp { aliases.over_mcp.as_deref() } else { aliases.for_vendors.as_deref() }
    }

    /// Adds a new tool. Returns `false` if it could change the aliases of other tools; all of them must then be created
    /// again. `is_name` tells whether a tool has a name.
    pub fn add(&mut self, name: &Arc<str>, is_name: impl Fn(&str) -> bool) -> bool {
        if self.has_collisions || self.tools.get(name).is_some() {
            return false;
        }
        if alias::is_taken_by(Vendor::Gemini, name) {
            return true;
        }
        let own = self.usual(name);
        let mut all = own.for_vendors.iter().chain(&own.over_mcp);
        if all.any(|alias| is_name(alias) || self.tools.get(alias).is_some()) {
            return false;
        }
        self.set(name.clone(), own);
        true
    }

    /// Removes a tool. Returns `false` if the aliases of all tools must be created again.
    pub fn remove(&mut self, name: &str) -> bool {
        let own = self.by_name.remove(name).unwrap_or_default();
        for alias in own.for_vendors.iter().chain(&own.over_mcp) {
            self.tools.remove(alias);
        }
        !self.has_collisions
    }

    /// Returns the aliases of a rejected name if no other tool interferes.
    fn usual(&self, name: &str) -> ToolAliases {
        let for_vendors: Arc<str> = alias::usual(name).into();
        let over_mcp = alias::joined(name, self.separator.as_str());
        let over_mcp = over_mcp.map_or_else(|| for_vendors.clone(), Arc::from);
        ToolAliases { for_vendors: Some(for_vendors), over_mcp: Some(over_mcp) }
    }

    fn set(&mut self, name: Arc<str>, own: ToolAliases) {
        for alias in own.for_vendors.iter().chain(&own.over_mcp) {
            self.tools.insert(alias.clone(), name.clone());
        }
        self.by_name.insert(name, own);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Names with few distinct aliases, so that many collide.
    fn names() -> impl Strategy<Value = Vec<(bool, String)>> {
        let name =
            prop_oneof!["[ab]{1,2}", "[ab][._]{1,2}[ab]", "9[ab]", Just(alias::usual("a.b")), Just("a__b".into())];
        prop::collection::vec((any::<bool>(), name), 0..24)
    }

    proptest! {
        #[test]
        fn changed_aliases_equal_new_ones(changes in names()) {
            let separator = NameSeparator::default();
            let (mut all, mut aliases) = (BTreeSet::<Arc<str>>::new(), Aliases::new(std::iter::empty(), &separator));
            for (adds, name) in changes {
                let name: Arc<str> = name.into();
                let is_valid = match (adds, all.contains(&name)) {
                    (true, false) => aliases.add(&name, |other| all.contains(other)),
                    (false, true) => aliases.remove(&name),
                    _ => continue,
                };
                let _ = if adds { all.insert(name) } else { all.remove(&name) };
                let new = Aliases::new(all.iter(), &separator);
                if !is_valid {
                    aliases = new.clone();
                }
                for name in &all {
                    let vendors = [Vendor::OpenAi, Vendor::Gemini].map(Naming::Vendor);
                    for naming in [Naming::Own, Naming::Mcp].into_iter().chain(vendors) {
                        let shown = aliases.name_for(name, naming);
                        prop_assert_eq!(shown, new.name_for(name, naming));
                        let alias = shown.filter(|shown| **shown != **name);
                        prop_assert!(alias.is_none_or(|alias| aliases.tool(alias) == Some(name)));
                    }
                }
                prop_assert_eq!(aliases.tools.len(), new.tools.len());
            }
        }
    }
}
