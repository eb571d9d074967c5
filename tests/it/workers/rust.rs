//! The worker in Rust (`crates/worker`).

use std::future::pending;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolpost::tool::{NoArgs, Run, ToolError, async_tool_fn, tool_fn};
use toolpost_worker::{Worker, WorkerError};

use crate::support::service::BuiltinTool;
use crate::support::{Client, bounded, eventually};

mod life;
mod refused;
mod same;
mod slots;
mod stops;

/// A running worker. It is stopped abruptly when dropped.
struct Working {
    stop: CancellationToken,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Working {
    fn start(worker: Worker) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(worker.run(stop.clone().cancelled_owned()));
        Self { stop, task }
    }

    /// Starts a worker and waits until its tool `name` is registered.
    async fn with(client: &Client, worker: Worker, name: &str) -> Self {
        let working = Self::start(worker);
        registered(client, name).await;
        working
    }

    async fn ended(mut self) -> Result<(), WorkerError> {
        bounded("the end of the worker", &mut self.task).await.unwrap()
    }

    async fn stopped(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }
}

async fn registered(client: &Client, name: &str) {
    let path = format!("/tools/{name}");
    eventually("the tool", async || (client.get(&path).await.status == 200).then_some(())).await;
}

/// Returns a worker of the queue `q`.
fn worker(client: &Client, tools: impl IntoIterator<Item = BuiltinTool>) -> Worker {
    Worker::new(client.url("")).queue("q").tools(tools).poll_ms(500)
}

/// The arguments of `t`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    n: i64,
}

/// Returns a tool `t` that returns its argument `n`.
fn returns_n() -> BuiltinTool {
    tool_fn("t", "Returns n.", |number: Number| Ok(number.n)).with_definition(|definition| definition.idempotent())
}

/// Fires its token when it is dropped.
struct Signal(CancellationToken);

impl Drop for Signal {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Returns a tool `endless` that never ends, and the tokens that fire when it begins and when it is stopped.
fn endless() -> (BuiltinTool, CancellationToken, CancellationToken) {
    let (begun, stopped) = (CancellationToken::new(), CancellationToken::new());
    let (begins, stops) = (begun.clone(), stopped.clone());
    let tool = async_tool_fn("endless", "Never ends.", move |_: NoArgs, _: Run| {
        let (begins, stops) = (begins.clone(), stops.clone());
        async move {
            let _signal = Signal(stops);
            begins.cancel();
            pending::<Result<Value, ToolError>>().await
        }
    });
    (tool, begun, stopped)
}

/// Returns a tool `gated` that waits for the second token, and the token that fires when it begins.
fn gated() -> (BuiltinTool, CancellationToken, CancellationToken) {
    let (begun, gate) = (CancellationToken::new(), CancellationToken::new());
    let (begins, opened) = (begun.clone(), gate.clone());
    let tool = async_tool_fn("gated", "Waits.", move |_: NoArgs, _: Run| {
        let (begins, opened) = (begins.clone(), opened.clone());
        async move {
            begins.cancel();
            opened.cancelled().await;
            Ok("through")
        }
    });
    (tool, begun, gate)
}

async fn accepted(client: &Client, name: &str) -> String {
    client.accepted(json!({"name": name, "wait": "accepted"})).await
}
