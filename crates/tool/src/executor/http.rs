//! Tools that are HTTP servers. Each run builds one request from the definition and converts its response.
//!
//! `plan` builds the request from the definition and the arguments. `client` signs and sends it through the [`egress`]
//! guard. `read`, `stream` and `status` convert the response to a tool output or a failure. `exchange` combines them
//! with results that the tool's server posts later.

use std::sync::Arc;

use serde_json::Value;

use super::{BoxFuture, Executor, Invocation};
use toolpost_core::domain::tool::HttpSpec;
use toolpost_core::domain::{Failure, ToolOutput};

pub(super) mod argument_names;
mod body;
mod client;
pub mod egress;
mod exchange;
pub(super) mod fault;
mod fetch;
mod headers;
mod multipart;
mod payload;
mod plan;
pub(super) mod read;
pub mod reporting;
mod status;
mod stream;
mod styles;
mod target;
pub(super) mod template;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;
pub mod webhook;

pub use client::{HttpClient, install_crypto_provider};
pub use egress::Egress;
pub use fault::Fault;
pub use fetch::Page;
pub use read::MAX_ANSWER_BYTES;
pub use reporting::Reporting;
pub use target::check_url;
pub use webhook::{DeliveryOutcome, WebhookAnswer, webhook_headers};

use plan::Plan;

/// An executor that runs each call of one tool as an HTTP request.
#[derive(Debug, Clone)]
pub struct HttpExecutor {
    plan: Arc<Plan>,
    client: HttpClient,
}

impl HttpExecutor {
    /// Compiles the request of a definition, so that invalid definitions are rejected before any call. Placeholders are
    /// checked against the properties of `input_schema`.
    ///
    /// # Errors
    /// Returns every fault as a JSON Pointer within the `executor` object (`/url`, `/headers/X-Key`) and a message.
    pub fn new(spec: &HttpSpec, input_schema: &Value, client: HttpClient) -> Result<Self, Vec<(String, String)>> {
        Ok(Self { plan: Arc::new(Plan::new(spec, input_schema)?), client })
    }
}

impl Executor for HttpExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let Self { plan, client } = self.clone();
        Box::pin(async move {
            exchange::run(&plan, &client, &invocation).await.map_err(|fault| fault.into_failure(&invocation.name))
        })
    }
}
