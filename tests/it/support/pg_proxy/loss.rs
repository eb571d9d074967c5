//! Lost acknowledgements: cuts the connection after the server has received a commit and before its response passes.
//! Parses the client's messages in the PostgreSQL protocol (its documentation, chapter "Message Formats").

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use crate::support::seeded::Seeded;

/// The code of an `SSLRequest`; the next message has no type either.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
/// The message with which the server reports the end of a command; a status byte follows.
const READY_FOR_QUERY: &[u8] = b"Z\0\0\0\x05";

/// Words of statements that write.
const WRITES: &[&str] = &["INSERT", "UPDATE", "DELETE", "JOURNAL_COMMIT", "WRITE_OFFERS", "CLAIM_CALLS"];

/// Drops the acknowledgement of one commit in `one_in`, while it is switched on.
pub struct Loss {
    chance: Mutex<Seeded>,
    one_in: u64,
    words: &'static [&'static str],
    is_on: AtomicBool,
    lost: AtomicUsize,
}

/// The fate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    /// Cut immediately; the server may still execute the commit.
    CutAtOnce,
    /// Cut when the server has responded.
    CutAtAnswer,
}

impl Loss {
    pub fn new(seed: u64, one_in: u64) -> Arc<Self> {
        Self::of_statements(seed, one_in, WRITES)
    }

    /// Drops acknowledgements of statements that contain one of these words, in capital letters.
    pub fn of_statements(seed: u64, one_in: u64, words: &'static [&'static str]) -> Arc<Self> {
        let chance = Mutex::new(Seeded::new(seed));
        Arc::new(Self { chance, one_in, words, is_on: AtomicBool::new(false), lost: AtomicUsize::new(0) })
    }

    pub fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Returns the number of lost acknowledgements.
    pub fn count(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// Chooses the fate of a connection before a commit is sent.
    fn choose(&self) -> Fate {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_on.load(Ordering::Relaxed) || !chance.one_in(self.one_in) {
            return Fate::Whole;
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        chance.pick(&[Fate::CutAtOnce, Fate::CutAtAnswer])
    }
}

/// Returns the tasks for the two directions of one connection.
pub fn pass(
    client: UnixStream,
    server: UnixStream,
    loss: Arc<Loss>,
) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (tell, fate) = watch::channel(Fate::Whole);
    // Either side may close at any time.
    let there = async move { drop(requests(from_client, to_server, &loss, tell).await) };
    let back = async move { drop(answers(from_server, to_client, fate).await) };
    (there, back)
}

/// Forwards complete messages. Announces the fate of the connection before it sends the message that commits.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    loss: &Loss,
    tell: watch::Sender<Fate>,
) -> io::Result<()> {
    let (mut reader, mut unread) = (Reader::default(), Vec::new());
    loop {
        while let Some(message) = reader.take(&mut unread) {
            if reader.commits(&message, loss.words) {
                let fate = loss.choose();
                if fate != Fate::Whole {
                    tell.send_replace(fate);
                    to.write_all(&message).await?;
                    // The server's side stays open until the server has responded.
                    tell.closed().await;
                    return Ok(());
                }
            }
            to.write_all(&message).await?;
        }
        if from.read_buf(&mut unread).await? == 0 {
            return to.shutdown().await;
        }
    }
}

/// Forwards responses while the fate of the connection is [`Fate::Whole`].
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut fate: watch::Receiver<Fate>) -> io::Result<()> {
    let (mut answer, mut end) = (Vec::new(), End::default());
    loop {
        answer.clear();
        let read = tokio::select! {
            biased;
            () = cut_at_once(&mut fate) => break,
            read = from.read_buf(&mut answer) => read?,
        };
        if read == 0 {
            return to.shutdown().await;
        }
        end.extend(&answer);
        let is_whole = *fate.borrow() == Fate::Whole;
        if is_whole {
            to.write_all(&answer).await?;
        } else if end.is_ready() {
            return Ok(());
        }
    }
    drop(to);
    // The server finishes its statement.
    let mut end = End::default();
    while !end.is_ready() {
        answer.clear();
        if from.read_buf(&mut answer).await? == 0 {
            break;
        }
        end.extend(&answer);
    }
    Ok(())
}

/// The last bytes of a response, which may arrive in several parts.
#[derive(Default)]
struct End(Vec<u8>);

impl End {
    fn extend(&mut self, part: &[u8]) {
        self.0.extend(part);
        self.0.drain(..self.0.len().saturating_sub(READY_FOR_QUERY.len() + 1));
    }

