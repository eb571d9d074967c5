//! Subscribers to single calls, connected to another node than the node that is about to fail.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use super::client::Ask;
use super::load::Load;
use crate::oracle::{AGAIN, ONCE, READ, WatchedStream};
use crate::support::{Client, EventStream, LIMIT, eventually};

/// Number of calls that are started for watchers before a node fails.
const CALLS: usize = 12;
/// Minimum number of these calls that run when the node fails.
const RUNNING: usize = 4;

#[derive(Default)]
pub struct Watchers {
    seen: Arc<Mutex<Vec<WatchedStream>>>,
    tasks: Vec<AbortOnDropHandle<()>>,
    rounds: usize,
}

impl Watchers {
    /// Starts calls on one node, and watches all running calls from another node.
    pub async fn attach(&mut self, load: &mut Load, node: usize, other: &Client) {
        self.rounds += 1;
        for number in 0..CALLS {
            let key = format!("watched-{}/request-{number}", self.rounds);
            load.also(Ask::accepted(key, [AGAIN, READ, ONCE][number % 3], "long"), node);
        }
        let running = eventually("running calls", || async {
            let running = running(other).await?;
            (running.len() >= RUNNING).then_some(running)
        });
        for id in running.await {
            let (client, seen) = (other.clone(), self.seen.clone());
            self.tasks.push(AbortOnDropHandle::new(tokio::spawn(watch(client, id, seen))));
        }
    }

    /// Waits until all watched calls have ended, and returns the observations.
    pub async fn finish(self) -> Vec<WatchedStream> {
        // The oracle reports missing ends.
        let _ = tokio::time::timeout(LIMIT, join_all(self.tasks)).await;
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the ids of the running calls as the node knows them, or `None` if it does not answer.
async fn running(client: &Client) -> Option<Vec<String>> {
    let answer = client.request(Method::GET, "/tool-calls?status=DOING&limit=50").send().await.ok()?;
    let page: Value = answer.json().await.ok()?;
    let ids = page["tool_calls"].as_array()?.iter().filter_map(|call| Some(call["id"].as_str()?.to_owned()));
    Some(ids.collect())
}

async fn watch(client: Client, id: String, seen: Arc<Mutex<Vec<WatchedStream>>>) {
    let request = client.request(Method::GET, &format!("/tool-calls/{id}/events"));
    let Ok(answer) = request.header("accept", "text/event-stream").send().await else { return };
    if answer.status() != 200 {
        return;
    }
    // The connection may break with a later node; the events received until then count.
    let whole = answer.bytes_stream().take_while(|chunk| std::future::ready(chunk.is_ok()));
    let mut stream = EventStream::new(whole);
    let mut events = Vec::new();
    while let Some(event) = stream.next_at_any_time().await {
        events.push(event);
    }
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(WatchedStream { id, events });
}
