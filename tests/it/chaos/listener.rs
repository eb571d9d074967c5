//! One listener of all events, who comes back behind the last event that it saw.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{Client, Event, EventStream};

/// Between two connections.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it may take to hear the last events.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Listener {
    heard: Arc<watch::Sender<Vec<Event>>>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    /// Listens from the beginning on, at one of these doors after the other.
    pub fn start(doors: Vec<Client>) -> Self {
        let heard = Arc::new(watch::channel(Vec::new()).0);
        let task = tokio::spawn(listen(doors, heard.clone()));
        Self { heard, _task: AbortOnDropHandle::new(task) }
    }

    /// All that was heard, once it has the results of these calls; or what there is, if they do not come.
    pub async fn finish(self, ids: impl Iterator<Item = &String>) -> Vec<Event> {
        let expected: BTreeSet<&str> = ids.map(String::as_str).collect();
        let mut heard = self.heard.subscribe();
        let has_all = |heard: &Vec<Event>| {
            let results = heard.iter().filter(|event| event.is_result());
            let ended: BTreeSet<&str> = results.filter_map(|event| event.data["id"].as_str()).collect();
            expected.is_subset(&ended)
        };
        // The oracle tells what is missing.
        let _ = tokio::time::timeout(PATIENCE, heard.wait_for(has_all)).await;
        heard.borrow().clone()
    }
}

async fn listen(doors: Vec<Client>, heard: Arc<watch::Sender<Vec<Event>>>) {
    for client in doors.iter().cycle() {
        let last = heard.borrow().last().map_or_else(|| "0".to_owned(), |event: &Event| event.id.clone());
        let request = client.request(Method::GET, "/events").header("last-event-id", last);
        let answer = request.header("accept", "text/event-stream").send().await;
        if let Ok(answer) = answer
            && answer.status() == 200
        {
            // A connection that breaks is an end like any other.
            let whole = answer.bytes_stream().take_while(|chunk| std::future::ready(chunk.is_ok()));
            let mut stream = EventStream::new(whole);
            while let Some(event) = stream.next_at_any_time().await {
                heard.send_modify(|heard| heard.push(event));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
