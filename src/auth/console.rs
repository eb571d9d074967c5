//! Sessions of the console. A sign-in exchanges a key or a token for a random value, which is a ticket for the console: it
//! has the permissions of the key, ends with it, and says nothing about it.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::tickets::{CONSOLE, NewTicket, TicketError};
use super::{AdmittedCaller, Auth, AuthError, key_format};
use crate::store::StoreError;

/// Time after which a session ends, in milliseconds.
const LIFETIME_MS: u64 = 12 * 60 * 60 * 1000;

const SIGNED_OUT: AuthError = AuthError::Invalid("the session of the console has ended: sign in again");

impl Auth {
    /// Begins a session of the console for a caller whose key or token was just checked.
    ///
    /// # Errors
    /// Returns a [`TicketError`] if the tenant has too many tickets, or the database fails.
    pub async fn sign_in(&self, caller: &AdmittedCaller) -> Result<NewTicket, TicketError> {
        let now = self.clock.now();
        self.issue(&caller.access, Some(&caller.credential), CONSOLE.to_owned(), Some(now), LIFETIME_MS).await
    }

    /// Authenticates a caller with the value of a session.
    ///
    /// # Errors
    /// Returns an error if the session, its key or its token has ended, or a limit of its holder is exceeded.
    pub async fn admit_console(&self, text: &str) -> Result<AdmittedCaller, AuthError> {
        if !key_format::is_ticket(text) {
            return Err(SIGNED_OUT);
        }
        let (hash, now) = (key_format::hash(text), self.clock.now());
        let ticket = self.stores.ticket(&hash, now).await?.filter(|ticket| ticket.path == CONSOLE);
        self.admit_holder(&ticket.ok_or(SIGNED_OUT)?, Some(hash), now).await
    }

    /// Ends a session on all nodes, with its open requests and streams. An unknown one is ignored.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn sign_out(&self, text: &str) -> Result<(), StoreError> {
        if !key_format::is_ticket(text) {
            return Ok(());
        }
        let session = key_format::hash(text);
        self.stores.end_session(&session).await?;
        self.credentials.end_sessions(&HashSet::from([session]));
        Ok(())
    }

    /// Ends the requests and streams of sessions that were ended on another node, if any key or session has changed.
    ///
    /// # Errors
    /// Returns an error if the database fails; the next call checks the sessions again.
    pub(super) async fn end_signed_out(&self) -> Result<(), StoreError> {
        let version = self.keys.version();
        if self.sessions_checked_at.load(Ordering::Relaxed) == version {
            return Ok(());
        }
        let mut ended = HashSet::new();
        for session in self.credentials.sessions() {
            if self.stores.ticket(&session, self.clock.now()).await?.is_none() {
                ended.insert(session);
            }
        }
        self.credentials.end_sessions(&ended);
        self.sessions_checked_at.store(version, Ordering::Relaxed);
        Ok(())
    }
}
