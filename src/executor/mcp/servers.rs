//! All upstream servers of this node, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::outfit::ServerContext;
use super::server::Server;
use super::status::ToolListObserver;
use crate::domain::upstream::Upstream;

/// The servers. Cheap to clone; all clones have the same.
#[derive(Debug, Clone, Default)]
pub struct Servers(Arc<Mutex<BTreeMap<String, Arc<Server>>>>);

impl Servers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.all().get(name).cloned()
    }

    /// Puts up a server, which is started by [`Server::start`]. Another one of this name is to be stopped first.
    pub fn add(
        &self,
        name: &str,
        upstream: Upstream,
        outfit: ServerContext,
        audience: Arc<dyn ToolListObserver>,
    ) -> Arc<Server> {
        let server = Arc::new(Server::new(name, upstream, outfit, audience));
        self.all().insert(name.to_owned(), server.clone());
        server
    }

    /// Forgets a server; it is not stopped by that.
    pub fn remove(&self, name: &str) -> Option<Arc<Server>> {
        self.all().remove(name)
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Server>> {
        self.all().values().cloned().collect()
    }
}
