//! A worker with the tool `echo`, for measurements: `echo URL QUEUE CONCURRENCY`. It runs until SIGINT or SIGTERM.

use serde_json::Value;
use toolpost_worker::tool::tool_fn;
use toolpost_worker::{Worker, stop_signal};

/// Any arguments.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Anything {
    /// The members of the answer.
    #[serde(flatten)]
    members: serde_json::Map<String, Value>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".into());
    let queue = arguments.next().unwrap_or_else(|| "rust".into());
    let concurrency = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let echo = tool_fn("echo_worker", "Returns its arguments.", |anything: Anything| Ok(anything.members))
        .with_definition(|definition| definition.read_only().closed_world());
    let worker = Worker::new(url).queue(queue).tool(echo).concurrency(concurrency);
    let worker = match std::env::var("TOOLPOST_API_KEY") {
        Ok(key) => worker.key(key),
        Err(_) => worker,
    };
    Ok(worker.run(stop_signal()).await?)
}
