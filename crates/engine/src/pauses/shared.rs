//! The connection between the pauses of this node and the stored ones.

use super::Pauses;
use toolpost_core::domain::Tenant;
use toolpost_store::store::{StoreError, Stores};

/// The pauses of all nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedPauses<'a> {
    pub pauses: &'a Pauses,
    pub stores: &'a Stores,
}

impl SharedPauses<'_> {
    /// Stores the new pauses of this node, and applies the pauses and resumes of other nodes.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. Pauses that were not stored are stored by a later call.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let _guard = self.pauses.syncing.lock().await;
        for pause in self.pauses.unsaved_pauses() {
            self.stores.pause_tool(&pause).await?;
            self.pauses.mark_saved(&pause);
        }
        self.pauses.apply(self.stores.tool_pauses(self.pauses.clock.now()).await?);
        Ok(())
    }

    /// Ends the pause of a tool for a tenant on all nodes, and resets its count on this one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails. The tool may then still be paused.
    pub async fn resume(&self, tenant: &Tenant, tool: &str) -> Result<(), StoreError> {
        let _guard = self.pauses.syncing.lock().await;
        self.stores.resume_tool(tenant, tool).await?;
        self.pauses.resume(tenant, tool);
        Ok(())
    }
}
