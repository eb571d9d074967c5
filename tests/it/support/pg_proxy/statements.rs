//! Records the statements that a service executes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::loss::Reader;

/// The texts of all executed statements, in order.
#[derive(Default)]
pub struct Statements(Mutex<Vec<String>>);

impl Statements {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the statements so far.
    pub fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}

/// Returns the tasks for the two directions of one connection.
pub(super) fn pass(
    client: UnixStream,
    server: UnixStream,
    statements: Arc<Statements>,
) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // Either side may close at any time.
    let there = async move { drop(requests(from_client, to_server, &statements).await) };
    let back = super::pass(from_server, to_client, false);
    (there, back)
}

/// Forwards complete messages, and notes the statements among them before.
async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, statements: &Statements) -> io::Result<()> {
    let (mut reader, mut unread) = (Reader::default(), Vec::new());
    let mut prepared: HashMap<String, String> = HashMap::new();
    loop {
        while let Some(message) = reader.take(&mut unread) {
            let texts = message.get(5..).unwrap_or_default().split(|byte| *byte == 0);
            let mut texts = texts.map(|text| String::from_utf8_lossy(text).into_owned());
            let (first, second) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
            match message.first() {
                // Parse: a name, then the statement.
                Some(b'P') => drop(prepared.insert(first, second)),
                // Bind: a portal, then the name.
                Some(b'B') => statements.note(prepared.get(&second).map_or("", String::as_str)),
                // Query: a statement as text.
                Some(b'Q') => statements.note(&first),
                _ => {}
            }
            to.write_all(&message).await?;
        }
        if from.read_buf(&mut unread).await? == 0 {
            return to.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::support::pg_proxy::PgProxy;
    use crate::support::{Backend, Database};

    #[tokio::test]
    async fn prepared_and_simple_statements_are_recorded_each_time() {
        requires_postgres!();
        let database = Database::fresh(Backend::Postgres).await;
        let statements = Statements::new();
        let proxy = PgProxy::recording(&database.url, &statements);
        let mut connection = PgConnection::connect(proxy.url()).await.unwrap();
        for _ in 0..2 {
            let _: i32 = sqlx::query_scalar("SELECT 1 + $1").bind(1).fetch_one(&mut connection).await.unwrap();
            sqlx::raw_sql("SELECT 2").execute(&mut connection).await.unwrap();
        }
        let of = |text: &str| statements.texts().iter().filter(|known| *known == text).count();
        assert_eq!((of("SELECT 1 + $1"), of("SELECT 2")), (2, 2), "{:?}", statements.texts());
    }
}
