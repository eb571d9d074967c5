//! The memory that a call is counted with, and the call without what may be large.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use super::{Call, CallRecord};

/// Keeps the memory of a large request counted for as long as there is any image of its calls. What it is, is the engine's
/// business.
#[derive(Debug, Clone, Default)]
pub struct Counted(pub Option<Arc<dyn Any + Send + Sync>>);

impl Call {
    /// The call without what may be large: its arguments, its result, and what it shows.
    #[must_use]
    pub fn outline(&self) -> Self {
        let id = self.id;
        let nothing: Arc<Value> = Arc::default();
        let node = self.node.clone();
        let outline = CallRecord {
            tenant: self.tenant.clone(),
            title: self.title.clone(),
            session: self.session.clone(),
            batch_id: self.batch_id,
            index: self.index,
            status: self.status,
            phase: self.phase,
            last_seq: self.last_seq,
            ..CallRecord::accepted(id, self.name.clone(), Some(&self.call_id), nothing, self.created_at, node)
        };
        outline.into()
    }
}
