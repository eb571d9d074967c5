//! Tools of upstream MCP servers. One task per server keeps it running; all calls share its connection. Only this
//! module uses the client of rmcp.
//!
//! `server` supervises a server (start, list tools, restart, stop). `connection` is one connection, over the pipes of a
//! program (`child`, `lines`, `unanswered`) or over HTTP (`http`, `http_client`, `correlate`). `progress` handles notifications of the server.
//! `call` is one call. `convert` and `fault` convert its result, and `listed_tool` converts definitions of tools.

use std::sync::Arc;

use super::{BoxFuture, Executor, Invocation};
use counts::UpstreamOutcome;
use toolpost_core::domain::{Failure, ToolOutput};

pub mod annotations;
mod call;
mod child;
mod connection;
mod context;
mod convert;
mod correlate;
pub mod counts;
mod fault;
mod http;
mod http_client;
mod lines;
mod link;
mod listed_tool;
mod post;
mod progress;
pub mod resolve;
mod ring;
mod server;
mod servers;
mod status;
mod unanswered;

pub use self::http::header_fault;
pub use context::{ServerContext, ServerTiming};
pub use listed_tool::{ListedTool, definition};
pub use server::Server;
pub use servers::Servers;
pub use status::{ServerState, ToolList, ToolListObserver};

/// An executor for calls of one tool of an upstream server.
#[derive(Debug, Clone)]
pub struct McpExecutor {
    servers: Servers,
    server: Arc<str>,
    tool: Arc<str>,
}

impl McpExecutor {
    /// Creates an executor for a tool of a server. The server need not exist yet.
    ///
    /// # Errors
    /// Returns every fault as a JSON Pointer within the `executor` object and a message.
    pub fn new(servers: Servers, server: &str, tool: &str) -> Result<Self, Vec<(String, String)>> {
        let empty = [("/server", server), ("/tool", tool)].into_iter().filter(|(_, name)| name.is_empty());
        let faults: Vec<_> = empty.map(|(pointer, _)| (pointer.to_owned(), "must not be empty".to_owned())).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { servers, server: server.into(), tool: tool.into() })
    }
}

impl Executor for McpExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let Self { servers, server, tool } = self.clone();
        Box::pin(async move {
            let refused = |reason: String| {
                let details = serde_json::json!({ "server": &*server, "tool": &*tool, "reason": reason });
                Failure::unavailable(&invocation.name).with_details(details).never_left()
            };
            let Some(running) = servers.get(&server) else {
                return Err(refused(format!("unknown upstream server \"{server}\"")));
            };
            let counted = running.counts.call();
            if running.is_quarantined(&tool) {
                counted.ended(UpstreamOutcome::Unavailable);
                return Err(refused("its definition has changed and has not been accepted yet".to_owned()));
            }
            match running.link().await {
                Ok(link) => {
                    let answer = call::run(&link, &running, &tool, &invocation).await;
                    counted.ended(outcome(&answer));
                    answer
                }
                Err(reason) => {
                    counted.ended(UpstreamOutcome::Unavailable);
                    Err(refused(reason).retryable(None))
                }
            }
        })
    }
}

/// Returns the outcome for the metrics.
fn outcome(answer: &Result<ToolOutput, Failure>) -> UpstreamOutcome {
    match answer {
        Ok(ToolOutput::Outcome(outcome)) if outcome.is_error() => UpstreamOutcome::Error,
        Ok(_) => UpstreamOutcome::Ok,
        Err(_) => UpstreamOutcome::Failed,
    }
}
