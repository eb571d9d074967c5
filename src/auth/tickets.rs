//! Tickets: short-lived credentials for one event stream, for clients that cannot send headers. A ticket has the
//! permissions of the key or token that requested it, and ends with it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::{Bounds, Limits};
use super::{AdmittedCaller, Auth, AuthError, Credential, key_format};
use crate::access::Access;
use crate::domain::{Caller, Identity, Scopes, Time};
use crate::store::StoreError;
use crate::store::tickets::StoredTicket;

/// Lifetime of an unused ticket, in milliseconds.
const UNUSED_MS: u64 = 60 * 1000;
/// Lifetime of a ticket after its first use, in milliseconds.
const USED_MS: u64 = 12 * 60 * 60 * 1000;
/// What the ticket of a console is for, in place of the path of an event stream.
pub(super) const CONSOLE: &str = "console";
/// Seconds after which a tenant with too many tickets may retry; unused tickets have expired by then.
const RETRY_AFTER_S: u64 = 60;

/// A new ticket.
pub struct NewTicket {
    /// The ticket itself, which is not stored.
    pub text: String,
    /// The time at which it expires if it is not used.
    pub expires_at: Time,
}

/// An error of the creation of a ticket.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// The tenant has the maximum number of tickets.
    #[error("too many active event tickets of this tenant")]
    TooMany {
        /// Seconds after which the caller may retry.
        retry_after_s: u64,
    },
    /// The operating system provides no random bytes.
    #[error("the operating system provides no random bytes")]
    NoRandomness,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The content of the issuer's token that requested a ticket.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    scopes: String,
    subject: String,
    bounds: Bounds,
    expires_at: i64,
}

const INVALID_TICKET: AuthError = AuthError::Invalid("invalid or expired event ticket");

impl Auth {
    /// Creates a ticket for the event stream at `path`, on behalf of `credential`, which is `None` in an open service.
    ///
    /// # Errors
    /// Returns a [`TicketError`] if there are too many, or the database fails.
    pub async fn make_ticket(
        &self,
        access: &Access,
        credential: Option<&Credential>,
        path: String,
    ) -> Result<NewTicket, TicketError> {
        self.issue(access, credential, path, None, UNUSED_MS).await
    }

    /// Creates a ticket that ends after `lifetime_ms`, or later if it has not been used and is then used in time.
    pub(super) async fn issue(
        &self,
        access: &Access,
        credential: Option<&Credential>,
        path: String,
        used_at: Option<Time>,
        lifetime_ms: u64,
    ) -> Result<NewTicket, TicketError> {
        let text = key_format::make_ticket().map_err(|_| TicketError::NoRandomness)?;
        let caller = access.caller();
        let token = credential.and_then(|credential| {
            let (subject, bounds) = credential.subject.clone()?;
            let expires_at = credential.expires_at.map_or(i64::MAX, |at| at.0);
            let token = Token { scopes: caller.scopes.to_text(), subject, bounds, expires_at };
            // Serialization of these types cannot fail.
            serde_json::to_string(&token).ok()
        });
        let ticket = StoredTicket {
            hash: key_format::hash(&text),
            tenant: caller.tenant.clone(),
            path,
            key: caller.key,
            token,
            used_at,
            expires_at: self.clock.now().plus_millis(lifetime_ms),
        };
        if !self.stores.insert_ticket(&ticket).await? {
            return Err(TicketError::TooMany { retry_after_s: RETRY_AFTER_S });
        }
        Ok(NewTicket { text, expires_at: ticket.expires_at })
    }

    /// Authenticates a caller with a ticket. Returns `None` if `covers` returns `false` for the path of the ticket.
    ///
    /// # Errors
    /// Returns an error if the ticket is not valid or a limit of its holder is exceeded.
    pub async fn admit_ticket(
        &self,
        text: &str,
        covers: impl Fn(&str) -> bool,
    ) -> Result<Option<AdmittedCaller>, AuthError> {
        if !key_format::is_ticket(text) {
            return Err(INVALID_TICKET);
        }
        let (hash, now) = (key_format::hash(text), self.clock.now());
        let ticket = self.stores.ticket(&hash, now).await?.filter(|ticket| ticket.path != CONSOLE);
        let mut ticket = ticket.ok_or(INVALID_TICKET)?;
        if !covers(&ticket.path) {
            return Ok(None);
        }
        let is_unused = ticket.used_at.is_none();
        if is_unused {
            ticket.expires_at = now.plus_millis(USED_MS);
        }
        let admitted = self.admit_holder(&ticket, None, now).await?;
        if is_unused {
            // If two requests use the ticket first at the same time, both succeed.
            self.stores.use_ticket(&hash, now, ticket.expires_at).await?;
        }
        Ok(Some(admitted))
    }

    /// Admits a request of the caller that requested a ticket. `session` is the hash of a session of the console.
    pub(super) async fn admit_holder(
        &self,
        ticket: &StoredTicket,
        session: Option<[u8; 32]>,
        now: Time,
    ) -> Result<AdmittedCaller, AuthError> {
        let (access, limits, holder) = self.holder_of(ticket, now).await?;
        let permit = limits.admit()?;
        let credential = self.credentials.of_ticket(&holder, ticket.expires_at, session);
        Ok(AdmittedCaller { access, limits, permit, credential })
    }

    /// Returns the permissions, the limits and the credential of the caller that requested a ticket.
    async fn holder_of(
        &self,
        ticket: &StoredTicket,
        now: Time,
    ) -> Result<(Access, Arc<Limits>, Arc<Credential>), AuthError> {
        if let Some(key) = ticket.key {
            return Ok(self.keys.find_id(key, &self.registry).await?.caller());
        }
        let Some(token) = &ticket.token else {
            let operator = self.operator().cloned().ok_or(INVALID_TICKET)?;
            return Ok((operator, Arc::new(Limits::new((0, 0), 0)), self.credentials.of_operator()));
        };
        let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("an event ticket: {error}"));
        let Token { scopes, subject, bounds, expires_at } = serde_json::from_str(token).map_err(corrupt)?;
        let expires_at = Time(expires_at);
        if expires_at <= now || self.jwt.is_none() {
            return Err(INVALID_TICKET);
        }
        let limits = self.limits.of_subject(&ticket.tenant, &subject, bounds);
        let scopes = Scopes::of_text(&scopes);
        let identity = Identity { subject: subject.as_str().into(), key: None, scopes };
        let identity = Some(identity.into());
        let caller = Caller { tenant: ticket.tenant.clone(), scopes, tools: None, queues: None, key: None, identity };
        let access = Access::open(caller, &self.stores, &self.registry).await?;
        Ok((access, limits, self.credentials.of_token(expires_at, subject, bounds)))
    }
}
