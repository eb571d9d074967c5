//! Observability: log, metrics and traces. Disabled parts cost next to nothing.

pub mod context;
mod log;
pub mod metrics;
pub mod trace;

pub use context::Context;
pub use log::start;
pub use metrics::Metrics;
pub use trace::Tracer;
