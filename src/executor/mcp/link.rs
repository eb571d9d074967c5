//! What calls of a server are made with, as long as one connection lasts.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::Peer;
use url::Url;

use super::progress::ProgressRouter;
use crate::executor::Redaction;

/// What calls are made with.
#[derive(Debug)]
pub struct Link {
    /// The server.
    pub peer: Peer<RoleClient>,
    /// Where its progress goes.
    pub listeners: ProgressRouter,
    /// The values that it was given, and that nobody is to hear.
    pub redaction: Option<Arc<Redaction>>,
    /// Where it is, if it is an HTTP server.
    pub url: Option<Url>,
}
