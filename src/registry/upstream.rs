//! The tools of upstream MCP servers.

use std::sync::Arc;

use super::entry::{Entry, Provenance};
use super::{Layer, Registry, check};
use crate::domain::{Source, ToolDefinition};

/// A tool as offered by its upstream server.
#[derive(Debug, Clone)]
pub struct UpstreamTool {
    /// The definition of the tool.
    pub definition: ToolDefinition,
    /// Whether the tool is quarantined, because it has changed and the change is not accepted yet.
    pub is_withheld: bool,
}

impl Registry {
    /// Replaces the tools of a server by the tools that it offers now. An unchanged tool keeps its compiled entry and
    /// its revision. Returns the names of invalid tools, each with the reason.
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
            let made = Provenance::of_change(before, Source::Mcp, now);
            match self.builder.make(definition, made) {
                Ok(entry) => drop(fresh.insert(name, Arc::new(entry.with_quarantine(is_withheld)))),
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

/// Returns `true` if a tool of this name belongs to the server. Names of servers contain no dot.
fn is_of(server: &str, name: &str) -> bool {
    name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'))
}
