//! Toolpost: a tool-execution service for LLM agents.
//!
//! A model asks for a tool; Toolpost finds it, checks and mends the arguments, runs it within its limits, records what
//! happened, and answers in the words that the model's vendor expects.
//!
//! # A tool in Rust
//!
//! A tool is a type with one async function. Its arguments are a type too: the schema, and the descriptions that the model
//! reads, come from it.
//!
//! ```
//! use toolpost::tool::{BuiltinTool, Run, Tool, ToolError};
//!
//! /// Greets somebody.
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greeting {
//!     /// Whom to greet.
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
//! assert_eq!(greet.definition.description, "Greets somebody.");
//!
//! let answer = greet.invoke(serde_json::json!({"name": "Ada"})).await;
//! assert_eq!(answer, Ok(toolpost::domain::ToolOutput::Text("Hello, Ada!".into())));
//! # }
//! ```
//!
//! Where one function says it all, it is enough: see [`tool::tool_fn`], [`tool::async_tool_fn`] and
//! [`tool::blocking_tool_fn`].
//!
//! # A tool with a state
//!
//! One that works for somebody, as with a connection of that user's own, is made by a factory: for each call, for a session,
//! or for all. What it keeps is disposed of when that has ended.
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
//!     async fn make(&self, _: Run) -> Result<Counter, ToolError> {
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
//! # The whole service
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
//! let call = app.call("add", serde_json::json!({"a": 1, "b": "2"})).await?;
//! assert_eq!(call.outcome.as_ref().map(|outcome| outcome.output.as_str()), Some("3"));
//! assert_eq!(call.coerced[0].pointer, "/b");
//! app.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`http::serve`] puts the same app behind HTTP.
//!
//! # The map
//!
//! A call's path is [`http`] → [`engine`] → [`registry`] and [`schema`] → [`policy`] → [`executor`] → [`store`] →
//! [`events`]; [`app`] joins them, and [`domain`] has the words that all of them speak.

pub mod app;
pub mod config;
pub mod domain;
pub mod hooks;
pub mod http;
pub mod tool;

#[doc(hidden)]
pub mod cli;

// The feature `internals` makes the other modules public for the tests and benchmarks of the project.
#[cfg(not(feature = "internals"))]
mod access;
#[cfg(not(feature = "internals"))]
mod auth;
#[cfg(not(feature = "internals"))]
mod callbacks;
#[cfg(not(feature = "internals"))]
mod dispatch;
#[cfg(not(feature = "internals"))]
mod engine;
#[cfg(not(feature = "internals"))]
mod events;
#[cfg(not(feature = "internals"))]
mod executor;
#[cfg(not(feature = "internals"))]
mod fault;
#[cfg(not(feature = "internals"))]
mod formats;
#[cfg(not(feature = "internals"))]
mod import;
#[cfg(not(feature = "internals"))]
mod lifecycle;
#[cfg(not(feature = "internals"))]
mod mcp;
#[cfg(not(feature = "internals"))]
mod policy;
#[cfg(not(feature = "internals"))]
mod registry;
#[cfg(not(feature = "internals"))]
mod schema;
#[cfg(not(feature = "internals"))]
mod store;
#[cfg(not(feature = "internals"))]
mod telemetry;
#[cfg(not(feature = "internals"))]
mod upstreams;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod access;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod auth;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod callbacks;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod dispatch;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod events;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod executor;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod fault;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod formats;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod import;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod lifecycle;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod mcp;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod policy;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod registry;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod schema;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod store;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod telemetry;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod upstreams;
