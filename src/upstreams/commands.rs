//! The operations of the API: register, restart and delete servers, and accept changes of their tools.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Change, ChangeKind, MAX_SERVERS, Origin, UpstreamRequestError, Upstreams, reconcile, sealed, tool_name};
use crate::domain::{ExecutorSpec, ToolDefinition, Upstream};
use crate::executor::mcp;
use crate::registry::Snapshot;
use crate::store::upstreams::PinMode;

impl Upstreams {
    /// Starts the server of the named tool, if there is any, and waits for its first start, for at most `wait`.
    pub async fn reach(&self, snapshot: &Snapshot, tool: &str, wait: Duration) {
        let of_definition = snapshot.find(tool).and_then(|tool| match tool.declared().ok()?.executor {
            ExecutorSpec::Mcp { server, .. } => Some(server),
            _ => None,
        });
        let name = of_definition.or_else(|| tool.split_once('.').map(|(server, _)| server.to_owned()));
        if let Some(server) = name.and_then(|name| self.servers.get(&name)) {
            server.start();
            let _ = tokio::time::timeout(wait, server.wait_first_attempt()).await;
        }
    }

    /// Registers and starts a server.
    ///
    /// # Errors
    /// Returns an [`UpstreamRequestError`] if the name is taken, the limit is reached, the server cannot be sealed, or
    /// the database fails.
    pub async fn register(&self, name: &str, upstream: &Upstream) -> Result<(), UpstreamRequestError> {
        self.reload(true).await?;
        {
            let table = self.table();
            if table.records.contains_key(name) {
                return Err(UpstreamRequestError::NameTaken);
            }
            if table.records.values().filter(|record| record.origin == Origin::Api).count() >= MAX_SERVERS {
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

    /// Deletes a server that was registered over the API.
    ///
    /// # Errors
    /// Returns an [`UpstreamRequestError`] if the server is unknown or declared in the settings, or the database fails.
    pub async fn delete(&self, name: &str) -> Result<(), UpstreamRequestError> {
        if self.table().records.get(name).is_some_and(|record| record.origin == Origin::Config) {
            return Err(UpstreamRequestError::Declared);
        }
        if !self.store.delete_upstream(name).await? {
            return Err(UpstreamRequestError::NotFound);
        }
        self.reload(true).await?;
        reconcile::settle(&self.jobs, name).await;
        Ok(())
    }

    /// Restarts a server immediately. Its running calls fail.
    ///
    /// # Errors
    /// Returns an [`UpstreamRequestError`] if the server is unknown or its declaration is invalid.
    pub fn restart(&self, name: &str) -> Result<(), UpstreamRequestError> {
        let table = self.table();
        let record = table.records.get(name).ok_or(UpstreamRequestError::NotFound)?;
        match &record.server {
            Some(server) => {
                server.start();
                server.restart();
                Ok(())
            }
            None => Err(UpstreamRequestError::Unusable(record.fault.clone().unwrap_or_default())),
        }
    }

    /// Accepts the current definitions of the named tools, or of all quarantined tools.
    ///
    /// # Errors
    /// Returns an [`UpstreamRequestError`] if the server or a tool is unknown, or the database fails.
    pub async fn accept(&self, name: &str, tools: Option<&[String]>) -> Result<(), UpstreamRequestError> {
        let (pins, shown) = {
            let table = self.table();
            let record = table.records.get(name).ok_or(UpstreamRequestError::NotFound)?;
            let offered = record.listed.iter().flat_map(|listed| &listed.tools);
            let hashes: BTreeMap<&str, (&str, String)> =
                offered.map(|item| (item.name.as_str(), (item.shown.as_str(), reconcile::hash(item)))).collect();
            let renamed = record.listed.iter().flat_map(|listed| listed.renamed());
            let own: BTreeMap<&str, &str> = renamed.map(|item| (item.shown.as_str(), item.name.as_str())).collect();
            let at_server = |tool: &str| own.get(tool).copied().unwrap_or(tool).to_owned();
            let wanted: Vec<String> = match tools {
                Some(tools) => tools.iter().map(|tool| at_server(tool_name(name, tool))).collect(),
                None => record.quarantined.iter().cloned().collect(),
            };
            let (mut pins, mut shown_names) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
            for (index, tool) in wanted.into_iter().enumerate() {
                let Some((shown, hash)) = hashes.get(tool.as_str()).cloned() else {
                    return Err(UpstreamRequestError::NoSuchTool(index, tool));
                };
                shown_names.push(shown.to_owned());
                pins.push((tool, hash));
            }
            (pins, shown_names)
        };
        if !pins.is_empty() {
            let now = self.context.clock.now();
            self.store.pin(name, &pins, PinMode::Accepted, now).await?;
            for tool in shown {
                let (tool, change) = (format!("{name}.{tool}"), ChangeKind::Accepted);
                let change = Change { tool, change, members: Vec::new(), quarantined: false, at: now };
                if let Some(record) = self.table().records.get_mut(name) {
                    record.remember(change);
                }
            }
            self.reload(true).await?;
            // Another task may have read the pins first; this waits until they are applied.
            reconcile::settle(&self.jobs, name).await;
        }
        Ok(())
    }

    /// Completes a definition that refers to a server's tool with the description and schemas of that tool.
    pub fn complete(&self, definition: &mut ToolDefinition) {
        let ExecutorSpec::Mcp { server, tool } = &definition.executor else { return };
        let listed = self.table().records.get(server).and_then(|record| record.listed.clone());
        let item = listed.iter().flat_map(|listed| &listed.tools).find(|item| item.name == *tool);
        let Some(Ok(theirs)) = item.map(|item| mcp::definition(server, item, definition.output_check)) else { return };
        if definition.input_schema.is_null() {
            definition.input_schema = theirs.input_schema;
            // A definition with its own input schema may have other results as well.
            definition.output_schema = definition.output_schema.take().or(theirs.output_schema);
        }
        if definition.description.is_empty() {
            definition.description = theirs.description;
        }
    }
}
