//! The assembled service: builds every concrete type and connects them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::auth::Auth;
use crate::callbacks;
use crate::config::Config;
use crate::domain::{Call, CallRequest, Clock, IdGenerator};
use crate::engine::{Engine, RecordError, Submission, SubmitError, Wait};
use crate::events::Bus;
use crate::executor::signing_key::SigningKey;
use crate::executor::{Reporting, Vault};
use crate::hooks::RustHook;
use crate::store::lock::ServerLock;
use crate::store::{Journal, Store};
use crate::telemetry::{Metrics, Tracer};
use crate::tool::BuiltinTool;
use crate::upstreams::Upstreams;

mod background;
mod changes;
mod error;
mod from_config;
mod retention;
mod shards;
mod signing;
mod start;
#[cfg(test)]
mod tests;

pub use crate::executor::{Invocation, Secrets};
pub use crate::policy::{Stack, StackLayer};
pub use error::{CallError, StartError};
pub use signing::{given_signing_secret, kept_signing_secret};

/// A builder of an [`App`].
pub struct Builder {
    config: Config,
    tools: Vec<BuiltinTool>,
    layers: Vec<StackLayer>,
    hooks: Vec<RustHook>,
    clock: Clock,
    ids: IdGenerator,
    secrets: Secrets,
    is_command_line: bool,
}

/// The running service without its HTTP server.
#[derive(Debug)]
pub struct App {
    /// The settings.
    pub config: Config,
    /// The engine, which runs calls.
    pub engine: Arc<Engine>,
    /// The store of the default tenant: calls, events and statistics.
    pub store: Store,
    /// The operator's access, with all permissions.
    pub operator: Access,
    /// Authentication and authorization.
    pub auth: Arc<Auth>,
    /// The bus that publishes committed events.
    pub bus: Bus,
    /// The clock.
    pub clock: Clock,
    /// The write path of calls.
    pub journal: Journal,
    /// The key that signs outgoing requests and the tokens of calls.
    pub signing_key: SigningKey,
    /// The addresses at which external tools report. The HTTP server sets the base once it listens.
    pub reporting: Reporting,
    /// Wakes the delivery of callbacks.
    pub callback_wakeup: Arc<Notify>,
    /// The encryption of preset values that are stored over the API.
    pub vault: Vault,
    /// The upstream MCP servers.
    pub upstreams: Arc<Upstreams>,
    /// The metrics.
    pub metrics: Metrics,
    /// The tracer.
    pub tracer: Tracer,
    /// The counts of callback deliveries.
    pub callback_counts: Arc<callbacks::Counts>,
    node: Arc<str>,
    background: CancellationToken,
    writer: JoinHandle<()>,
    heartbeat: JoinHandle<()>,
    callbacks: JoinHandle<()>,
    lock: Option<ServerLock>,
}

impl Builder {
    /// Adds a tool, or replaces the built-in tool of the same name.
    #[must_use]
    pub fn tool(mut self, tool: BuiltinTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Wraps every tool in a tower layer, outside of the layers of the service.
    #[must_use]
    pub fn wrap(mut self, layer: StackLayer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Adds a hook around calls.
    #[must_use]
    pub fn hook(mut self, hook: RustHook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Sets the source of time and ids. Defaults to the machine's clock and random ids.
    #[must_use]
    pub fn clock(self, clock: Clock, ids: IdGenerator) -> Self {
        Self { clock, ids, ..self }
    }

    /// Sets the source of secrets. Defaults to the environment.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Marks the app as a command-line client of a database that a service may use at the same time. It adopts no
    /// calls, deletes no expired data, and takes no server lock.
    #[must_use]
    pub fn command_line(self) -> Self {
        Self { is_command_line: true, ..self }
    }
}

impl App {
    /// Returns a builder of an app with these settings.
    #[must_use]
    pub fn builder(config: Config) -> Builder {
        Builder {
            config,
            tools: Vec::new(),
            layers: Vec::new(),
            hooks: Vec::new(),
            clock: Clock::system(),
            ids: IdGenerator::random(),
            secrets: Secrets::from_env(),
            is_command_line: false,
        }
    }

    /// Runs a call as the operator and waits for its end.
    ///
    /// # Errors
    /// Returns an error if the call was not accepted or not recorded. A failed call is not an error; its outcome
    /// contains the failure.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Arc<Call>, CallError> {
        let request = CallRequest { name: name.to_owned(), arguments: Some(arguments), ..CallRequest::default() };
        let submission = Submission { calls: vec![request], wait: Wait::Result, ..Submission::default() };
        let submitted = self.engine.submit_now(&self.operator, submission, &self.engine.ids(1), 0).map_err(
            |refusal| match refusal {
                SubmitError::ShuttingDown => CallError::ShuttingDown,
                _ => CallError::Overloaded,
            },
        )?;
        let ended = submitted.wait_all().await.map_err(|RecordError { .. }| CallError::NotRecorded)?;
        ended.into_iter().next().ok_or(CallError::NotRecorded)
    }

    /// Waits for running calls (for at most `drain_ms`), writes pending changes, and closes the database.
    pub async fn stop(self) {
        self.engine.drain(Duration::from_millis(self.config.server.drain_ms)).await;
        self.background.cancel();
        self.upstreams.stop().await;
        self.engine.registry().instances().close().await;
        self.journal.close();
        // The wait for an unavailable database is limited. Changes that are lost were never acknowledged.
        let callbacks = self.callbacks.abort_handle();
        let last_writes = async { tokio::join!(self.writer, self.callbacks) };
        if tokio::time::timeout(LAST_WRITES, last_writes).await.is_err() {
            callbacks.abort();
            tracing::error!("the database is unavailable; dropping unacknowledged changes");
        }
        // After this, the next start or another node adopts the remaining calls immediately.
        let signed_off = tokio::time::timeout(LAST_WRITES, async {
            // A last heartbeat would register the node again.
            let _ = self.heartbeat.await;
            self.store.release_shards(&self.node).await?;
            self.store.deregister(&self.node).await
        })
        .await;
        if !matches!(signed_off, Ok(Ok(()))) {
            tracing::warn!("the database is unavailable; remaining calls are adopted after the lease expires");
        }
        self.store.close().await;
        self.tracer.stop().await;
        drop(self.lock);
    }
}

/// Timeout for the last writes at shutdown.
const LAST_WRITES: Duration = Duration::from_secs(5);
