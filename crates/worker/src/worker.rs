//! [`Worker`]: its settings and its life.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolpost_core::domain::ToolDefinition;
use toolpost_tool::tool::{BuiltinTool, ToolSet};

use crate::results::Results;
use crate::running::Running;
use crate::service::Service;
use crate::{WorkerError, claims, leases};

const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The longest wait that a claim may have, in milliseconds.
const MAX_POLL_MS: u64 = 60_000;
/// The time after which an unused instance of a session is disposed of, as in the service.
const INSTANCE_IDLE: Duration = Duration::from_secs(30 * 60);
const INSTANCE_CHECK: Duration = Duration::from_secs(60);

/// A worker: it fetches the calls of one queue and runs them with its tools.
#[derive(Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    url: String,
    key: Option<String>,
    queue: String,
    name: Option<String>,
    tools: Vec<BuiltinTool>,
    concurrency: usize,
    lease_ms: u64,
    drain_ms: u64,
    poll_ms: u64,
    registers: bool,
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) tools: ToolSet,
    /// The definitions to register, if the worker registers them.
    pub(crate) definitions: Option<Vec<Value>>,
    pub(crate) running: Running,
    pub(crate) results: Results,
    pub(crate) queue: String,
    pub(crate) name: String,
    /// A permit for each tool that may run. A call releases its own when its tool has ended, and then sends the result.
    pub(crate) slots: Arc<Semaphore>,
    /// Maximum number of calls that run or send their results.
    pub(crate) max_calls: usize,
    pub(crate) poll: Duration,
}

impl Worker {
    /// Creates a worker of the service at this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key: None,
            queue: "default".into(),
            name: None,
            tools: Vec::new(),
            concurrency: 8,
            lease_ms: 30_000,
            drain_ms: 25_000,
            poll_ms: 5_000,
            registers: true,
        }
    }

    /// Creates a worker of the service at `TOOLPOST_URL`, by default `http://127.0.0.1:8080`, with the key of
    /// `TOOLPOST_API_KEY`.
    pub fn from_env() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self { key: set("TOOLPOST_API_KEY"), ..Self::new(set("TOOLPOST_URL").unwrap_or_else(|| DEFAULT_URL.into())) }
    }

    /// Sets the key. It needs the scope `work`, and `tools` to register tools.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the queue whose calls the worker runs. Default: `default`.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..self }
    }

    /// Sets the name of the worker, which is unique among the workers of the queue. Default: the host, the process and a
    /// random number.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: BuiltinTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = BuiltinTool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the maximum number of tools that run at once. At most twice as many calls run or send their results. Default: 8.
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// Sets the time after which the service considers a silent worker lost, in milliseconds. Default: 30 s.
    pub fn lease_ms(self, lease_ms: u64) -> Self {
        Self { lease_ms, ..self }
    }

    /// Sets how long a stopping worker waits for its running calls, in milliseconds. Default: 25 s. Then they are left to
    /// their leases.
    pub fn drain_ms(self, drain_ms: u64) -> Self {
        Self { drain_ms, ..self }
    }

    /// Sets how long a claim waits for a call, in milliseconds, at most a minute. Default: 5 s. A stopping worker waits for
    /// its last claim, whose calls would be lost until their leases end.
    pub fn poll_ms(self, poll_ms: u64) -> Self {
        Self { poll_ms, ..self }
    }

    /// Sets whether the worker registers its tools. Default: yes. If they are registered already, the key needs the scope
    /// `work` only.
    pub fn register(self, registers: bool) -> Self {
        Self { registers, ..self }
    }

    /// Registers the tools, then claims and runs calls until `shutdown` completes and the running calls have ended.
    ///
    /// While the service is unavailable, the worker waits for it. Dropping the future stops all calls without a result.
    ///
    /// # Errors
    /// Returns a [`WorkerError`] for what only the operator of the worker can fix: an invalid setting, or a request that
    /// the service refuses.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        let drain = Duration::from_millis(self.drain_ms);
        let worker = Arc::new(self.build()?);
        let mut calls = JoinSet::new();
        let ended = {
            let serving = async {
                let ended = claim_until(&worker, &mut calls, shutdown).await;
                if tokio::time::timeout(drain, finish(&mut calls)).await.is_err() {
                    tracing::warn!(calls = calls.len(), "stopped; left running calls to their leases");
                }
                ended
            };
            tokio::select! {
                ended = serving => ended,
                never = leases::keep(&worker) => match never {},
                never = release_idle(&worker.tools) => match never {},
            }
        };
        worker.running.abandon_all();
        calls.shutdown().await;
        worker.tools.close().await;
        ended
    }

    fn build(self) -> Result<Shared, WorkerError> {
        self.check()?;
        let name = self.name.unwrap_or_else(default_name);
        let service = Service::new(&self.url, self.key.as_deref(), self.queue.clone(), name.clone())?;
        let tools = ToolSet::new(self.tools);
        let executor = json!({"type": "worker", "queue": self.queue, "lease_ms": self.lease_ms});
        let definitions = self.registers.then(|| {
            let definitions: Result<Vec<Value>, _> =
                tools.definitions().map(|definition| offered(definition, &executor)).collect();
            definitions.map_err(|error| WorkerError::InvalidSetting(error.to_string()))
        });
        Ok(Shared {
            service,
            tools,
            definitions: definitions.transpose()?,
            running: Running::default(),
            results: Results::default(),
            queue: self.queue,
            name,
            slots: Arc::new(Semaphore::new(self.concurrency)),
            max_calls: self.concurrency.saturating_mul(2),
            poll: Duration::from_millis(self.poll_ms),
        })
    }

    fn check(&self) -> Result<(), WorkerError> {
        let invalid = |message: String| Err(WorkerError::InvalidSetting(message));
        if self.tools.is_empty() {
            return invalid("it has no tools; add them with `Worker::tool`".into());
        }
        let name = |tool: &BuiltinTool| tool.definition.name.clone();
        for (index, tool) in self.tools.iter().enumerate() {
            if self.tools[..index].iter().any(|earlier| name(earlier) == name(tool)) {
                return invalid(format!("it has two tools \"{}\"", name(tool)));
            }
        }
        if self.concurrency == 0 {
            return invalid("`concurrency` must be at least 1, got 0".into());
        }
        if self.concurrency > Semaphore::MAX_PERMITS {
            return invalid(format!(
                "`concurrency` must be at most {}, got {}",
                Semaphore::MAX_PERMITS,
                self.concurrency
            ));
        }
        if self.poll_ms > MAX_POLL_MS {
            return invalid(format!("`poll_ms` must be at most {MAX_POLL_MS}, got {}", self.poll_ms));
        }
        Ok(())
    }
}

