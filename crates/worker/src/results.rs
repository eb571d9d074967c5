//! Results of calls. Those that come while a request is under way share the next one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::service::{RequestError, ResultEffect};
use crate::worker::Shared;

/// Maximum number of results of a request.
const MAX_RESULTS: usize = 64;
/// Bytes after which a request gets no further result.
const MAX_BYTES: usize = 256 * 1024;
/// Maximum number of requests at once. A second one is prepared while the service commits the first.
const MAX_REQUESTS: usize = 2;

/// A result that waits for a request.
#[derive(Debug)]
struct WaitingResult {
    id: Uuid,
    token: String,
    /// JSON; empty if the tool returned nothing.
    body: Vec<u8>,
    effect: oneshot::Sender<Result<ResultEffect, RequestError>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<WaitingResult>,
    requests: usize,
}

/// The results that wait for a request.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<State>);

impl Results {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the results of the next request. Returns none if nothing waits; then the sender ends.
    fn next(&self) -> Vec<WaitingResult> {
        let mut state = self.state();
        let (mut size, mut count) = (0, 0);
        for result in state.waiting.iter().take(MAX_RESULTS) {
            size += result.body.len();
            count += 1;
            if size > MAX_BYTES {
                break;
            }
        }
        if count == 0 {
            state.requests -= 1;
        }
        state.waiting.drain(..count).collect()
    }
}

/// Sends a result as JSON, together with others. An empty body says that the tool returned nothing.
pub(crate) async fn send(
    worker: &Arc<Shared>,
    id: Uuid,
    token: String,
    body: Vec<u8>,
) -> Result<ResultEffect, RequestError> {
    let (effect, sent) = oneshot::channel();
    let has_capacity = {
        let mut state = worker.results.state();
        state.waiting.push_back(WaitingResult { id, token, body, effect });
        let has_capacity = state.requests < MAX_REQUESTS;
        state.requests += usize::from(has_capacity);
        has_capacity
    };
    if has_capacity {
        // A task of its own, because a call that is abandoned must not take the results of others with it.
        tokio::spawn(send_waiting(worker.clone()));
    }
    sent.await.unwrap_or_else(|_| Err(RequestError::lost("the result was not sent")))
}

async fn send_waiting(worker: Arc<Shared>) {
    loop {
        let results = worker.results.next();
        if results.is_empty() {
            return;
        }
        let bodies: Vec<_> = results.iter().map(|result| (result.id, &*result.token, &*result.body)).collect();
        let effects = worker.service.results(&bodies).await;
        for (index, result) in results.into_iter().enumerate() {
            let effect = match &effects {
                Ok(effects) => effects.get(index).copied().ok_or_else(|| RequestError::lost("the answer is too short")),
                Err(error) => Err(error.clone()),
            };
            // The call may have been abandoned.
            let _ = result.effect.send(effect);
        }
    }
}