    fn is_ready(&self) -> bool {
        self.0.starts_with(READY_FOR_QUERY) && self.0.len() > READY_FOR_QUERY.len()
    }
}

async fn cut_at_once(fate: &mut watch::Receiver<Fate>) {
    if fate.wait_for(|fate| *fate == Fate::CutAtOnce).await.is_err() {
        // The client is disconnected, and the fate no longer changes.
        std::future::pending::<()>().await;
    }
}

/// A parser that recognizes commits among the messages of a client.
#[derive(Default)]
pub(super) struct Reader {
    is_open: bool,
    /// For each prepared statement by name, `true` if it contains one of the words.
    statements: HashMap<Vec<u8>, bool>,
    writes: bool,
}

impl Reader {
    /// Returns the next complete message.
    pub(super) fn take(&mut self, unread: &mut Vec<u8>) -> Option<Vec<u8>> {
        let at = usize::from(self.is_open);
        let length = u32::from_be_bytes(unread.get(at..at + 4)?.try_into().ok()?) as usize;
        if unread.len() < at + length {
            return None;
        }
        let rest = unread.split_off(at + length);
        let message = std::mem::replace(unread, rest);
        self.is_open = self.is_open || message.get(4..8) != Some(&SSL_REQUEST);
        Some(message)
    }

    /// Returns `true` if the server commits a statement with one of the words on this message.
    fn commits(&mut self, message: &[u8], words: &[&str]) -> bool {
        let mut texts = message.get(5..).unwrap_or_default().split(|byte| *byte == 0).map(<[u8]>::to_vec);
        let mut text = || texts.next().unwrap_or_default();
        match message.first() {
            // Parse: a name, then the statement.
            Some(b'P') => {
                let name = text();
                self.statements.insert(name, contains(&text(), words));
            }
            // Bind: a portal, then the name.
            Some(b'B') => {
                text();
                self.writes |= self.statements.get(&text()).copied().unwrap_or_default();
            }
            // Sync ends a statement and commits its implicit transaction.
            Some(b'S') => return std::mem::take(&mut self.writes),
            // Query: a statement as text.
            Some(b'Q') => {
                let statement = text();
                return statement.eq_ignore_ascii_case(b"COMMIT") || contains(&statement, words);
            }
            _ => {}
        }
        false
    }
}

fn contains(statement: &[u8], words: &[&str]) -> bool {
    let statement = String::from_utf8_lossy(statement).to_uppercase();
    words.iter().any(|word| statement.contains(word))
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, PgConnection};

    use super::*;
    use crate::support::pg_proxy::PgProxy;
    use crate::support::{Backend, Database, eventually};

    #[test]
    fn end_of_a_response_is_found_however_it_is_split() {
        let answer = [b"C\0\0\0\x0dSELECT 1\0".as_slice(), READY_FOR_QUERY, b"I"].concat();
        for at in 0..=answer.len() {
            let mut end = End::default();
            end.extend(&answer[..at]);
            assert_eq!(end.is_ready(), at == answer.len());
            end.extend(&answer[at..]);
            assert!(end.is_ready(), "{at}");
        }
    }

    #[tokio::test]
    async fn commit_is_made_although_its_acknowledgement_is_lost() {
        requires_postgres!();
        let database = Database::fresh(Backend::Postgres).await;
        let mut direct = PgConnection::connect(&database.url).await.unwrap();
        sqlx::query("CREATE TABLE kept (n INT)").execute(&mut direct).await.unwrap();
        let loss = Loss::new(1, 1);
        let proxy = PgProxy::losing(&database.url, &loss);
        for n in 0..8 {
            let mut connection = PgConnection::connect(proxy.url()).await.unwrap();
            let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&mut connection).await.unwrap();
            assert_eq!((one, loss.count()), (1, n), "what does not write passes");
            loss.switch(true);
            let insert = sqlx::query("INSERT INTO kept VALUES ($1)").bind(i32::try_from(n).unwrap());
            insert.execute(&mut connection).await.unwrap_err();
            loss.switch(false);
            // The server may still be executing the statement.
            eventually("the row", || async {
                let mut direct = PgConnection::connect(&database.url).await.unwrap();
                let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM kept");
                let found = count.fetch_one(&mut direct).await.unwrap();
                (found == n as i64 + 1).then_some(())
            })
            .await;
        }
    }
}
