//! Applies the stored servers to this node: starts the servers that any node registered, and stops deleted ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Origin, UpstreamRecord, Upstreams, reconcile, sealed};
use crate::executor::mcp::Server;
use crate::store::StoreError;
use crate::store::upstreams::{StoredPin, StoredUpstream};

impl Upstreams {
    /// Reads the stored servers and pins: adds new servers, starts them if `starts` is `true`, and stops deleted ones.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn reload(&self, starts: bool) -> Result<(), StoreError> {
        let (stored, pins, version) = self.store.upstreams().await?;
        for (name, removed) in self.apply_stored(&stored, &pins, version) {
            if let Some(server) = removed {
                server.stop().await;
            }
            reconcile::settle(&self.jobs, &name).await;
        }
        if starts {
            self.start();
        }
        Ok(())
    }

    /// Updates the table from the stored servers and pins, unless the table is newer. Returns the names of changed
    /// servers, first the removed ones, which must be stopped.
    fn apply_stored(
        &self,
        stored: &[StoredUpstream],
        pins: &[StoredPin],
        version: i64,
    ) -> Vec<(String, Option<Arc<Server>>)> {
        let mut table = self.table();
        if version < table.version {
            return Vec::new();
        }
        table.version = version;
        let is_gone = |name: &str, record: &UpstreamRecord| {
            record.origin == Origin::Api
                && !stored.iter().any(|one| one.name == name && one.created_at == record.created_at)
        };
        let gone: Vec<String> =
            table.records.iter().filter(|(name, record)| is_gone(name, record)).map(|(name, _)| name.clone()).collect();
        let mut changed = Vec::new();
        for name in gone {
            table.records.remove(&name);
            let server = self.servers.remove(&name);
            changed.push((name, server));
        }
        for one in stored {
            if !table.records.contains_key(&one.name) {
                let upstream = sealed::open(one, &self.vault, self.store.tenant());
                let record = self.start_server(&one.name, upstream, UpstreamRecord::new(Origin::Api, one.created_at));
                table.records.insert(one.name.clone(), record);
            }
        }
        for (name, record) in &mut table.records {
            let own = pins.iter().filter(|pin| pin.upstream == *name);
            let own: BTreeMap<String, String> = own.map(|pin| (pin.tool.clone(), pin.hash.clone())).collect();
            if record.pins != own {
                record.pins = own;
                changed.push((name.clone(), None));
            }
        }
        changed
    }
}
