//! Tools of upstream MCP servers. Each server is kept up by one task of its own and shared by all calls; this is the only
//! place of the service's MCP client that knows rmcp.
//!
//! `server` keeps a server up (start, list, restart, stop), `session` is one connection of it, over the pipes of a program
//! (`child`, `lines`) or over HTTP (`http`, `http_client`); `tap` hears what the server says by itself; `call` is one call, `convert` and
//! `fault` make our words of its end, and `told` ours of a tool's definition.

use std::sync::Arc;

use super::{BoxFuture, Executor, Invocation};
use crate::domain::{Failure, ToolOutput};
use crate::telemetry::metrics::UpstreamOutcome;

pub mod annotations;
mod call;
mod child;
mod connection;
mod convert;
mod fault;
mod http;
mod http_client;
mod lines;
mod link;
mod listed_tool;
mod outfit;
mod progress;
pub mod resolve;
mod ring;
mod server;
mod servers;
mod status;
mod tap;
mod timing;

pub use self::http::header_fault;
pub use listed_tool::{ListedTool, definition};
pub use outfit::ServerContext;
pub use server::Server;
pub use servers::Servers;
pub use status::{ServerState, ServerStatus, ToolList, ToolListObserver};
pub use timing::ServerTiming;

/// Runs calls of one tool of an upstream server.
#[derive(Debug, Clone)]
pub struct McpExecutor {
    servers: Servers,
    server: Arc<str>,
    tool: Arc<str>,
}

impl McpExecutor {
    /// A tool of a server, which need not be there yet.
    ///
    /// # Errors
    /// Every fault: a JSON Pointer within the `executor` object, and a sentence.
    pub fn new(servers: Servers, server: &str, tool: &str) -> Result<Self, Vec<(String, String)>> {
        let empty = [("/server", server), ("/tool", tool)].into_iter().filter(|(_, name)| name.is_empty());
        let faults: Vec<_> = empty.map(|(place, _)| (place.to_owned(), "must not be empty".to_owned())).collect();
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
                return Err(refused(format!("there is no upstream server \"{server}\"")));
            };
            let counted = running.counts.call();
            if running.is_quarantined(&tool) {
                counted.ended(UpstreamOutcome::Unavailable);
                return Err(refused("its definition has changed, and nobody has accepted that yet".to_owned()));
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

/// As it is counted.
fn outcome(answer: &Result<ToolOutput, Failure>) -> UpstreamOutcome {
    match answer {
        Ok(ToolOutput::Outcome(outcome)) if outcome.is_error() => UpstreamOutcome::Error,
        Ok(_) => UpstreamOutcome::Ok,
        Err(_) => UpstreamOutcome::Failed,
    }
}
