//! The counted memory of a request.

use std::any::Any;
use std::sync::Arc;

/// A handle that keeps the memory of a large request counted while any copy of its calls exists. The engine defines its
/// contents.
#[derive(Debug, Clone, Default)]
pub struct Counted(pub Option<Arc<dyn Any + Send + Sync>>);
