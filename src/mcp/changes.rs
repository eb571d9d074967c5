//! `notifications/tools/list_changed`: to subscriptions of today's clients, and to the sessions of older ones.

use std::time::Duration;

use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;

use super::Server;
use crate::access::Access;

/// How often it is looked whether the client of a quiet session has gone.
const LOOK_FOR_CLIENT: Duration = Duration::from_secs(30);

/// Follows what everybody can call.
struct Changes {
    access: Access,
    changed: watch::Receiver<u64>,
    /// The list that was told of last.
    etag: String,
}

impl Changes {
    fn new(server: &Server, access: Access) -> Self {
        let changed = server.0.engine.registry().changes();
        Self { etag: etag(&access), access, changed }
    }

    /// Returns when the list is another one; never, once nothing can change any more.
    async fn next(&mut self) {
        loop {
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let etag = etag(&self.access);
            if self.etag != etag {
                self.etag = etag;
                return;
            }
        }
    }
}

fn etag(access: &Access) -> String {
    access.snapshot().etag().to_owned()
}

impl Server {
    /// Tells one subscription until it is cancelled.
    pub(super) async fn tell_subscription(&self, access: Access, subscription: SubscriptionContext) {
        let wants_tools = subscription.accepted().tools_list_changed == Some(true);
        if !wants_tools {
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

    /// Tells one session until its client has gone.
    pub(super) async fn tell_session(self, access: Access, peer: Peer<RoleServer>) {
        let mut changes = Changes::new(&self, access);
        loop {
            tokio::select! {
                () = changes.next() => {
                    if peer.notify_tool_list_changed().await.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(LOOK_FOR_CLIENT) => {
                    if peer.is_transport_closed() {
                        return;
                    }
                }
            }
        }
    }
}
