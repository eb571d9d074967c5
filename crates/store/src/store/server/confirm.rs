//! The proof that a commit survives the loss of its server.

use sqlx::PgConnection;

/// A record in the log, without any other effect. Its commit waits for the standbys of `synchronous_standby_names`.
const RECORD: &str = "SELECT pg_logical_emit_message(TRUE, 'toolpost', '')";

/// Waits until the standbys have everything that was committed before, as far as the server requires it.
///
/// A server that restarts after a crash shows every commit in its log, also those that no standby has. Such a commit is lost
/// if a standby is promoted, so it must not be acknowledged because it was found.
///
/// # Errors
/// Returns the error of the connection.
pub async fn wait_for_standbys(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    match sqlx::query(RECORD).execute(connection).await {
        // A service without this function has its own storage instead of standbys.
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|code| is_unsupported(&code)) => Ok(()),
        done => done.map(drop),
    }
}

/// Returns `true` for an unknown or forbidden function.
fn is_unsupported(code: &str) -> bool {
    code.starts_with("42") || code.starts_with("0A")
}
