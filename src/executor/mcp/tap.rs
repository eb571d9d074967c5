//! Hears what a server says by itself, in the order in which it says it: rmcp hands each notification to a task of its own,
//! so that progress could come after the result, or the second before the first.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::progress::ProgressRouter;

/// A transport and who listens.
pub struct Tap<T> {
    /// The transport itself.
    pub inner: T,
    /// Who is told of progress.
    pub listeners: ProgressRouter,
    /// Who is told that there are other tools.
    pub changed: Arc<Notify>,
    /// Fires when the connection is let go, which rmcp does as soon as it is lost.
    #[expect(dead_code, reason = "it fires when it is dropped")]
    pub lost: DropGuard,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match message {
                JsonRpcMessage::Notification(notification) => match notification.notification {
                    ServerNotification::ProgressNotification(progress) => self.listeners.say(progress.params),
                    ServerNotification::ToolListChangedNotification(changed) => {
                        self.changed.notify_one();
                        // A subscription of rmcp's may wait for it.
                        let notification = ServerNotification::ToolListChangedNotification(changed);
                        return Some(JsonRpcMessage::notification(notification));
                    }
                    // What a server logs is its own affair, and rmcp would only repeat it in the log of the service.
                    ServerNotification::LoggingMessageNotification(_) => {}
                    notification => return Some(JsonRpcMessage::notification(notification)),
                },
                message => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
