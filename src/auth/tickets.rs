//! Tickets: short-lived credentials for one event stream, for clients that cannot send headers. A ticket has the permissions
//! of the key or token that asked for it, and ends with it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::{Bounds, Limits};
use super::{AdmitError, Admitted, Auth, AuthError, Credential, key_format};
use crate::access::Access;
use crate::domain::{Caller, Scopes, Time};
use crate::store::StoreError;
use crate::store::tickets::StoredTicket;

/// How long a ticket is valid before its first use, in milliseconds.
const UNUSED_MS: u64 = 60 * 1000;
/// How long it is valid from its first use on, in milliseconds.
const USED_MS: u64 = 12 * 60 * 60 * 1000;
/// Seconds after which a tenant with too many tickets may try again: those that are not used have ended by then.
const TRY_AGAIN_S: u64 = 60;

/// A new ticket.
pub struct NewTicket {
    /// The ticket itself, which is stored nowhere.
    pub text: String,
    /// When it ends unless it is used.
    pub expires_at: Time,
}

/// Why no ticket was made.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// The tenant has as many as it may have.
    #[error("too many event tickets of this tenant have not ended")]
    TooMany {
        /// Seconds after which it may try again.
        retry_after_s: u64,
    },
    /// The machine gives no random bytes.
    #[error("the machine gives no random bytes")]
    NoRandomness,
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The token of an issuer with which a ticket was asked for.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    scopes: String,
    subject: String,
    bounds: Bounds,
    expires_at: i64,
}

const NO_SUCH_TICKET: AuthError = AuthError::Invalid("this is no event ticket, or it has ended");

impl Auth {
    /// Makes a ticket for the event stream at `path`, for whoever has shown `credential`; `None` in an open service.
    ///
    /// # Errors
    /// Returns a [`TicketError`] if there are too many, or the database fails.
    pub async fn make_ticket(
        &self,
        access: &Access,
        credential: Option<&Credential>,
        path: String,
    ) -> Result<NewTicket, TicketError> {
        let text = key_format::make_ticket().map_err(|_| TicketError::NoRandomness)?;
        let caller = access.caller();
        let token = credential.and_then(|credential| {
            let (subject, bounds) = credential.subject()?;
            let expires_at = credential.expires_at().map_or(i64::MAX, |at| at.0);
            let token = Token { scopes: caller.scopes.to_text(), subject: subject.to_owned(), bounds, expires_at };
            // Nothing in it can fail to serialise.
            serde_json::to_string(&token).ok()
        });
        let ticket = StoredTicket {
            hash: key_format::hash(&text),
            tenant: caller.tenant.clone(),
            path,
            key: caller.key,
            token,
            used_at: None,
            expires_at: self.now().plus_millis(UNUSED_MS),
        };
        if !self.stores.insert_ticket(&ticket).await? {
            return Err(TicketError::TooMany { retry_after_s: TRY_AGAIN_S });
        }
        Ok(NewTicket { text, expires_at: ticket.expires_at })
    }

    /// Lets a caller in with a ticket, if it is one for a path that `covers` takes. `None`: it is for another path.
    ///
    /// # Errors
    /// Returns why it does not count, or that its caller asks too much.
    pub async fn admit_ticket(
        &self,
        text: &str,
        covers: impl Fn(&str) -> bool,
    ) -> Result<Option<Admitted>, AdmitError> {
        if !key_format::is_ticket(text) {
            return Err(NO_SUCH_TICKET.into());
        }
        let (hash, now) = (key_format::hash(text), self.now());
        let found = self.stores.ticket(&hash, now).await.map_err(AuthError::Store)?;
        let mut ticket = found.ok_or(NO_SUCH_TICKET)?;
        if !covers(&ticket.path) {
            return Ok(None);
        }
        let holder = self.holder_of(&ticket, now).await?;
        let permit = holder.limits.admit().map_err(AdmitError::Busy)?;
        if ticket.used_at.is_none() {
            let until = now.plus_millis(USED_MS);
            self.stores.use_ticket(&hash, now, until).await.map_err(AuthError::Store)?;
            // Of two first uses at once, one counts for both.
            ticket.expires_at = until;
        }
        let credential = self.credentials.of_ticket(holder.credential.as_deref(), ticket.expires_at);
        Ok(Some(Admitted { access: holder.access, limits: holder.limits, permit, credential }))
    }

    async fn holder_of(&self, ticket: &StoredTicket, now: Time) -> Result<Holder, AuthError> {
        if let Some(key) = ticket.key {
            let known = self.keys.find_id(key, &self.registry).await?;
            let (access, limits) = (known.access.clone(), known.limits.clone());
            return Ok(Holder { access, limits, credential: Some(known.credential.clone()) });
        }
        let Some(token) = &ticket.token else {
            let operator = self.operator().cloned().ok_or(NO_SUCH_TICKET)?;
            return Ok(Holder { access: operator, limits: Arc::new(Limits::unbounded()), credential: None });
        };
        let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("an event ticket: {error}"));
        let Token { scopes, subject, bounds, expires_at } = serde_json::from_str(token).map_err(corrupt)?;
        let expires_at = Time(expires_at);
        if expires_at <= now || self.jwt.is_none() {
            return Err(NO_SUCH_TICKET);
        }
        let limits = self.subjects.of(&ticket.tenant, &subject, bounds);
        let scopes = Scopes::of_text(&scopes);
        let caller = Caller { tenant: ticket.tenant.clone(), scopes, tools: None, key: None };
        let access = Access::open(caller, &self.stores, &self.registry).await?;
        let credential = self.credentials.of_token(expires_at, subject, bounds);
        Ok(Holder { access, limits, credential: Some(credential) })
    }
}

/// Who asked for a ticket.
struct Holder {
    access: Access,
    limits: Arc<Limits>,
    credential: Option<Arc<Credential>>,
}
