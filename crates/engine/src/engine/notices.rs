//! Notices between nodes, about what only the memory of a node knows: calls that are not stored yet, and the
//! connections of MCP sessions.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::Instant;
use uuid::Uuid;

use toolpost_core::domain::IdGenerator;
use toolpost_store::store::{StoreError, Stores};

/// Capacity of the channel of notices; a receiver that lags further behind misses notices.
const CAPACITY: usize = 1024;
/// Maximum time that a sender waits until all nodes have processed a notice. A node that is lost or frozen processes
/// none.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two checks whether a notice is processed.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A notice to all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// Sessions were aborted: their calls end.
    SessionsAborted {
        /// The tenant of the sessions.
        tenant: Arc<str>,
        /// The ids of the sessions.
        sessions: Vec<Arc<str>>,
    },
    /// The client of an MCP session cancelled a request.
    McpRequestCancelled {
        /// The id of the session.
        session: Arc<str>,
        /// The id of the request.
        request: Value,
    },
    /// The client of an MCP session disconnected from a call and did not come back.
    McpCallAbandoned {
        /// The id of the session.
        session: Arc<str>,
        /// The id of the call.
        call: Uuid,
    },
    /// The client of an MCP session ended it.
    McpSessionEnded {
        /// The id of the session.
        session: Arc<str>,
    },
}

/// The notices of a node.
#[derive(Debug)]
pub struct NoticeBoard {
    stores: Stores,
    ids: IdGenerator,
    node: Arc<str>,
    received: broadcast::Sender<Notice>,
}

impl NoticeBoard {
    /// Creates the board of a node.
    pub(super) fn new(stores: Stores, ids: IdGenerator, node: Arc<str>) -> Self {
        Self { stores, ids, node, received: broadcast::Sender::new(CAPACITY) }
    }

    /// Returns the notices of other nodes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.received.subscribe()
    }

    /// Stores a notice for all other nodes. They process it soon.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.store(notice).await.map(drop)
    }

    /// Stores a notice for all other nodes, and waits until they have processed it. After [`PROCESS_TIMEOUT`] the notice
    /// is withdrawn from the others, so that it never affects what happens later.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub(super) async fn post_and_wait(&self, notice: &Notice) -> Result<(), StoreError> {
        let Some(id) = self.store(notice).await? else { return Ok(()) };
        let until = Instant::now() + PROCESS_TIMEOUT;
        while self.stores.awaits_notice(id).await? {
            if Instant::now() >= until {
                return self.stores.withdraw_notice(id).await;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Stores a notice. Returns its id, if there are other nodes.
    async fn store(&self, notice: &Notice) -> Result<Option<Uuid>, StoreError> {
        let body = serde_json::to_string(notice).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let id = self.ids.next();
        // A signal to the other nodes belongs here; without one, they read their notices soon.
        let nodes = self.stores.post_notice(id, &self.node, &body).await?;
        Ok((nodes > 0).then_some(id))
    }

    /// Passes the notices of other nodes to `apply` and to the subscribers.
    pub(super) async fn process(&self, apply: impl Fn(&Notice)) -> Result<(), StoreError> {
        loop {
            let page = self.stores.notices(&self.node).await?;
            if page.is_empty() {
                return Ok(());
            }
            for (id, body) in page {
                match serde_json::from_str(&body) {
                    Ok(notice) => {
                        apply(&notice);
                        // Without a subscriber, no MCP endpoint runs.
                        let _ = self.received.send(notice);
                    }
                    // Sent by a node of another version.
                    Err(error) => tracing::debug!(%error, "cannot read a notice of another node"),
                }
                self.stores.forget_notice(&self.node, id).await?;
            }
        }
    }
}
