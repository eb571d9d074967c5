//! What a tool is given beside the model's arguments: presets, context, on whose behalf.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Engine;
use super::prepare::Job;
use super::run::Stop;
use crate::registry::Entry;

/// What only the executor sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Equipment {
    /// The arguments with the presets in them; `None` where there are none, and the call's own are all.
    pub arguments: Option<Arc<Value>>,
    /// The context objects that the tool names.
    pub context: Arc<Map<String, Value>>,
}

impl Engine {
    /// Gives a call what it runs with. Nothing of it is ever recorded or shown.
    pub(super) async fn equip(&self, job: &mut Job, _entry: &Entry) -> Result<(), Stop> {
        job.equipment.context = job.call.context.clone();
        Ok(())
    }
}
