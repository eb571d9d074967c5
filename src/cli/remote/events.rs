//! An event stream that is read by a task of its own, and resumed after a lost connection.

use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::{Query, Remote};
use crate::cli::Exit;
use crate::cli::error::CliError;
use crate::domain::json;
use crate::formats::sse::Parser;

/// Maximum length of an event, in bytes.
const MAX_EVENT: usize = 64 * 1024 * 1024;
/// Number of updates that wait for the display.
const QUEUE: usize = 256;
/// Delay before the first attempt to resume, which doubles with each attempt in a row.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Maximum delay between attempts to resume.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Number of attempts in a row to resume, which take about half a minute.
const MAX_ATTEMPTS: u32 = 12;
/// Duration after which a connection without events counts as stable.
const STABLE: Duration = Duration::from_secs(10);

/// An event of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceEvent {
    /// The id from which a stream can be resumed.
    pub id: String,
    pub event: String,
    pub data: Value,
}

/// A change of a subscription.
#[derive(Debug)]
pub enum StreamUpdate {
    /// The stream is open, for the first time or again.
    Connected,
    /// The connection is lost and will be opened again.
    Lost,
    Event(ServiceEvent),
    /// The stream cannot be opened or resumed.
    Failed(CliError),
}

/// An event stream to follow.
#[derive(Debug)]
pub struct Subscription {
    /// The path of the stream.
    pub path: Vec<String>,
    /// The filter.
    pub query: Query,
    /// The id of the last known event.
    pub after: Option<String>,
}

impl Remote {
    /// Follows an event stream until the receiver is dropped.
    pub fn subscribe(&self, subscription: Subscription) -> Receiver<StreamUpdate> {
        let (sender, receiver) = channel(QUEUE);
        let reader = StreamReader { remote: self.clone(), subscription, sender };
        tokio::spawn(reader.run());
        receiver
    }
}

struct StreamReader {
    remote: Remote,
    subscription: Subscription,
    sender: Sender<StreamUpdate>,
}

/// The error of a closed receiver.
struct UnsubscribedError;

impl StreamReader {
    async fn run(self) {
        let sender = self.sender.clone();
        tokio::select! {
            _ = self.follow() => {}
            () = sender.closed() => {}
        }
    }

    async fn follow(mut self) -> Result<(), UnsubscribedError> {
        let (mut attempts, mut is_known) = (0, false);
        loop {
            let error = match self.open().await {
                Ok(response) => {
                    self.send(StreamUpdate::Connected).await?;
                    is_known = true;
                    let opened = Instant::now();
                    match self.read(response).await? {
                        true => attempts = 0,
                        false if opened.elapsed() >= STABLE => attempts = 0,
                        false => {}
                    }
                    CliError::unavailable(format!("lost the event stream of {}", self.remote.name()))
                        .hint("The calls continue. Run the command again to follow them.")
                }
                Err(error) => error,
            };
            // A rejected request stays rejected, and a first attempt fails early.
            if !is_known || error.exit != Exit::Unavailable || attempts >= MAX_ATTEMPTS {
                return self.send(StreamUpdate::Failed(error)).await;
            }
            self.send(StreamUpdate::Lost).await?;
            tokio::time::sleep(FIRST_DELAY.saturating_mul(1 << attempts).min(MAX_DELAY)).await;
            attempts += 1;
        }
    }

    async fn open(&self) -> Result<Response, CliError> {
        let Subscription { path, query, after } = &self.subscription;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut request = self.remote.request(Method::GET, &path, query).header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = self.remote.send(request).await?;
        let media_type = response.headers().get(reqwest::header::CONTENT_TYPE);
        let is_stream = media_type.is_some_and(|media_type| media_type.as_bytes().starts_with(b"text/event-stream"));
        if is_stream { Ok(response) } else { Err(self.remote.unexpected("it is not an event stream")) }
    }

    /// Reads events until the connection ends. Returns `true` if at least one event was received.
    async fn read(&mut self, mut response: Response) -> Result<bool, UnsubscribedError> {
        let mut parser = Parser::new(MAX_EVENT);
        let mut has_events = false;
        // An event that is incomplete at the end is sent again after the resumption.
        while let Ok(Some(chunk)) = response.chunk().await {
            let mut input = &chunk[..];
            while let Ok(Some(event)) = parser.next(&mut input) {
                let id = String::from_utf8_lossy(parser.last_event_id()).into_owned();
                // Data of the service is always JSON.
                let data = json::parse(&event.data).unwrap_or_default();
                let event = String::from_utf8_lossy(&event.name).into_owned();
                self.send(StreamUpdate::Event(ServiceEvent { id: id.clone(), event, data })).await?;
                has_events = true;
                self.subscription.after = Some(id).filter(|id| !id.is_empty()).or(self.subscription.after.take());
            }
            if !input.is_empty() {
                // An event is larger than the limit.
                break;
            }
        }
        Ok(has_events)
    }

    async fn send(&self, update: StreamUpdate) -> Result<(), UnsubscribedError> {
        self.sender.send(update).await.map_err(|_| UnsubscribedError)
    }
}
