//! The running requests of sessions on this node, under ids that are unique. Clients repeat their ids: some send every
//! request of a session with the same one. rmcp and the routing of its sessions need ids that differ.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, GetExtensions, GetMeta, JsonRpcMessage, ProgressToken, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::streamable_http_server::SessionId;
use serde_json::Value;
use uuid::Uuid;

use super::event_id::PendingRequest;

/// The running requests of all sessions of this node.
#[derive(Debug, Default)]
pub(super) struct RunningRequests(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: i64,
    sessions: HashMap<SessionId, Vec<Running>>,
}

/// A request that has not been answered.
#[derive(Debug)]
struct Running {
    /// The id on this node, which no other request has.
    unique: i64,
    /// The id that the client gave to the request.
    given: RequestId,
    call: Option<Uuid>,
}

/// A request that runs as long as this value exists. rmcp keeps it among the extensions of the request.
#[derive(Debug)]
struct RunningGuard {
    requests: Arc<RunningRequests>,
    session: SessionId,
    unique: i64,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.requests.take(&self.session, |running| running.unique == self.unique);
    }
}

impl RunningRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a unique id to a request, and a unique token to its progress. Returns what the client gave; `None` if the
    /// message is no request.
    pub fn begin(
        self: &Arc<Self>,
        session: &SessionId,
        message: &mut ClientJsonRpcMessage,
        call: Option<Uuid>,
    ) -> Option<PendingRequest> {
        let JsonRpcMessage::Request(sent) = message else { return None };
        let token = sent.request.get_meta().get_progress_token();
        let given = PendingRequest { id: sent.id.clone(), call, token, progress: None };
        let mut state = self.state();
        state.last += 1;
        let unique = state.last;
        let running = Running { unique, given: given.id.clone(), call };
        state.sessions.entry(session.clone()).or_default().push(running);
        drop(state);
        sent.id = RequestId::Number(unique);
        if given.token.is_some() {
            sent.request.get_meta_mut().set_progress_token(ProgressToken(RequestId::Number(unique)));
        }
        let guard = RunningGuard { requests: self.clone(), session: session.clone(), unique };
        sent.request.extensions_mut().insert(Arc::new(guard));
        Some(given)
    }

    /// Returns `true` if a request with this id runs in the session.
    pub fn has(&self, session: &str, given: &Value) -> bool {
        let Ok(given) = serde_json::from_value::<RequestId>(given.clone()) else { return false };
        self.state().sessions.get(session).is_some_and(|all| all.iter().any(|running| running.given == given))
    }

    /// Names the request that a cancellation means by its unique id. Returns `None` for a cancellation that must not be
    /// passed on: no request with the id runs, or several do, of which the client may mean any.
    pub fn resolve(&self, session: &SessionId, mut message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        if let JsonRpcMessage::Notification(sent) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) = &mut sent.notification
            && let Some(given) = &mut cancelled.params.request_id
        {
            *given = self.take(session, |running| running.given == *given)?;
        }
        Some(message)
    }

    /// Removes the request of a call. Returns its unique id.
    pub fn take_call(&self, session: &SessionId, call: Uuid) -> Option<RequestId> {
        self.take(session, |running| running.call == Some(call))
    }

    /// Removes the request that `is_meant` accepts, unless there are several. Returns its unique id.
    fn take(&self, session: &SessionId, is_meant: impl Fn(&Running) -> bool) -> Option<RequestId> {
        let mut state = self.state();
        let all = state.sessions.get_mut(session)?;
        let mut indexes = all.iter().enumerate().filter(|(_, running)| is_meant(running)).map(|(index, _)| index);
        let index = indexes.next().filter(|_| indexes.next().is_none())?;
        let unique = all.swap_remove(index).unique;
        if all.is_empty() {
            state.sessions.remove(session);
        }
        Some(RequestId::Number(unique))
    }
}

