//! Reconciles the tools of each server with the previous list and the pins, one server at a time, and publishes them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Change, ChangeKind, Upstreams};
use crate::domain::ToolDefinition;
use crate::domain::tool::OutputCheck;
use crate::executor::BoxFuture;
use crate::executor::mcp::{ListedTool, ToolList, ToolListObserver, definition};
use crate::registry::upstream::UpstreamTool;
use crate::store::upstreams::PinMode;

/// A job of the reconcile task.
pub(super) struct ReconcileJob {
    server: String,
    /// The id of the server and its new list of tools (`None` if the server is unavailable); `None` if only pins
    /// changed.
    update: Option<(Uuid, Option<Arc<ToolList>>)>,
    done: oneshot::Sender<()>,
}

/// Receives the lists of tools of one server.
pub(super) struct ReconcileObserver {
    /// The queue of the reconcile task.
    pub jobs: mpsc::Sender<ReconcileJob>,
    /// The id of the server, because another server may have had its name before.
    pub id: Uuid,
}

impl ToolListObserver for ReconcileObserver {
    fn tools_changed(&self, server: &str, listed: Option<Arc<ToolList>>) -> BoxFuture<()> {
        let (jobs, id, server) = (self.jobs.clone(), self.id, server.to_owned());
        Box::pin(async move { enqueue(&jobs, server, Some((id, listed))).await })
    }
}

/// Applies changed pins or the removal of a server. Returns when the tools are published.
pub(super) async fn settle(jobs: &mpsc::Sender<ReconcileJob>, server: &str) {
    enqueue(jobs, server.to_owned(), None).await;
}

async fn enqueue(jobs: &mpsc::Sender<ReconcileJob>, server: String, update: Option<(Uuid, Option<Arc<ToolList>>)>) {
    let (done, settled) = oneshot::channel();
    if jobs.send(ReconcileJob { server, update, done }).await.is_ok() {
        let _ = settled.await;
    }
}

/// Runs the jobs until [`Upstreams`] is dropped.
pub(super) async fn run(upstreams: Weak<Upstreams>, mut jobs: mpsc::Receiver<ReconcileJob>) {
    while let Some(ReconcileJob { server, update, done }) = jobs.recv().await {
        let Some(upstreams) = upstreams.upgrade() else { return };
        if let Some((id, listed)) = update {
            upstreams.record_list(&server, id, listed);
        }
        upstreams.publish(&server).await;
        let _ = done.send(());
    }
}

