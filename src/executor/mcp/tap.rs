//! A transport that handles notifications of a server in order. rmcp starts a separate task for each notification, so
//! progress could arrive after the result or out of order.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::progress::ProgressRouter;

/// A transport that intercepts notifications.
pub struct Tap<T> {
    /// The wrapped transport.
    pub inner: T,
    /// The receiver of progress notifications.
    pub progress: ProgressRouter,
    /// Notified when the tools of the server have changed.
    pub changed: Arc<Notify>,
    /// Fires when the transport is dropped, which rmcp does immediately when the connection is lost.
    #[expect(dead_code, reason = "fires on drop")]
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
                    ServerNotification::ProgressNotification(progress) => self.progress.route(progress.params),
                    ServerNotification::ToolListChangedNotification(changed) => {
                        self.changed.notify_one();
                        // A subscription of rmcp may wait for this notification.
                        let notification = ServerNotification::ToolListChangedNotification(changed);
                        return Some(JsonRpcMessage::notification(notification));
                    }
                    // rmcp would write the messages to the log of the service, where they do not belong.
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
