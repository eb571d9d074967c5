//! Toolpost is a tool-execution service for LLM agents.
//!
//! An agent passes on the tool calls of its model. Toolpost finds the tool, validates and coerces the arguments, runs
//! the tool within its limits, records the call, and returns the result in the format of the model's vendor. A call is
//! dispatched at most once unless its tool may be repeated, and every accepted call ends exactly once, even after a
//! crash.
//!
//! The program `toolpost` serves tools over HTTP and MCP without any Rust code; its README and guide describe that.
//! This library is for Rust programs that contain their own tools:
//!
//! - [`tool`] defines tools in Rust,
//! - [`app`] assembles a service and runs calls in the same process,
//! - [`http::serve`] puts the service behind the HTTP API,
//! - [`config`] contains the settings, the same as those of the program.
//!
//! # Running a service
//!
//! [`App`](app::App) is the whole service without its HTTP server. It stores its calls in SQLite or PostgreSQL:
//!
//! ```
//! use toolpost::{app::App, config::Config, tool::tool_fn};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Sum { a: i64, b: i64 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = Config::default();
//! config.store.database_url = "sqlite::memory:".into();
//! let add = tool_fn("add", "Adds two numbers.", |sum: Sum| Ok(sum.a + sum.b));
//! let app = App::builder(config).tool(add).start().await?;
//!
//! // The model sent a string for `b`. It is coerced to the integer that the schema requires.
//! let call = app.call("add", serde_json::json!({"a": 1, "b": "2"})).await?;
//! assert_eq!(call.outcome.as_ref().map(|outcome| outcome.output.as_str()), Some("3"));
//! assert_eq!(call.coerced[0].pointer, "/b");
//! app.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A failed call is not an error: its [`Outcome`](domain::Outcome) contains a [`Failure`](domain::Failure), whose text
//! is written for the model.
//!
//! # Tools
//!
//! A [`Tool`](tool::Tool) is a type with one async function. The type of its arguments defines the JSON Schema, and the
//! doc comments are the descriptions that the model reads:
//!
//! ```
//! use toolpost::tool::{BuiltinTool, Run, Tool, ToolError};
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
//! # async fn main() {
//! let greet = BuiltinTool::new(Greet);
//! assert_eq!(greet.definition.description, "Greets a person by name.");
//!
//! let output = greet.invoke(serde_json::json!({"name": "Ada"})).await;
//! assert_eq!(output, Ok(toolpost::domain::ToolOutput::Text("Hello, Ada!".into())));
//! # }
//! ```
//!
//! For simple tools a function is enough: see [`tool::tool_fn`], [`tool::async_tool_fn`] and
//! [`tool::blocking_tool_fn`].
//!
//! # Tools with state
//!
//! A [`ToolFactory`](tool::ToolFactory) creates instances of a tool: one for each call, for each session, or for
//! each tenant. An instance can hold state, such as a user's own connection, and is dropped when its scope ends.
//!
//! ```
//! use toolpost::tool::{BuiltinTool, NoArgs, Run, InstanceScope, Tool, ToolError, ToolFactory};
//!
//! /// Counts the calls of its session.
//! #[derive(Default)]
//! struct Counter(std::sync::atomic::AtomicU32);
//!
//! impl Tool for Counter {
//!     const NAME: &'static str = "count";
//!     type Args = NoArgs;
//!     type Output = u32;
//!
//!     async fn call(&self, _: NoArgs, _: Run) -> Result<u32, ToolError> {
//!         Ok(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1)
//!     }
//! }
//!
//! struct Counters;
//!
//! impl ToolFactory for Counters {
//!     type Tool = Counter;
//!     const SCOPE: InstanceScope = InstanceScope::Session;
//!
//!     async fn create(&self, _: Run) -> Result<Counter, ToolError> {
//!         Ok(Counter::default())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let count = BuiltinTool::from_factory(Counters);
//! assert_eq!(count.definition.name, "count");
//! assert!(count.invoke(serde_json::json!({})).await.is_ok());
//! # }
//! ```
//!
//! # Further extension points
//!
//! - [`Builder::hook`](app::Builder::hook) adds a Rust function that runs before or after calls, or before an outcome
//!   is stored.
//! - [`Builder::wrap`](app::Builder::wrap) wraps every tool in a tower layer.
//! - [`Builder::secrets`](app::Builder::secrets) and [`Builder::clock`](app::Builder::clock) replace the sources of
//!   secrets, time and ids, for example in tests.
//!
//! # Modules
//!
//! A call passes through [`http`] or `mcp`, `engine`, `registry` and `schema`, `policy`, `executor`,
//! `store` and `events`, in this order. [`domain`] contains the types that all of them share. `ARCHITECTURE.md`
//! describes the design.
//!
//! # Features
//!
//! - `otel` (default): export of traces over OTLP/HTTP, if an endpoint is configured.
//! - `fault-points`: exit points for crash tests. Never enable it in production.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub use toolpost_core::domain;
pub use toolpost_engine::hooks;
pub use toolpost_tool::tool;

pub mod app;
pub mod config;
pub mod http;

// The rest is under its name for the program, the tests and the benchmarks. Nothing of it is promised.
#[doc(hidden)]
pub use toolpost_core::{aside, fault, formats, import, schema};
#[doc(hidden)]
pub use toolpost_engine::{
    access, arguments, budgets, callbacks, dispatch, engine, memory, policies, registry, system_tools, threads,
    workqueue,
};
#[doc(hidden)]
pub use toolpost_store::{events, store};
#[doc(hidden)]
pub use toolpost_telemetry as telemetry;
#[doc(hidden)]
pub use toolpost_tool::{executor, policy};

#[doc(hidden)]
pub mod auth;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod lifecycle;
#[doc(hidden)]
pub mod mcp;
#[doc(hidden)]
pub mod upstreams;
