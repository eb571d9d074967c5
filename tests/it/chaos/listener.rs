//! A subscriber to all events that reconnects after the last event that it received.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{Client, Event, EventStream, LIMIT};

/// Pause between two connections.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Listener {
    heard: Arc<watch::Sender<Vec<Event>>>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    /// Subscribes from the first event on, through each of these nodes in turn.
    pub fn start(doors: Vec<Client>) -> Self {
        let heard = Arc::new(watch::channel(Vec::new()).0);
        let task = tokio::spawn(listen(doors, heard.clone()));
        Self { heard, _task: AbortOnDropHandle::new(task) }
    }

    /// Waits for the results of these calls and returns all events; if results are missing, returns the events so far.
    pub async fn finish(self, ids: impl Iterator<Item = &String>) -> Vec<Event> {
        let expected: BTreeSet<&str> = ids.map(String::as_str).collect();
        let mut heard = self.heard.subscribe();
        let has_all = |heard: &Vec<Event>| {
            let results = heard.iter().filter(|event| event.is_result());
            let ended: BTreeSet<&str> = results.filter_map(|event| event.data["id"].as_str()).collect();
            expected.is_subset(&ended)
        };
        // The oracle reports missing results.
        let _ = tokio::time::timeout(LIMIT, heard.wait_for(has_all)).await;
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
            // A broken connection ends the stream like any other end.
            let whole = answer.bytes_stream().take_while(|chunk| std::future::ready(chunk.is_ok()));
            let mut stream = EventStream::new(whole);
            while let Some(event) = stream.next_at_any_time().await {
                heard.send_modify(|heard| heard.push(event));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
