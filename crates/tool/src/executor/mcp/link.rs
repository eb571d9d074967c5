//! The part of a connection that calls use.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::Peer;
use url::Url;

use super::progress::ProgressRouter;
use crate::executor::Redaction;

/// A link to a server, valid as long as its connection.
#[derive(Debug)]
pub struct Link {
    /// The client side of rmcp.
    pub peer: Peer<RoleClient>,
    /// The router for progress notifications.
    pub progress: ProgressRouter,
    /// The secrets that the server was given, to be redacted from its output.
    pub redaction: Option<Arc<Redaction>>,
    /// The address of an HTTP server.
    pub url: Option<Url>,
}