/// Returns the hash of a definition, for its pin.
pub(super) fn hash(item: &ListedTool) -> String {
    item.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Converts the tools of a server to definitions, each with its name at the server. Compiling their schemas can take
/// long, so it runs on a blocking thread.
async fn convert(
    server: &str,
    listed: Arc<ToolList>,
    output_check: OutputCheck,
) -> Vec<(String, Result<ToolDefinition, String>)> {
    let server = server.to_owned();
    let converted = tokio::task::spawn_blocking(move || {
        let tools = listed.tools.iter();
        tools.map(|item| (item.name.clone(), definition(&server, item, output_check))).collect()
    });
    converted.await.unwrap_or_else(|_| {
        tracing::error!("cannot convert the tools of an upstream server");
        Vec::new()
    })
}

impl Upstreams {
    /// Stores the list of tools of a server, and records the changes.
    fn record_list(&self, server: &str, id: Uuid, listed: Option<Arc<ToolList>>) {
        let now = self.context.clock.now();
        let mut table = self.table();
        let Some(record) = table.records.get_mut(server).filter(|record| record.id == id) else { return };
        let Some(listed) = listed else {
            record.is_gone = true;
            return;
        };
        record.is_gone = false;
        let is_pinned = record.server.as_ref().is_some_and(|server| server.upstream.pin);
        let before = record.listed.replace(listed.clone());
        let of_before = |name: &str| before.iter().flat_map(|listed| &listed.tools).find(|item| item.name == name);
        let mut changes = Vec::new();
        let mut change = |tool: &str, change, members, quarantined| {
            changes.push(Change { tool: format!("{server}.{tool}"), change, members, quarantined, at: now });
        };
        for item in &listed.tools {
            let pin = record.pins.get(&item.name);
            let is_quarantined = is_pinned && pin.is_some_and(|pin| *pin != hash(item));
            match of_before(&item.name) {
                Some(old) if old.fingerprint == item.fingerprint => {}
                Some(old) => change(&item.shown, ChangeKind::Changed, item.differs(old), is_quarantined),
                // The tool changed after it was pinned, possibly before a restart of this service.
                None if is_quarantined => change(&item.shown, ChangeKind::Changed, Vec::new(), true),
                None if before.is_some() => change(&item.shown, ChangeKind::Added, Vec::new(), false),
                None => {}
            }
        }
        for old in before.iter().flat_map(|listed| &listed.tools) {
            if !listed.tools.iter().any(|item| item.name == old.name) {
                change(&old.shown, ChangeKind::Removed, Vec::new(), false);
            }
        }
        for change in changes {
            let (tool, kind, quarantined) = (super::tool_name(server, &change.tool), change.change, change.quarantined);
            tracing::warn!(upstream = server, tool, change = ?kind, quarantined, "a tool has changed");
            record.remember(change);
        }
    }

    /// Publishes the tools of a server, as far as the pins allow.
    async fn publish(&self, server: &str) {
        let Some((listed, unpinned, quarantined)) = self.evaluate_pins(server) else {
            self.publish_tools(server, Vec::new()).await;
            return;
        };
        if !unpinned.is_empty() {
            let now = self.context.clock.now();
            // On a failure, the tools are pinned when the server is listed again; the store reports the failure.
            if self.store.pin(server, &unpinned, PinMode::First, now).await.is_ok()
                && let Some(record) = self.table().records.get_mut(server)
            {
                for (tool, hash) in unpinned {
                    record.pins.entry(tool).or_insert(hash);
                }
            }
        }
        let Some(running) = self.servers.get(server) else { return };
        let (mut offered, mut refused, mut corrected) = (Vec::new(), listed.left_out.clone(), Vec::new());
        for (name, converted) in convert(server, listed.clone(), running.upstream.output_check).await {
            match converted {
                Ok(definition) => {
                    let notes = definition.upstream.iter().flat_map(|upstream| upstream.corrected.iter().flatten());
                    corrected.extend(notes.map(|note| (name.clone(), note.clone())));
                    offered.push(UpstreamTool { definition, is_withheld: quarantined.contains(&name) });
                }
                Err(reason) => refused.push((name, reason)),
            }
        }
        // Also blocks the tools under names that other definitions give them.
        running.quarantine(quarantined.clone());
        let mut names: Vec<String> = offered.iter().map(|offered| offered.definition.name.clone()).collect();
        let own: HashMap<&str, &str> = listed.renamed().map(|item| (item.shown.as_str(), item.name.as_str())).collect();
        let at_server = |name: &str| {
            let shown = super::tool_name(server, name);
            own.get(shown).copied().unwrap_or(shown).to_owned()
        };
        for (name, reason) in self.publish_tools(server, offered).await {
            names.retain(|offered| *offered != name);
            let tool = at_server(&name);
            tracing::warn!(upstream = server, tool, reason, "a tool is skipped");
            refused.push((tool, reason));
        }
        if let Some(record) = self.table().records.get_mut(server) {
            record.offered = names.iter().map(|name| at_server(name)).collect();
            (record.refused, record.corrected, record.quarantined) = (refused, corrected, quarantined);
        }
    }

    /// Returns the tools of a server, the tools to pin, and the quarantined tools; `None` if the server is unavailable.
    #[expect(clippy::type_complexity, reason = "three lists, destructured by the caller")]
    fn evaluate_pins(&self, server: &str) -> Option<(Arc<ToolList>, Vec<(String, String)>, HashSet<String>)> {
        let table = self.table();
        let record = table.records.get(server).filter(|record| !record.is_gone)?;
        let listed = record.listed.clone()?;
        let (mut unpinned, mut quarantined) = (Vec::new(), HashSet::new());
        if record.server.as_ref().is_some_and(|server| server.upstream.pin) {
            for item in &listed.tools {
                match record.pins.get(&item.name) {
                    None => unpinned.push((item.name.clone(), hash(item))),
                    Some(pin) if *pin == hash(item) => {}
                    Some(_) => drop(quarantined.insert(item.name.clone())),
                }
            }
        }
        Some((listed, unpinned, quarantined))
    }

    /// Publishes the tools in the registry and returns the rejected tools. Compiling their schemas can take long, so it
    /// runs on a blocking thread.
    async fn publish_tools(&self, server: &str, offered: Vec<UpstreamTool>) -> Vec<(String, String)> {
        let (registry, server) = (self.registry.clone(), server.to_owned());
        let shown = tokio::task::spawn_blocking(move || registry.show_upstream(&server, offered)).await;
        shown.unwrap_or_else(|_| {
            tracing::error!("cannot publish the tools of an upstream server");
            Vec::new()
        })
    }
}
