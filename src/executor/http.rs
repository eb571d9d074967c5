//! Tools that are HTTP servers: the request of a definition, made once for every run, and its answer.
//!
//! `plan` makes the request out of a definition and the arguments, `client` signs it and sends it through the [`egress`]
//! guard, `answer` (from `read` or `stream`) and `status` make an answer or a fault out of what comes back, and `exchange`
//! joins them with what the tool's server posts by itself.

use std::sync::Arc;

use serde_json::Value;

use super::{BoxFuture, Executor, Invocation};
use crate::domain::tool::HttpSpec;
use crate::domain::{Failure, ToolOutput};

mod answer;
pub(super) mod argument_names;
mod body;
mod client;
mod deliver;
pub mod egress;
mod exchange;
pub(super) mod fault;
mod fetch;
mod fields;
mod headers;
mod limits;
mod multipart;
mod page;
mod payload;
mod plan;
mod read;
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
pub use deliver::Delivered;
pub use egress::Egress;
pub use limits::MAX_ANSWER_BYTES;
pub use page::{Page, PageError};
pub use reporting::Reporting;
pub use webhook::{MAX_WEBHOOK_ANSWER, WebhookAnswer, check_url, webhook_headers};

use plan::Plan;

/// Runs calls of one tool by a request each.
#[derive(Debug, Clone)]
pub struct HttpExecutor {
    plan: Arc<Plan>,
    client: HttpClient,
}

impl HttpExecutor {
    /// Reads and checks the request of a definition, so that no call meets a definition that cannot work. Placeholders are
    /// held against the properties of `input_schema`.
    ///
    /// # Errors
    /// Every fault: a JSON Pointer within the `executor` object (`/url`, `/headers/X-Key`), and a sentence.
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
