//! Reconciles the tools of each server with the previous list and the pins, one server at a time, and publishes them.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Change, ChangeKind, Upstreams};
use crate::executor::mcp::{ListedTool, ToolList, definition};
use crate::registry::upstream::UpstreamTool;
use crate::store::upstreams::PinMode;

/// A job of the reconcile task.
pub(super) struct ReconcileJob {
    server: String,
    /// The id of the server and its new list of tools (`None` if the server is unavailable); `None` if only pins
    /// changed.
    news: Option<(Uuid, Option<Arc<ToolList>>)>,
    done: oneshot::Sender<()>,
}

/// Receives the lists of tools of one server.
pub(super) struct ReconcileObserver {
    /// The queue of the reconcile task.
    pub jobs: mpsc::Sender<ReconcileJob>,
    /// The id of the server, because another server may have had its name before.
    pub id: Uuid,
}

/// Applies a new list of tools, or `None` if the server is unavailable. Returns when the tools are published.
pub(super) async fn tools_listed(
    jobs: &mpsc::Sender<ReconcileJob>,
    server: String,
    id: Uuid,
    listed: Option<Arc<ToolList>>,
) {
    enqueue(jobs, server, Some((id, listed))).await;
}

/// Applies changed pins or the removal of a server. Returns when the tools are published.
pub(super) async fn settle(jobs: &mpsc::Sender<ReconcileJob>, server: &str) {
    enqueue(jobs, server.to_owned(), None).await;
}

async fn enqueue(jobs: &mpsc::Sender<ReconcileJob>, server: String, news: Option<(Uuid, Option<Arc<ToolList>>)>) {
    let (done, settled) = oneshot::channel();
    if jobs.send(ReconcileJob { server, news, done }).await.is_ok() {
        let _ = settled.await;
    }
}

/// Runs the jobs until [`Upstreams`] is dropped.
pub(super) async fn run(upstreams: Weak<Upstreams>, mut jobs: mpsc::Receiver<ReconcileJob>) {
    while let Some(ReconcileJob { server, news, done }) = jobs.recv().await {
        let Some(upstreams) = upstreams.upgrade() else { return };
        if let Some((id, listed)) = news {
            upstreams.take(&server, id, listed);
        }
        upstreams.show(&server).await;
        let _ = done.send(());
    }
}

/// Returns the hash of a definition, for its pin.
pub(super) fn hash(told: &ListedTool) -> String {
    told.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Upstreams {
    /// Stores the list of tools of a server, and records the changes.
    fn take(&self, server: &str, id: Uuid, listed: Option<Arc<ToolList>>) {
        let now = self.context.clock.now();
        let mut book = self.book();
        let Some(held) = book.held.get_mut(server).filter(|held| held.id == id) else { return };
        let Some(listed) = listed else {
            held.is_gone = true;
            return;
        };
        held.is_gone = false;
        let is_pinned = held.server.as_ref().is_some_and(|server| server.upstream.pin);
        let before = held.listed.replace(listed.clone());
        let of_before = |name: &str| before.iter().flat_map(|listed| &listed.tools).find(|told| told.name == name);
        let mut changes = Vec::new();
        let mut change = |tool: &str, kind, members, is_withheld| {
            changes.push(Change { tool: tool.to_owned(), kind, members, is_withheld, at: now });
        };
        for told in &listed.tools {
            let pin = held.pins.get(&told.name);
            let is_withheld = is_pinned && pin.is_some_and(|pin| *pin != hash(told));
            match of_before(&told.name) {
                Some(old) if old.fingerprint == told.fingerprint => {}
                Some(old) => change(&told.name, ChangeKind::Changed, told.differs(old), is_withheld),
                // The tool changed after it was pinned, possibly before a restart of this service.
                None if is_withheld => change(&told.name, ChangeKind::Changed, Vec::new(), true),
                None if before.is_some() => change(&told.name, ChangeKind::Added, Vec::new(), false),
                None => {}
            }
        }
        for old in before.iter().flat_map(|listed| &listed.tools) {
            if !listed.tools.iter().any(|told| told.name == old.name) {
                change(&old.name, ChangeKind::Removed, Vec::new(), false);
            }
        }
        for change in changes {
            let Change { tool, kind, is_withheld, .. } = &change;
            tracing::warn!(upstream = server, tool, change = ?kind, quarantined = is_withheld, "a tool has changed");
            held.remember(change);
        }
    }

    /// Publishes the tools of a server, as far as the pins allow.
    async fn show(&self, server: &str) {
        let Some((listed, unpinned, withheld)) = self.evaluate_pins(server) else {
            self.shown(server, Vec::new()).await;
            return;
        };
        if !unpinned.is_empty() {
            let now = self.context.clock.now();
            // On a failure, the tools are pinned when the server is listed again; the store reports the failure.
            if self.store.pin(server, &unpinned, PinMode::First, now).await.is_ok()
                && let Some(held) = self.book().held.get_mut(server)
            {
                for (tool, hash) in unpinned {
                    held.pins.entry(tool).or_insert(hash);
                }
            }
        }
        let Some(running) = self.servers.get(server) else { return };
        let (mut offered, mut refused) = (Vec::new(), listed.left_out.clone());
        for told in &listed.tools {
            match definition(server, told, running.upstream.output_check) {
                Ok(definition) => offered.push(UpstreamTool { definition, is_withheld: withheld.contains(&told.name) }),
                Err(reason) => refused.push((told.name.clone(), reason)),
            }
        }
        // Also blocks the tools under names that other definitions give them.
        running.quarantine(withheld.clone());
        let mut names: Vec<String> = offered.iter().map(|offered| offered.definition.name.clone()).collect();
        for (name, reason) in self.shown(server, offered).await {
            names.retain(|offered| *offered != name);
            let tool = super::tool_name(server, &name).to_owned();
            tracing::warn!(upstream = server, tool, reason, "a tool is skipped");
            refused.push((tool, reason));
        }
        if let Some(held) = self.book().held.get_mut(server) {
            held.offered = names.iter().map(|name| super::tool_name(server, name).to_owned()).collect();
            (held.refused, held.withheld) = (refused, withheld);
        }
    }

    /// Returns the tools of a server, the tools to pin, and the quarantined tools; `None` if the server is unavailable.
    #[expect(clippy::type_complexity, reason = "three lists, destructured by the caller")]
    fn evaluate_pins(&self, server: &str) -> Option<(Arc<ToolList>, Vec<(String, String)>, HashSet<String>)> {
        let book = self.book();
        let held = book.held.get(server).filter(|held| !held.is_gone)?;
        let listed = held.listed.clone()?;
        let (mut unpinned, mut withheld) = (Vec::new(), HashSet::new());
        if held.server.as_ref().is_some_and(|server| server.upstream.pin) {
            for told in &listed.tools {
                match held.pins.get(&told.name) {
                    None => unpinned.push((told.name.clone(), hash(told))),
                    Some(pin) if *pin == hash(told) => {}
                    Some(_) => drop(withheld.insert(told.name.clone())),
                }
            }
        }
        Some((listed, unpinned, withheld))
    }

    /// Publishes the tools in the registry and returns the rejected tools. Compiling their schemas can take long, so it
    /// runs on a blocking thread.
    async fn shown(&self, server: &str, offered: Vec<UpstreamTool>) -> Vec<(String, String)> {
        let (registry, server) = (self.registry.clone(), server.to_owned());
        let shown = tokio::task::spawn_blocking(move || registry.show_upstream(&server, offered)).await;
        shown.unwrap_or_else(|_| {
            tracing::error!("cannot publish the tools of an upstream server");
            Vec::new()
        })
    }
}
