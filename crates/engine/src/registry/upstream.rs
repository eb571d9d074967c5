//! The tools of upstream MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::declared::DeclaredDefinition;
use super::entry::Provenance;
use super::{Registry, ToolRecord, check, record_of};
use toolpost_core::domain::{Source, ToolDefinition};

/// A tool as offered by its upstream server.
#[derive(Debug, Clone)]
pub struct UpstreamTool {
    /// The definition of the tool.
    pub definition: ToolDefinition,
    /// Whether the tool is quarantined, because it has changed and the change is not accepted yet.
    pub is_withheld: bool,
}

impl Registry {
    /// Replaces the tools of a server by the tools that it offers now. An unchanged tool keeps its record and its
    /// revision. Returns the names of invalid tools, each with the reason.
    pub fn show_upstream(&self, server: &str, offered: Vec<UpstreamTool>) -> Vec<(String, String)> {
        let old = self.of_upstream(server);
        let (mut fresh, mut refused) = (BTreeMap::new(), Vec::new());
        let now = self.clock.now();
        for UpstreamTool { definition, is_withheld } in offered {
            let before = old.get(definition.name.as_str());
            let declared = match DeclaredDefinition::of(&definition) {
                Ok(declared) => declared,
                Err(error) => {
                    refused.push((definition.name, error.to_string()));
                    continue;
                }
            };
            let is_same =
                |record: &&Arc<ToolRecord>| record.is_quarantined == is_withheld && record.text().is(&declared);
            if let Some(same) = before.filter(is_same) {
                fresh.insert(same.name.clone(), same.clone());
                continue;
            }
            let made = Provenance::of_change(before.map(|before| before.made), Source::Mcp, now);
            match record_of(&self.builder, &definition, declared, made) {
                Ok(record) => {
                    let record = record.with_quarantine(is_withheld);
                    drop(fresh.insert(record.name.clone(), Arc::new(record)));
                }
                Err(faults) => refused.push((definition.name, check::summary(&faults))),
            }
        }
        let is_same =
            |(name, tool): (&Arc<str>, &Arc<ToolRecord>)| old.get(name).is_some_and(|old| Arc::ptr_eq(old, tool));
        if fresh.len() != old.len() || !fresh.iter().all(is_same) {
            self.change(|layers, changed| layers.mcp.replace(fresh, |name| is_of(server, name), changed));
        }
        refused
    }

    fn of_upstream(&self, server: &str) -> BTreeMap<Arc<str>, Arc<ToolRecord>> {
        let layers = self.layers();
        let own = layers.mcp.values().filter(|record| is_of(server, &record.name));
        own.map(|record| (record.name.clone(), record.clone())).collect()
    }
}

/// Returns `true` if a tool of this name belongs to the server. Names of servers contain no dot.
fn is_of(server: &str, name: &str) -> bool {
    name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'))
}
