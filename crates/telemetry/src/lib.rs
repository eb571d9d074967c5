//! Observability of Toolpost: log, metrics and traces. Disabled parts cost next to nothing.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub mod context;
mod log;
pub mod metrics;
pub mod trace;

pub use context::Context;
pub use log::{LogFormat, start};
pub use metrics::Metrics;
pub use trace::Tracer;
