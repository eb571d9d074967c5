//! What can be asked for: servers are registered, started again, deleted, and changes of their tools accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Change, ChangeKind, MOST, Origin, UpstreamRequestError, Upstreams, reconcile, sealed, tool_name};
use crate::domain::{ExecutorSpec, ToolDefinition, Upstream};
use crate::executor::mcp;
use crate::registry::Snapshot;
use crate::store::upstreams::PinMode;

impl Upstreams {
    /// Starts the server of which a tool of this name among these could be, if there is one, and waits for it.
    pub async fn reach(&self, snapshot: &Snapshot, tool: &str, wait: Duration) {
        let of_definition = snapshot.find(tool).and_then(|entry| match &entry.declared.executor {
            ExecutorSpec::Mcp { server, .. } => Some(server.clone()),
            _ => None,
        });
        let name = of_definition.or_else(|| tool.split_once('.').map(|(server, _)| server.to_owned()));
        if let Some(server) = name.and_then(|name| self.servers.get(&name)) {
            server.start();
            let _ = tokio::time::timeout(wait, server.wait_first_attempt()).await;
        }
    }

    /// Puts up a server that was registered over the API, and starts it.
    ///
    /// # Errors
    /// Why not.
    pub async fn register(&self, name: &str, upstream: &Upstream) -> Result<(), UpstreamRequestError> {
        self.reload(true).await?;
        {
            let book = self.book();
            if book.held.contains_key(name) {
                return Err(UpstreamRequestError::NameTaken);
            }
            if book.held.values().filter(|held| held.origin == Origin::Api).count() >= MOST {
                return Err(UpstreamRequestError::TooMany);
            }
        }
        let stored = sealed::seal(name, upstream, &self.vault, self.store.tenant(), self.context.clock.now())
            .map_err(UpstreamRequestError::Vault)?;
        if !self.store.insert_upstream(&stored).await? {
            return Err(UpstreamRequestError::NameTaken);
        }
        self.reload(true).await?;
        Ok(())
    }

    /// Takes down a server that was registered over the API.
    ///
    /// # Errors
    /// Why not.
    pub async fn delete(&self, name: &str) -> Result<(), UpstreamRequestError> {
        if self.book().held.get(name).is_some_and(|held| held.origin == Origin::Config) {
            return Err(UpstreamRequestError::Declared);
        }
        if !self.store.delete_upstream(name).await? {
            return Err(UpstreamRequestError::NotFound);
        }
        self.reload(true).await?;
        reconcile::settle(&self.jobs, name).await;
        Ok(())
    }

    /// Starts a server again, at once. Calls that it is working on fail.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub fn restart(&self, name: &str) -> Result<(), UpstreamRequestError> {
        let book = self.book();
        let held = book.held.get(name).ok_or(UpstreamRequestError::NotFound)?;
        match &held.server {
            Some(server) => {
                server.start();
                server.restart();
                Ok(())
            }
            None => Err(UpstreamRequestError::Unusable(held.fault.clone().unwrap_or_default())),
        }
    }

    /// Accepts the definitions that tools have now; without names, of all that rest.
    ///
    /// # Errors
    /// If there is no such server or tool, or the database fails.
    pub async fn accept(&self, name: &str, tools: Option<&[String]>) -> Result<(), UpstreamRequestError> {
        let pins = {
            let book = self.book();
            let held = book.held.get(name).ok_or(UpstreamRequestError::NotFound)?;
            let offered = held.listed.iter().flat_map(|listed| &listed.tools);
            let hashes: BTreeMap<&str, String> =
                offered.map(|told| (told.name.as_str(), reconcile::hash(told))).collect();
            let wanted: Vec<String> = match tools {
                Some(tools) => tools.iter().map(|tool| tool_name(name, tool).to_owned()).collect(),
                None => held.withheld.iter().cloned().collect(),
            };
            let mut pins = Vec::with_capacity(wanted.len());
            for (place, tool) in wanted.into_iter().enumerate() {
                let Some(hash) = hashes.get(tool.as_str()).cloned() else {
                    return Err(UpstreamRequestError::NoSuchTool(place, tool));
                };
                pins.push((tool, hash));
            }
            pins
        };
        if !pins.is_empty() {
            let now = self.context.clock.now();
            self.store.pin(name, &pins, PinMode::Accepted, now).await?;
            for (tool, _) in pins {
                let change =
                    Change { tool, kind: ChangeKind::Accepted, members: Vec::new(), is_withheld: false, at: now };
                if let Some(held) = self.book().held.get_mut(name) {
                    held.remember(change);
                }
            }
            self.reload(true).await?;
            // Somebody else may have read it first: what follows from it is done when this is.
            reconcile::settle(&self.jobs, name).await;
        }
        Ok(())
    }

    /// Gives a definition that names a server's tool the words and schemas of that where it has none of its own.
    pub fn complete(&self, definition: &mut ToolDefinition) {
        let ExecutorSpec::Mcp { server, tool } = &definition.executor else { return };
        let listed = self.book().held.get(server).and_then(|held| held.listed.clone());
        let told = listed.iter().flat_map(|listed| &listed.tools).find(|told| told.name == *tool);
        let Some(Ok(theirs)) = told.map(|told| mcp::definition(server, told, definition.output_check)) else { return };
        if definition.input_schema.is_null() {
            definition.input_schema = theirs.input_schema;
            // A schema of one's own may have other results as well.
            definition.output_schema = definition.output_schema.take().or(theirs.output_schema);
        }
        if definition.description.is_empty() {
            definition.description = theirs.description;
        }
    }
}
