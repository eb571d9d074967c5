//! Errors with the id `null` over the pipes of a program: nothing tells which request they answer. An error that cannot
//! be of another request is the answer, so that no call waits for its timeout.

use std::collections::{BTreeMap, VecDeque};

use rmcp::RoleClient;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that finds the requests of errors without an id.
pub struct UnansweredTransport<T> {
    inner: T,
    /// The requests without a response, by their order.
    pending: BTreeMap<u64, RequestId>,
    sent: u64,
    /// Errors without an id.
    strays: VecDeque<ErrorData>,
}

impl<T> UnansweredTransport<T> {
    /// Wraps a transport.
    pub fn new(inner: T) -> Self {
        Self { inner, pending: BTreeMap::new(), sent: 0, strays: VecDeque::new() }
    }

    fn note_sent(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            // A subscription has no response as long as it lasts.
            JsonRpcMessage::Request(request)
                if !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) =>
            {
                self.sent += 1;
                self.pending.insert(self.sent, request.id.clone());
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.forget(id);
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, id: &RequestId) {
        // rmcp accepts a number that a server repeats as a text.
        let is_same = |pending: &RequestId| pending == id || pending.to_string() == id.to_string();
        self.pending.retain(|_, pending| !is_same(pending));
    }

    /// Returns a message to be delivered; `None` for an error whose request is not known yet.
    fn note_received(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Response(answer) => self.forget(&answer.id),
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => self.forget(id),
                None => {
                    if self.strays.len() < self.pending.len() {
                        self.strays.push_back(error.error.clone());
                    }
                    return None;
                }
            },
            _ => {}
        }
        Some(message)
    }

    /// Returns an error for a pending request, if as many errors as requests are left.
    fn settled(&mut self) -> Option<ServerJsonRpcMessage> {
        self.strays.truncate(self.pending.len());
        if self.strays.len() < self.pending.len() {
            return None;
        }
        let (error, (_, id)) = (self.strays.pop_front()?, self.pending.pop_first()?);
        Some(JsonRpcMessage::error(error, Some(id)))
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for UnansweredTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_sent(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(settled) = self.settled() {
                return Some(settled);
            }
            let message = self.inner.receive().await?;
            if let Some(message) = self.note_received(message) {
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

    fn ask(transport: &mut UnansweredTransport<()>, id: i64) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
        transport.note_sent(&serde_json::from_value(message).unwrap());
    }

    fn hear(transport: &mut UnansweredTransport<()>, message: Value) -> Vec<Value> {
        let delivered = transport.note_received(serde_json::from_value(message).unwrap());
        let settled = std::iter::from_fn(|| transport.settled());
        delivered
            .into_iter()
            .chain(settled)
            .map(|message| serde_json::to_value(message).unwrap()["id"].take())
            .collect()
    }

    fn stray() -> Value {
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}})
    }

    fn answer(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
    }

    #[test]
    fn error_without_an_id_answers_the_only_request() {
        let mut transport = UnansweredTransport::new(());
        ask(&mut transport, 1);
        assert_eq!(hear(&mut transport, stray()), [json!(1)]);
        assert_eq!(hear(&mut transport, stray()), Vec::<Value>::new(), "nothing waits for it");
        ask(&mut transport, 2);
        assert_eq!(hear(&mut transport, answer(json!(2))), [json!(2)]);
    }

    #[test]
    fn error_without_an_id_answers_the_last_open_request() {
        let mut transport = UnansweredTransport::new(());
        (1..=3).for_each(|id| ask(&mut transport, id));
        assert_eq!(hear(&mut transport, stray()), Vec::<Value>::new());
        assert_eq!(hear(&mut transport, answer(json!("3"))), [json!("3")]);
        assert_eq!(hear(&mut transport, answer(json!(1))), [json!(1), json!(2)]);
    }

    #[test]
    fn cancelled_request_waits_for_no_answer() {
        let mut transport = UnansweredTransport::new(());
        (1..=2).for_each(|id| ask(&mut transport, id));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        transport.note_sent(&serde_json::from_value(cancel).unwrap());
        assert_eq!(hear(&mut transport, stray()), [json!(2)]);
    }
}
