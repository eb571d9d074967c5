//! The stored state, read through the API.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use crate::support::{Client, Event};

/// Number of streams that are read concurrently.
const READERS: usize = 8;

/// All calls, their events and their stats.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// All pages of `GET /tool-calls`.
    pub calls: Vec<Value>,
    /// The complete `GET /tool-calls/{id}/events` by call id.
    pub histories: BTreeMap<String, Vec<Event>>,
    /// `GET /stats`.
    pub stats: Value,
}

impl World {
    /// Reads the stored state. Calls that have not ended have no history here, because their streams do not end.
    pub async fn read(client: &Client) -> Self {
        let calls = calls(client).await;
        let ended = calls.iter().filter(|call| super::is_terminal(call));
        let ids: Vec<String> = ended.map(|call| super::text(call, "id").to_owned()).collect();
        let histories = stream::iter(ids).map(|id| async {
            let events = client.events(&format!("/tool-calls/{id}/events")).await.rest().await;
            (id, events)
        });
        let histories = histories.buffer_unordered(READERS).collect().await;
        Self { calls, histories, stats: client.read("/stats").await }
    }
}

async fn calls(client: &Client) -> Vec<Value> {
    let (mut all, mut path) = (Vec::new(), "/tool-calls?limit=500".to_owned());
    loop {
        let page = client.read(&path).await;
        all.extend(page["tool_calls"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else { return all };
        path = format!("/tool-calls?limit=500&cursor={cursor}");
    }
}
