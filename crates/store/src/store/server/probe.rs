//! The question to one server: what it is, and whether it accepts writes.

use std::time::Duration;

use sqlx::{ConnectOptions, PgConnection};

use super::url::{Host, SessionAttrs};

/// Identifies the cluster, the timeline and the running server. Every role may call these functions. A standby knows the
/// timelines of its checkpoint and of the last record that it needs.
const QUESTION: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::BOOL, \
    (SELECT system_identifier FROM pg_control_system()), \
    CASE WHEN pg_is_in_recovery() \
        THEN GREATEST((SELECT timeline_id FROM pg_control_checkpoint()), \
            (SELECT min_recovery_end_timeline FROM pg_control_recovery()))::BIGINT \
        ELSE ('x' || SUBSTR(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::BIT(32)::BIGINT END, \
    (EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::BIGINT";
/// The question to a server that does not tell its timeline, such as a service with its own storage.
const SHORT_QUESTION: &str = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::BOOL, \
    0::BIGINT, 0::BIGINT, (EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::BIGINT";

/// The answer of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Whether the server fulfils the condition of the URL.
    pub is_usable: bool,
    /// Whether the server replays the log of another server.
    pub is_standby: bool,
    /// The identifier of the cluster: equal for a primary and its standbys, 0 if unknown.
    pub system: i64,
    /// The timeline, which each promotion increases; 0 if unknown.
    pub timeline: i64,
    /// The start time of the server in microseconds. It tells two servers apart, also if both have the same data.
    pub started: i64,
}

/// The last answer of a host, or its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// The host was not asked yet.
    Unknown,
    /// The host did not answer, for this reason.
    Unreachable(String),
    /// The answer of the host.
    Answered(Server),
}

/// Asks a server over an existing connection.
pub async fn question(connection: &mut PgConnection, attrs: SessionAttrs) -> Result<Server, sqlx::Error> {
    if attrs == SessionAttrs::Any {
        sqlx::query("SELECT 1").execute(connection).await?;
        return Ok(Server { is_usable: true, is_standby: false, system: 0, timeline: 0, started: 0 });
    }
    let full = sqlx::query_as(QUESTION).fetch_one(&mut *connection).await;
    let answer: (bool, bool, i64, i64, i64) = match full {
        Err(sqlx::Error::Database(error)) if !is_interruption(error.code().as_deref()) => {
            sqlx::query_as(SHORT_QUESTION).fetch_one(connection).await?
        }
        full => full?,
    };
    let (is_standby, is_read_only, system, timeline, started) = answer;
    let is_usable = !is_standby && (attrs == SessionAttrs::Primary || !is_read_only);
    Ok(Server { is_usable, is_standby, system, timeline, started })
}

/// Returns `true` for an error of the connection or of a server that stops, and `false` for an unknown function.
fn is_interruption(code: Option<&str>) -> bool {
    code.is_none_or(|code| code.starts_with("57P") || code.starts_with("08"))
}

/// Asks a host on the connection that was kept, or on a new one, which is kept.
pub async fn ask(kept: &mut Option<PgConnection>, host: &Host, attrs: SessionAttrs, limit: Duration) -> Sighting {
    let answer = tokio::time::timeout(limit, async {
        // The connection is lost if the question fails or times out.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => host.options.connect().await?,
        };
        let server = question(&mut connection, attrs).await?;
        Ok::<_, sqlx::Error>((connection, server))
    });
    match answer.await {
        Ok(Ok((connection, server))) => {
            *kept = Some(connection);
            Sighting::Answered(server)
        }
        Ok(Err(error)) => Sighting::Unreachable(error.to_string()),
        Err(_) => Sighting::Unreachable(format!("no response within {} s", limit.as_secs())),
    }
}
