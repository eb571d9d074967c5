//! The memory that a call is counted with.

use std::any::Any;
use std::sync::Arc;

/// Keeps the memory of a large request counted for as long as there is any image of its calls. What it is, is the engine's
/// business.
#[derive(Debug, Clone, Default)]
pub struct Counted(pub Option<Arc<dyn Any + Send + Sync>>);
