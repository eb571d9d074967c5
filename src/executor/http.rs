//! Tools that are HTTP servers: the request of a definition, made once for every run, and its answer.
//!
//! `plan` makes the request out of a definition and the arguments, `client` sends it through the [`egress`] guard, `read`
//! and `status` make an answer or a fault out of what comes back.

use std::sync::Arc;

use reqwest::header::AUTHORIZATION;
use serde_json::Value;

use super::{BoxFuture, Executor, Invocation};
use crate::domain::tool::HttpSpec;
use crate::domain::{Answer, Failure};

mod body;
mod client;
mod deliver;
pub mod egress;
mod fault;
mod headers;
mod known;
mod plan;
mod read;
mod status;
mod target;
mod template;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;

pub use client::{HttpClient, install_crypto_provider};
pub use deliver::Delivered;
pub use egress::Egress;
pub use read::MAX_ANSWER_BYTES;

use fault::Fault;
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
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<Answer, Failure>> {
        let Self { plan, client } = self.clone();
        Box::pin(async move {
            exchange(&plan, &client, &invocation).await.map_err(|fault| fault.into_failure(&invocation.name))
        })
    }
}

/// One request and its answer. The details of a fault name the URL as it was declared: what stands in the placeholders
/// may be secret.
async fn exchange(plan: &Plan, client: &HttpClient, invocation: &Invocation) -> Result<Answer, Fault> {
    let answered = async {
        let outgoing = plan.request(invocation, &client.secrets).map_err(Fault::unsent)?;
        let credential = outgoing.private.get(AUTHORIZATION).cloned();
        let response = client.send(outgoing).await?;
        if response.status().is_success() {
            read::answer(response).await
        } else {
            Err(status::fault(response, client.clock.now(), credential.as_ref()).await)
        }
    };
    answered.await.map_err(|mut fault| {
        fault.details.insert("url".to_owned(), plan.declared_url().into());
        fault
    })
}
