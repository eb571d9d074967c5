//! Hooks around a call.

use super::Engine;
use super::prepare::Job;
use super::run::Stop;
use crate::registry::Entry;

impl Engine {
    /// Asks the hooks before a run: they may change the arguments, or block it.
    pub(super) async fn ask_hooks(&self, _job: &mut Job, _entry: &Entry) -> Result<(), Stop> {
        Ok(())
    }
}