/// Restores in a message of a response what the client gave to the request. Without a request, returns `None` for messages
/// that belong to one: only its own response may carry them.
pub(super) fn restore(
    message: Arc<ServerJsonRpcMessage>,
    request: Option<&PendingRequest>,
) -> Option<Arc<ServerJsonRpcMessage>> {
    let is_progress =
        |notification: &ServerNotification| matches!(notification, ServerNotification::ProgressNotification(_));
    let is_of_request = match &*message {
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
        JsonRpcMessage::Notification(sent) => is_progress(&sent.notification),
        JsonRpcMessage::Request(_) => false,
    };
    if !is_of_request {
        return Some(message);
    }
    let request = request?;
    // The session drops its own copy right after it has sent a response, so it is rarely copied here.
    let mut message = Arc::unwrap_or_clone(message);
    match &mut message {
        JsonRpcMessage::Response(answer) => answer.id = request.id.clone(),
        JsonRpcMessage::Error(error) => error.id = Some(request.id.clone()),
        JsonRpcMessage::Notification(sent) => {
            if let (ServerNotification::ProgressNotification(progress), Some(token)) =
                (&mut sent.notification, &request.token)
            {
                progress.params.progress_token = token.clone();
            }
        }
        JsonRpcMessage::Request(_) => {}
    }
    Some(Arc::new(message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(message).unwrap()
    }

    fn call(id: &Value) -> ClientJsonRpcMessage {
        let params = json!({"name": "a", "_meta": {"progressToken": id}});
        read(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    fn cancellation(id: &Value) -> ClientJsonRpcMessage {
        read(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    }

    fn cancelled(requests: &RunningRequests, session: &SessionId, id: &Value) -> Option<Value> {
        let message = requests.resolve(session, cancellation(id))?;
        Some(serde_json::to_value(message).unwrap()["params"]["requestId"].take())
    }

    #[test]
    fn equal_ids_are_distinguished_and_restored() {
        let (requests, session) = (Arc::<RunningRequests>::default(), SessionId::from("s"));
        let mut messages = [call(&json!(1)), call(&json!(1)), call(&json!("1"))];
        let given = messages.each_mut().map(|message| requests.begin(&session, message, None).unwrap());
        let sent = messages.each_ref().map(|message| serde_json::to_value(message).unwrap());
        for (index, message) in sent.iter().enumerate() {
            assert_eq!(
                (&message["id"], &message["params"]["_meta"]["progressToken"]),
                (&json!(index + 1), &message["id"])
            );
        }
        let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {"content": []}});
        let answer: Arc<ServerJsonRpcMessage> = Arc::new(serde_json::from_value(answer).unwrap());
        let restored = restore(answer.clone(), Some(&given[2])).unwrap();
        assert_eq!(serde_json::to_value(&*restored).unwrap()["id"], json!("1"));
        assert!(restore(answer, None).is_none(), "no other stream carries a response");
    }

    #[test]
    fn cancellation_selects_the_only_request_with_its_id() {
        let (requests, session, other) =
            (Arc::<RunningRequests>::default(), SessionId::from("s"), SessionId::from("t"));
        let mut messages = [call(&json!(1)), call(&json!(1)), call(&json!("1")), call(&json!(1))];
        for (index, message) in messages.iter_mut().enumerate() {
            let session = if index == 3 { &other } else { &session };
            requests.begin(session, message, Some(Uuid::from_u128(index as u128))).unwrap();
        }
        assert_eq!(cancelled(&requests, &session, &json!(1)), None, "two requests have this id");
        assert_eq!(cancelled(&requests, &session, &json!("1")), Some(json!(3)));
        assert_eq!(requests.take_call(&session, Uuid::from_u128(0)), Some(RequestId::Number(1)));
        assert_eq!(cancelled(&requests, &session, &json!(1)), Some(json!(2)));
        assert_eq!(cancelled(&requests, &session, &json!(1)), None);
        assert!(requests.has("t", &json!(1)) && !requests.has("s", &json!(1)));
        drop(messages);
        assert!(requests.state().sessions.is_empty(), "an answered request does not run");
    }
}
