//! Workers for Toolpost in Rust: tools that run in a process of their own.
//!
//! A [`Worker`] fetches the calls of a queue over outbound HTTP, runs them with tools of [`tool`], and posts
//! their results. A tool that runs in the process of the service moves to a worker without a change.
//!
//! ```no_run
//! use toolpost_worker::tool::{BuiltinTool, Run, Tool, ToolError};
//! use toolpost_worker::{Worker, stop_signal};
//!
//! /// Greets a person by name.
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greeting {
//!     /// Name of the person.
//!     name: String,
//! }
//!
//! struct Greet;
//!
//! impl Tool for Greet {
//!     const NAME: &'static str = "greet";
//!     type Args = Greeting;
//!     type Output = String;
//!
//!     async fn call(&self, args: Greeting, run: Run) -> Result<String, ToolError> {
//!         run.tip("thinking of something nice");
//!         Ok(format!("Hello, {}!", args.name))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), toolpost_worker::WorkerError> {
//! Worker::new("http://127.0.0.1:8080")
//!     .queue("rust")
//!     .tool(BuiltinTool::new(Greet))
//!     .concurrency(16)
//!     .run(stop_signal())
//!     .await
//! # }
//! ```
//!
//! # What stays the same
//!
//! - Arguments are validated and coerced by the service. Then the tool checks them again, as in the process.
//! - Reports, results, errors and panics become the same stored call.
//! - A cancelled call drops the future of the tool, and [`Run::is_cancelled`](crate::tool::Run::is_cancelled) is
//!   `true` for its threads. The worker learns this with its next heartbeat, at most 5 s later.
//! - A [`ToolFactory`](crate::tool::ToolFactory) creates its instances in the worker.
//!
//! # What differs
//!
//! - A result is final: the service does not apply the `retry` of the tool to a
//!   [retryable](crate::tool::ToolError::retryable) error. The caller reads that the error is retryable.
//! - [`Tool::validate`](crate::tool::Tool::validate) runs in the worker, so a call that it rejects counts as an
//!   attempt.
//! - [`BuiltinTool::available_if`](crate::tool::BuiltinTool::available_if) and
//!   [`Run::traceparent`](crate::tool::Run::traceparent) have no effect, and
//!   [`Run::output_bounds`](crate::tool::Run::output_bounds) are the defaults.
//! - If the worker is lost, a call of an idempotent or read-only tool is given to another worker. Any other call ends
//!   `OUTCOME_UNKNOWN`.

// What tools are written with.
pub use toolpost_core::domain;
pub use toolpost_tool::tool;

mod backoff;
mod call;
mod claims;
mod error;
mod leases;
mod output;
mod report;
mod results;
mod running;
mod service;
mod signal;
mod worker;

/// Compiles the examples of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/guide/workers.md")]
    struct Guide;
}

pub use error::{FieldError, WorkerError};
pub use signal::stop_signal;
pub use worker::Worker;
