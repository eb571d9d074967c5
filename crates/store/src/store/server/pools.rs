//! The connection pools to one Postgres server.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool};

use super::probe::{Server, question};
use super::url::{Host, SessionAttrs};

/// Maximum number of connections that the journal keeps: one for each shard of this node.
pub const JOURNAL_CONNECTIONS: u32 = 8;
/// Maximum number of connections for other writes: of adopted calls, and of everything but calls.
const WRITERS: u32 = 2;
/// Number of connections for queries.
pub const READERS: u32 = 4;
/// Timeout of the pool itself for acquiring a connection. Operations have their own, which is longer only while a service
/// starts.
pub const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(600);
/// Statement timeout of the server for writes. The caller has timed out long before and retries on another connection,
/// so statements without a timeout would accumulate. It is long enough for a commit.
const WRITE_TIMEOUT_MS: &str = "60000";
const READ_TIMEOUT_MS: &str = "10000";

/// The pools of one server. Connections are opened on demand.
#[derive(Debug)]
pub struct ServerPools {
    /// Connections for writes. The journal keeps one for each shard.
    pub writer: PgPool,
    /// Several connections for queries.
    pub reader: PgPool,
}

impl ServerPools {
    /// Creates the pools of a host. If `expected` is given, each new connection must lead to a server of this timeline
    /// that still fulfils the condition.
    pub fn new(host: &Host, attrs: SessionAttrs, expected: Option<Server>) -> Self {
        let pool = |size| {
            let options = PgPoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE_TIMEOUT);
            match expected {
                None => options,
                Some(expected) => {
                    options.after_connect(move |connection, _| Box::pin(check(connection, attrs, expected)))
                }
            }
        };
        // A broken connection fails the write itself, which is retried, so connections are not tested before use.
        let writer = pool(JOURNAL_CONNECTIONS + WRITERS)
            .test_before_acquire(false)
            .connect_lazy_with(planned_once(host.options.clone()));
        let queries = host.options.clone().options([("statement_timeout", READ_TIMEOUT_MS)]);
        Self { writer, reader: pool(READERS).connect_lazy_with(queries) }
    }
}

impl ServerPools {
    /// Opens the first connections while the service starts. Each takes some milliseconds, and the queries of the start
    /// would wait for one after the other.
    pub fn connect_in_background(&self) {
        for pool in [&self.writer, &self.reader, &self.reader] {
            let pool = pool.clone();
            // The query that needs a connection reports the errors.
            tokio::spawn(async move { drop(pool.acquire().await) });
        }
    }
}

/// Sets the options for writes. The journal's statement is large and constant: planning it for each commit costs more
/// than running it. It finds rows by key only, and a plan made for empty tables must not scan them once they are full.
fn planned_once(options: PgConnectOptions) -> PgConnectOptions {
    options.options([
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_material", "off"),
        ("statement_timeout", WRITE_TIMEOUT_MS),
    ])
}

/// Rejects a connection to a server that was demoted, or restarted with old data, since it was chosen.
async fn check(connection: &mut PgConnection, attrs: SessionAttrs, expected: Server) -> Result<(), sqlx::Error> {
    let server = question(connection, attrs).await?;
    if server.is_usable && (server.system, server.timeline) == (expected.system, expected.timeline) {
        return Ok(());
    }
    Err(sqlx::Error::Protocol("the server is not the primary that was chosen".to_owned()))
}
