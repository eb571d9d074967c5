//! `notifications/tools/list_changed`: sent to the subscriptions of current clients and to the sessions of older
//! clients.

use std::time::Duration;

use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;

use super::Server;
use crate::access::Access;

/// Interval of the check whether the client of a quiet session has disconnected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Detects changes of the tools that a client can call.
struct Changes {
    access: Access,
    changed: watch::Receiver<u64>,
    /// The ETag of the last known list.
    etag: String,
}

impl Changes {
    fn new(server: &Server, access: Access) -> Self {
        let changed = server.0.engine.registry().changes();
        Self { etag: access.snapshot().etag().to_owned(), access, changed }
    }

    /// Waits until the list changes; forever, if it cannot change any more.
    async fn next(&mut self) {
        while self.changed.changed().await.is_ok() {
            let snapshot = self.access.snapshot();
            if self.etag != snapshot.etag() {
                self.etag = snapshot.etag().to_owned();
                return;
            }
        }
        std::future::pending().await
    }
}

impl Server {
    /// Notifies one subscription until it is cancelled.
    pub(super) async fn notify_subscription(&self, access: Access, subscription: SubscriptionContext) {
        if subscription.accepted().tools_list_changed != Some(true) {
            return subscription.cancelled().await;
        }
        let mut changes = Changes::new(self, access);
        loop {
            tokio::select! {
                () = subscription.cancelled() => return,
                () = changes.next() => {}
            }
            if subscription.sink().notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }

    /// Notifies one session until its client disconnects.
    pub(super) async fn notify_session(self, access: Access, peer: Peer<RoleServer>) {
        let mut changes = Changes::new(&self, access);
        loop {
            tokio::select! {
                () = changes.next() => {
                    if peer.notify_tool_list_changed().await.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(CLIENT_CHECK_INTERVAL) => {
                    if peer.is_transport_closed() {
                        return;
                    }
                }
            }
        }
    }
}
