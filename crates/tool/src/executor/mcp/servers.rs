//! All upstream servers of this node, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::ServerContext;
use super::server::Server;
use super::status::ToolListObserver;
use toolpost_core::domain::upstream::Upstream;

/// A map of servers. Cheap to clone; all clones share the map.
#[derive(Debug, Clone, Default)]
pub struct Servers(Arc<Mutex<BTreeMap<String, Arc<Server>>>>);

impl Servers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.all().get(name).cloned()
    }

    /// Adds a server; [`Server::start`] starts it. The caller must first stop another server of the same name.
    pub fn add(
        &self,
        name: &str,
        upstream: Upstream,
        context: ServerContext,
        observer: Arc<dyn ToolListObserver>,
    ) -> Arc<Server> {
        let server = Arc::new(Server::new(name, upstream, context, observer));
        self.all().insert(name.to_owned(), server.clone());
        server
    }

    /// Removes a server from the map without stopping it.
    pub fn remove(&self, name: &str) -> Option<Arc<Server>> {
        self.all().remove(name)
    }

    /// Returns all servers.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Server>> {
        self.all().values().cloned().collect()
    }
}
