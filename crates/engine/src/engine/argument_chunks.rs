//! Chunks of streamed arguments, on any node.
//!
//! The node that runs the call applies each chunk to its [`ArgumentStream`] and decides on the answer. Another node
//! stores the chunk in the inbox and waits for the answer, which its owner stores in place of the chunk. The number of a
//! chunk makes its repetition harmless.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::control_message::ControlMessage;
use super::live::LiveCalls;
use crate::arguments::stream::{ArgumentChunk, ArgumentStream, ArgumentStreamError, CompleteArguments};
use toolpost_store::store::inbox::Message;
use toolpost_store::store::{StoreError, Stores};

/// Interval between two reads while a call of this node expects chunks and other nodes run.
const OPEN_INTERVAL: Duration = Duration::from_millis(20);
/// Number of these intervals between two reads at all other times.
const QUIET_INTERVALS: u32 = 25;

/// The answer to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkAnswer {
    /// The chunk was appended, or is a repetition. The number is that of the last chunk.
    Accepted(u64),
    /// The chunk was rejected.
    Refused(ArgumentStreamError),
    /// The arguments are complete, but they are not recorded yet.
    NotRecorded,
    /// The node that runs the call did not answer in time. It may have appended the chunk.
    Unanswered,
    /// The call does not exist.
    NoSuchCall,
}

/// A signal that the complete arguments are recorded. Dropped if the call has ended or another node has adopted it.
type Recording = oneshot::Receiver<()>;

impl ArgumentChunk {
    /// Applies the chunk to the stream of a call on this node. Returns the number of the last chunk, and for complete
    /// arguments the signal of their record.
    fn push(&self, stream: &ArgumentStream) -> Result<(u64, Option<Recording>), ArgumentStreamError> {
        let seq = stream.push(self.seq, &self.delta)?;
        if !self.is_final {
            return Ok((seq, None));
        }
        let (recorded, recording) = oneshot::channel();
        stream.complete(CompleteArguments { recorded: Some(recorded), ..CompleteArguments::default() })?;
        Ok((seq, Some(recording)))
    }

    /// Applies the chunk to the stream of a call on this node, and waits until complete arguments are recorded, at most
    /// for `timeout`.
    pub(super) async fn apply(&self, stream: &ArgumentStream, timeout: Duration) -> ChunkAnswer {
        match self.push(stream) {
            Ok((seq, None)) => ChunkAnswer::Accepted(seq),
            Ok((seq, Some(recording))) => wait_recorded(seq, recording, timeout).await,
            Err(error) => ChunkAnswer::Refused(error),
        }
    }
}

async fn wait_recorded(seq: u64, recording: Recording, timeout: Duration) -> ChunkAnswer {
    match tokio::time::timeout(timeout, recording).await {
        Ok(Ok(()) | Err(_)) => ChunkAnswer::Accepted(seq),
        Err(_) => ChunkAnswer::NotRecorded,
    }
}

/// The chunks that other nodes received for the calls of this node.
#[derive(Debug)]
pub(super) struct ChunkReceiver {
    stores: Stores,
    node: Arc<str>,
    live: LiveCalls,
    /// Maximum time to record complete arguments.
    timeout: Duration,
    /// The answers to applied chunks that are still stored, so that no chunk is applied twice; `None` while the
    /// arguments are being recorded.
    answers: Answers,
    /// `true` if other nodes run.
    has_peers: AtomicBool,
}

type Answers = Arc<Mutex<HashMap<Uuid, Option<ChunkAnswer>>>>;

impl ChunkReceiver {
    /// Creates the receiver of a node.
    pub fn new(stores: Stores, node: Arc<str>, live: LiveCalls, timeout: Duration) -> Self {
        Self { stores, node, live, timeout, answers: Answers::default(), has_peers: AtomicBool::new(false) }
    }

    /// Records whether other nodes run.
    pub fn note_peers(&self, has_peers: bool) {
        self.has_peers.store(has_peers, Ordering::Relaxed);
    }

