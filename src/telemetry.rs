//! What the service says of itself: its log, its metrics, its traces. Nothing here decides anything, and what is not asked
//! for costs next to nothing.

pub mod context;
mod log;
pub mod metrics;
pub mod trace;

pub use context::Context;
pub use log::start;
pub use metrics::Metrics;
pub use trace::Tracer;
