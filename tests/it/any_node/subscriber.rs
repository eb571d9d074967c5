//! A subscriber to events behind a gateway. It disconnects after a few events and continues at another node.

use futures_util::StreamExt;
use reqwest::{Method, Response};
use tokio::sync::watch;

use crate::gateway::NODE_HEADER;
use crate::support::seeded::Seeded;
use crate::support::{Client, Event, EventStream};

/// A subscriber, and everything that it has received.
pub struct Subscriber {
    gateway: Client,
    path: String,
    /// Maximum number of events on one connection.
    max_events: u64,
    chance: Seeded,
    results: usize,
    /// Whether it insists on another node for each connection.
    pub moves: bool,
    /// The events of all connections.
    pub events: Vec<Event>,
    /// The node of each connection.
    pub nodes: Vec<String>,
}

impl Subscriber {
    pub fn new(gateway: &Client, path: &str, max_events: u64, chance: Seeded) -> Self {
        let (gateway, path) = (gateway.without_reuse(), path.to_owned());
        Self { gateway, path, max_events, chance, results: 0, moves: true, events: Vec::new(), nodes: Vec::new() }
    }

    /// Receives events from the beginning, until it has received the number of results in `expected`.
    pub async fn follow(mut self, mut expected: watch::Receiver<usize>) -> Self {
        loop {
            let mut stream = self.connect().await;
            for _ in 0..self.chance.within(1..self.max_events) {
                let next = tokio::select! {
                    biased;
                    () = reached(&mut expected, self.results) => return self,
                    next = stream.next_at_any_time() => next,
                };
                let Some(event) = next else { break };
                self.results += usize::from(event.is_result());
                self.events.push(event);
            }
        }
    }

    /// Connects, until the gateway selects another node than for the previous connection if it insists on that.
    async fn connect(&mut self) -> EventStream {
        loop {
            let last = self.events.last().map_or("0", |event| &event.id);
            let request = self.gateway.request(Method::GET, &self.path).header("last-event-id", last);
            let request = request.header("accept", "text/event-stream");
            let answer = request.send().await.unwrap_or_else(|error| panic!("{}: {error:?}", self.path));
            if is_draining(&answer) {
                continue;
            }
            let node = node_of(&answer);
            assert_eq!(answer.status(), 200, "{} at {node}", self.path);
            if !self.moves || self.nodes.last() != Some(&node) {
                self.nodes.push(node);
                // A node that ends breaks its connections.
                return EventStream::new(answer.bytes_stream().take_while(|chunk| std::future::ready(chunk.is_ok())));
            }
        }
    }
}

/// Returns the address of the node that answered; empty if the gateway answered.
pub fn node_of(answer: &Response) -> String {
    let tried = answer.headers().get(NODE_HEADER).map_or("", |tried| tried.to_str().unwrap());
    tried.rsplit(", ").next().unwrap_or_default().to_owned()
}

/// Returns `true` for the only rejection that a caller of several nodes must expect.
pub fn is_draining(answer: &Response) -> bool {
    answer.status() == 503 && answer.headers().contains_key("retry-after")
}

async fn reached(expected: &mut watch::Receiver<usize>, results: usize) {
    if expected.wait_for(|expected| results >= *expected).await.is_err() {
        // The number is not going to change.
        std::future::pending::<()>().await;
    }
}
