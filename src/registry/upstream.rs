//! The tools of upstream MCP servers, which come and go with their servers.

use std::sync::Arc;

use super::entry::Entry;
use super::entry::Provenance;
use super::{Layer, Registry, check};
use crate::domain::{Source, ToolDefinition};

/// A tool as its server offers it.
#[derive(Debug, Clone)]
pub struct UpstreamTool {
    /// Its definition.
    pub definition: ToolDefinition,
    /// Nobody can call it: it has changed, and that was not accepted yet.
    pub is_withheld: bool,
}

impl Registry {
    /// Shows what a server offers now, in the place of what it did before; an unchanged tool keeps its compiled form and its
    /// revision. What is refused is left out: its name, and why.
    pub fn show_upstream(&self, server: &str, offered: Vec<UpstreamTool>) -> Vec<(String, String)> {
        let old = self.of_upstream(server);
        let (mut fresh, mut refused) = (Layer::new(), Vec::new());
        let now = self.clock.now();
        for UpstreamTool { definition, is_withheld } in offered {
            let name = definition.name.clone();
            let before = old.get(&name);
            let same = before.filter(|entry| entry.declared == definition && entry.is_quarantined == is_withheld);
            if let Some(same) = same {
                fresh.insert(name, same.clone());
                continue;
            }
            let made = Provenance {
                source: Source::Mcp,
                revision: before.map_or(1, |entry| entry.made.revision + 1),
                created_at: before.map_or(now, |entry| entry.made.created_at),
                updated_at: now,
            };
            match self.workshop.make(definition, made) {
                Ok(entry) => drop(fresh.insert(name, Arc::new(entry.withheld(is_withheld)))),
                Err(faults) => refused.push((name, check::summary(&faults))),
            }
        }
        let is_same = |(name, entry): (&String, &Arc<Entry>)| old.get(name).is_some_and(|old| Arc::ptr_eq(old, entry));
        if fresh.len() != old.len() || !fresh.iter().all(is_same) {
            self.change(|layers| {
                layers.mcp.retain(|name, _| !is_of(server, name));
                layers.mcp.extend(fresh);
            });
        }
        refused
    }

    fn of_upstream(&self, server: &str) -> Layer {
        let layers = self.layers();
        let own = layers.mcp.iter().filter(|(name, _)| is_of(server, name));
        own.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }
}

/// Whether a tool of this name is the server's: no server's name has a dot.
fn is_of(server: &str, name: &str) -> bool {
    name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'))
}