/// Claims calls until `shutdown` completes.
async fn claim_until(
    worker: &Arc<Shared>,
    calls: &mut JoinSet<()>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let stopping = CancellationToken::new();
    let stop = async {
        shutdown.await;
        tracing::info!(worker = worker.name, "stopping");
        stopping.cancel();
        std::future::pending::<Infallible>().await
    };
    // A stop comes first: a call that ends at the same moment is followed by no claim.
    tokio::select! {
        biased;
        never = stop => match never {},
        ended = claims::run(worker, calls, &stopping) => ended,
    }
}

/// Waits until all calls have ended.
async fn finish(calls: &mut JoinSet<()>) {
    while calls.join_next().await.is_some() {}
}

/// Disposes of instances of sessions that are not used any more.
async fn release_idle(tools: &ToolSet) -> Infallible {
    loop {
        tokio::time::sleep(INSTANCE_CHECK).await;
        tools.release_idle(INSTANCE_IDLE);
    }
}

/// Returns the definition as the worker offers it, with the values of its presets.
fn offered(definition: &ToolDefinition, executor: &Value) -> Result<Value, serde_json::Error> {
    let mut offered: Value = serde_json::from_str(&definition.to_stored()?)?;
    offered["executor"] = executor.clone();
    Ok(offered)
}

fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host: String = host.trim().chars().filter(|letter| !letter.is_control()).take(100).collect();
    let host = if host.is_empty() { "worker" } else { &host };
    let random = getrandom::u32().unwrap_or_default() & 0x00ff_ffff;
    format!("{host}-{}-{random:06x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use toolpost_tool::tool::{NoArgs, tool_fn};

    use super::*;

    fn tool(name: &str) -> BuiltinTool {
        tool_fn(name, "Tests.", |_: NoArgs| Ok(()))
    }

    async fn error_of(worker: Worker) -> String {
        worker.run(std::future::ready(())).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn invalid_settings_are_errors() {
        let worker = || Worker::new("http://127.0.0.1:1");
        assert!(error_of(worker()).await.contains("no tools"));
        assert!(error_of(worker().tool(tool("a")).tool(tool("a"))).await.contains("two tools \"a\""));
        assert!(error_of(worker().tool(tool("a")).concurrency(0)).await.contains("`concurrency`"));
        assert!(error_of(worker().tool(tool("a")).poll_ms(60_001)).await.contains("`poll_ms`"));
        assert!(error_of(Worker::new("x").tool(tool("a"))).await.starts_with("invalid address `x`"));
        assert!(error_of(worker().tool(tool("a")).key("a\nb")).await.contains("the key"));
    }

    #[tokio::test]
    async fn stopped_worker_ends_although_the_service_is_unavailable() {
        // Nothing listens on this port.
        let worker = Worker::new("http://127.0.0.1:1").tool(tool("a"));
        assert_eq!(worker.run(std::future::ready(())).await, Ok(()));
    }

    #[test]
    fn names_differ() {
        assert_ne!(default_name(), default_name());
    }
}
