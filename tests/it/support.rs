//! Test support: a running service, a client, an SSE reader and a controllable HTTP tool.

use std::future::Future;
use std::time::Duration;

/// Ends a test, successfully, where PostgreSQL is not installed. `scripts/test` installs it, and no test is left out there.
macro_rules! requires_postgres {
    () => {
        if !crate::support::postgres::is_installed() {
            return;
        }
    };
}

pub mod app;
pub mod calls;
pub mod client;
pub mod counter;
pub mod fixture;
pub mod http_tool;
pub mod instances;
pub mod killable;
pub mod network;
pub mod node;
pub mod pg_proxy;
pub mod postgres;
pub mod raw;
pub mod seeded;
pub mod service;
pub mod shapes;
pub mod sse;
pub mod stall;
pub mod tcp_proxy;

pub use app::App;
pub use client::{Client, Response};
pub use http_tool::{Answer, HttpTool, ReceivedRequest};
pub use node::Node;
pub use service::{Backend, Database, Options};
pub use sse::{Event, EventStream};

/// Timeout for everything that a test awaits. Only a fault reaches it, however busy the machine is.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Fails a test of the core that runs what only the surfaces install, also where it is installed.
pub fn assert_surface() {
    let is_core = std::env::var_os("TOOLPOST_TEST_PART").is_some_and(|part| part == "core");
    assert!(!is_core, "only the surfaces install what this test runs: mark it with #[ignore = \"surfaces\"]");
}

/// Waits for the output of `work`; fails the test after a timeout.
pub async fn bounded<F: Future>(what: &str, work: F) -> F::Output {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Polls `look` until it returns a value.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let mut pulse = tokio::time::interval(Duration::from_millis(20));
    let found = async {
        loop {
            pulse.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    bounded(what, found).await
}

/// Defines a test that runs on SQLite and on Postgres: `on_both_databases!(async fn name(backend: Backend) { … });`.
macro_rules! on_both_databases {
    (async fn $name:ident($backend:ident: $kind:ty) $body:block) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn check($backend: $kind) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                check(crate::support::Backend::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                requires_postgres!();
                check(crate::support::Backend::Postgres).await;
            }
        }
    };
}
