//! Notifications of a server, in the order of arrival: progress is routed to its call.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use crate::executor::Emitter;
use toolpost_core::domain::Progress;
use toolpost_core::domain::call::StatusUpdate;

/// Maximum number of kept notifications for calls that were sent but have not subscribed yet.
const MAX_EARLY: usize = 64;

/// A router of progress notifications. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ProgressRouter(Arc<Mutex<RouterState>>);

#[derive(Debug, Default)]
struct RouterState {
    calls: HashMap<ProgressToken, Emitter>,
    early: VecDeque<ProgressNotificationParam>,
}

/// A guard that routes progress to its call while it exists.
#[derive(Debug)]
pub struct ProgressSubscription {
    token: ProgressToken,
    router: ProgressRouter,
}

impl ProgressRouter {
    fn state(&self) -> MutexGuard<'_, RouterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes a call to its progress, including earlier notifications.
    pub fn subscribe(&self, token: ProgressToken, emitter: &Emitter) -> ProgressSubscription {
        let mut state = self.state();
        state.early.retain(|notification| {
            let is_its_own = notification.progress_token == token;
            if is_its_own {
                report(notification, emitter);
            }
            !is_its_own
        });
        state.calls.insert(token.clone(), emitter.clone());
        drop(state);
        ProgressSubscription { token, router: self.clone() }
    }

    /// Routes a notification of the server.
    pub fn route(&self, notification: ProgressNotificationParam) {
        let mut state = self.state();
        if let Some(emitter) = state.calls.get(&notification.progress_token) {
            report(&notification, emitter);
            return;
        }
        if state.early.len() == MAX_EARLY {
            state.early.pop_front();
        }
        state.early.push_back(notification);
    }
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.router.state().calls.remove(&self.token);
    }
}

fn report(notification: &ProgressNotificationParam, emitter: &Emitter) {
    if !notification.progress.is_finite() {
        return;
    }
    let total = notification.total.filter(|total| total.is_finite());
    let progress = Progress { current: notification.progress, total, message: notification.message.clone() };
    emitter.status(StatusUpdate { progress: Some(progress), ..StatusUpdate::default() });
}

/// A transport that handles notifications of a server in order. rmcp starts a separate task for each notification, so
/// progress could arrive after the result or out of order.
pub struct Tap<T> {
    /// The wrapped transport.
    pub inner: T,
    /// The receivers of notifications.
    pub receivers: Receivers,
}

/// The receivers of a server's notifications.
pub struct Receivers {
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
            let JsonRpcMessage::Notification(notification) = message else { return Some(message) };
            match notification.notification {
                ServerNotification::ProgressNotification(progress) => self.receivers.progress.route(progress.params),
                // rmcp would write the messages to the log of the service, where they do not belong.
                ServerNotification::LoggingMessageNotification(_) => {}
                notification => {
                    if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                        self.receivers.changed.notify_one();
                    }
                    // A subscription of rmcp may wait for the notification of a change.
                    return Some(JsonRpcMessage::notification(notification));
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;
    use crate::executor::emitter::{self, Report};

    fn notification(token: i64, progress: f64) -> ProgressNotificationParam {
        ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(token)), progress)
    }

    #[test]
    fn early_progress_reaches_its_call() {
        let (router, (emitter, mut reports)) = (ProgressRouter::default(), emitter::channel());
        for token in 0..100 {
            router.route(notification(token, 1.0));
        }
        router.route(notification(7, 2.0));
        let listening = router.subscribe(ProgressToken(NumberOrString::Number(7)), &emitter);
        let current = |report| match report {
            Some(Report::Status(update)) => update.progress.map(|progress| progress.current),
            _ => None,
        };
        assert_eq!(current(reports.take()), Some(2.0));
        router.route(notification(7, 3.0));
        assert_eq!(current(reports.take()), Some(3.0));
        router.route(notification(8, 4.0));
        assert_eq!(reports.take(), None);
        drop(listening);
        router.route(notification(7, 5.0));
        assert_eq!(reports.take(), None);
        assert!(router.state().early.len() <= MAX_EARLY && router.state().calls.is_empty());
    }
}
