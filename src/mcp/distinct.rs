//! Equal ids of running requests over standard input and output. rmcp needs ids that differ, so the second of two equal
//! ones is replaced until the request has its response.

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that passes on requests with distinct ids.
pub(super) struct Distinct<T> {
    inner: T,
    running: Vec<Running>,
}

/// A request without a response.
struct Running {
    /// The id that the client gave to the request.
    given: RequestId,
    /// The id under which it runs.
    unique: RequestId,
}

impl<T> Distinct<T> {
    /// Wraps a transport.
    pub fn new(inner: T) -> Self {
        Self { inner, running: Vec::new() }
    }

    /// Returns the message to pass on; `None` for a cancellation that may mean several requests.
    fn received(&mut self, mut message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                let given = request.id.clone();
                // A subscription names itself in its notifications, so it keeps its id.
                let keeps_id = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                if !keeps_id && self.is_taken(&given) {
                    request.id = self.free(&given);
                }
                self.running.push(Running { given, unique: request.id.clone() });
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut sent.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    let mut meant = self.running.iter().enumerate().filter(|(_, running)| running.given == *id);
                    match (meant.next(), meant.next()) {
                        (Some(_), Some(_)) => return None,
                        // rmcp sends no response to a cancelled request.
                        (Some((index, _)), None) => *id = self.running.swap_remove(index).unique,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Restores the id of the request in its response.
    fn sent(&mut self, message: &mut ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(answer) => &mut answer.id,
            JsonRpcMessage::Error(error) => match &mut error.id {
                Some(id) => id,
                None => return,
            },
            _ => return,
        };
        if let Some(index) = self.running.iter().position(|running| running.unique == *id) {
            *id = self.running.swap_remove(index).given;
        }
    }

    fn is_taken(&self, id: &RequestId) -> bool {
        self.running.iter().any(|running| running.unique == *id)
    }

    /// Returns an id that no running request has.
    fn free(&self, given: &RequestId) -> RequestId {
        let numbered = (2..).map(|number: u64| RequestId::String(format!("{given} ({number})").into()));
        numbered.into_iter().find(|id| !self.is_taken(id)).unwrap_or_else(|| given.clone())
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Distinct<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.sent(&mut item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            if let Some(message) = self.received(message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the id that is passed on.
    fn receive(transport: &mut Distinct<()>, message: Value) -> Option<Value> {
        let message = transport.received(serde_json::from_value(message).unwrap())?;
        let mut message = serde_json::to_value(message).unwrap();
        Some(if message["id"].is_null() { message["params"]["requestId"].take() } else { message["id"].take() })
    }

    fn call(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}})
    }

    fn cancel(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    }

    fn answer(transport: &mut Distinct<()>, id: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        let mut message = serde_json::from_value(message).unwrap();
        transport.sent(&mut message);
        serde_json::to_value(message).unwrap()["id"].take()
    }

    #[test]
    fn equal_ids_differ_while_their_requests_run() {
        let mut transport = Distinct::new(());
        let one = json!(1);
        let first = receive(&mut transport, call(&one)).unwrap();
        let second = receive(&mut transport, call(&one)).unwrap();
        assert!(first == one && second != one && receive(&mut transport, call(&json!("1"))).unwrap() == "1");
        assert_eq!(receive(&mut transport, cancel(&one)), None, "two requests have this id");
        assert_eq!(answer(&mut transport, &first), one);
        assert_eq!(receive(&mut transport, cancel(&one)), Some(second));
        assert_eq!(receive(&mut transport, call(&one)), Some(one));
        assert_eq!(transport.running.len(), 2);
    }
}