    /// Applies the chunks that other nodes store, until `stop` fires. Only one task may run this.
    pub async fn run(&self, stop: CancellationToken) {
        let mut intervals = 0;
        loop {
            // A signal that another node has stored a chunk belongs into this `select!`, instead of the short interval.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(OPEN_INTERVAL) => {}
            }
            intervals += 1;
            if intervals < QUIET_INTERVALS && !self.expects_chunks() {
                continue;
            }
            intervals = 0;
            if let Err(error) = self.apply_stored().await {
                tracing::debug!(%error, "cannot read the chunks of other nodes");
            }
        }
    }

    fn expects_chunks(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
            && self.live.calls().values().any(|signals| signals.arguments.as_ref().is_some_and(ArgumentStream::is_open))
    }

    async fn apply_stored(&self) -> Result<(), StoreError> {
        let (mut after, mut stored) = (Uuid::nil(), HashSet::new());
        loop {
            let page = self.stores.chunks(&self.node, after).await?;
            let Some((last, ..)) = page.last() else { break };
            after = *last;
            for (id, message, has_ended) in page {
                stored.insert(id);
                self.apply(id, &message, has_ended).await?;
            }
        }
        if !stored.is_empty() {
            // Another node has started since the last heartbeat.
            self.note_peers(true);
        }
        // Chunks that are stored no longer were answered or withdrawn.
        answers(&self.answers).retain(|id, answer| answer.is_none() || stored.contains(id));
        Ok(())
    }

    /// Applies a chunk, unless it was applied before, and stores the answer.
    async fn apply(&self, id: Uuid, message: &Message, has_ended: bool) -> Result<(), StoreError> {
        let known = answers(&self.answers).get(&id).copied();
        let answer = match known {
            Some(Some(answer)) => answer,
            Some(None) => return Ok(()),
            None => {
                let stream = match self.live.get(message.call) {
                    Some(signals) => signals.arguments.clone(),
                    None if has_ended => None,
                    // The call is left to the node that adopts it.
                    None => return Ok(()),
                };
                let Some(answer) = self.push(id, message, stream) else { return Ok(()) };
                answers(&self.answers).insert(id, Some(answer));
                answer
            }
        };
        store_answer(&self.stores, id, answer).await
    }

    /// Applies a chunk to its stream. Returns no answer if the arguments are being recorded first.
    fn push(&self, id: Uuid, message: &Message, stream: Option<ArgumentStream>) -> Option<ChunkAnswer> {
        let chunk = match serde_json::from_str(&message.body) {
            Ok(ControlMessage::Chunk { chunk }) => chunk,
            // Stored by another version of the service.
            _ => return Some(ChunkAnswer::Unanswered),
        };
        let pushed = stream.as_ref().ok_or(ArgumentStreamError::Closed).and_then(|stream| chunk.push(stream));
        let (seq, recording) = match pushed {
            Ok((seq, Some(recording))) => (seq, recording),
            Ok((seq, None)) => return Some(ChunkAnswer::Accepted(seq)),
            Err(error) => return Some(ChunkAnswer::Refused(error)),
        };
        answers(&self.answers).insert(id, None);
        let (stores, known, timeout) = (self.stores.clone(), self.answers.clone(), self.timeout);
        tokio::spawn(async move {
            let answer = wait_recorded(seq, recording, timeout).await;
            answers(&known).insert(id, Some(answer));
            // If this fails, the receiver stores the answer when it reads the chunk again.
            if let Err(error) = store_answer(&stores, id, answer).await {
                tracing::debug!(%error, "cannot store the answer to a chunk");
            }
        });
        None
    }
}

fn answers(answers: &Answers) -> MutexGuard<'_, HashMap<Uuid, Option<ChunkAnswer>>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn store_answer(stores: &Stores, id: Uuid, answer: ChunkAnswer) -> Result<(), StoreError> {
    let body = serde_json::to_string(&answer).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    // A signal to the node that waits for the answer belongs here; without one, it reads again soon.
    stores.answer_chunk(id, &body).await
}
