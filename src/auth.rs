//! Authentication: API keys, tokens of a configured issuer, or open access.
//!
//! A service without keys and without an issuer is open: every caller has the operator's permissions. `toolpost serve`
//! allows this only on a loopback address. Once a key exists, authentication is required.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::domain::Clock;
use crate::registry::Registry;
use crate::store::signals::Wakeup;
use crate::store::{StoreError, Stores};

mod console;
pub mod create;
mod credentials;
mod failures;
pub mod jwks;
pub mod jwt;
pub mod key_format;
pub mod keys;
pub mod limits;
pub mod tickets;

pub use credentials::Credential;
pub use jwt::Jwt;
pub use keys::Keys;
pub use limits::{Defaults, LimitExceeded, Limits, Permit};

use credentials::Credentials;
use failures::Failures;
use jwt::Claims;
use limits::LimitTable;

/// Interval of the checks for expired credentials.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// An error of the authentication of a credential, or of the admission of its request.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The credential is not a valid key or token, or it has expired or was revoked.
    #[error("{0}")]
    Invalid(&'static str),
    /// The credential cannot be checked now.
    #[error("{0}")]
    Unknown(&'static str),
    /// A limit of the caller is exceeded.
    #[error(transparent)]
    Busy(#[from] LimitExceeded),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An authenticated caller with its limits.
#[derive(Debug)]
pub struct AdmittedCaller {
    /// The permissions of the caller.
    pub access: Access,
    /// The rate and concurrency limits of the caller.
    pub limits: Arc<Limits>,
    /// The permit of this request; `None` if concurrency is not limited.
    pub permit: Option<Permit>,
    /// The credential of the caller.
    pub credential: Arc<Credential>,
}

/// The authentication of all callers.
#[derive(Debug)]
pub struct Auth {
    stores: Stores,
    registry: Arc<Registry>,
    clock: Clock,
    operator: Access,
    keys: Keys,
    jwt: Option<Jwt>,
    limits: Arc<LimitTable>,
    credentials: Arc<Credentials>,
    failures: Failures,
    /// The version of all keys at which the sessions of the console were last checked.
    sessions_checked_at: AtomicI64,
    /// Disables authentication, even if keys exist.
    allow_anonymous: bool,
    /// Requires authentication, even if no key exists yet.
    require_credentials: AtomicBool,
}

impl Auth {
    /// Creates the authentication and reads whether keys exist.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn open(
        stores: Stores,
        registry: Arc<Registry>,
        clock: Clock,
        jwt: Option<Jwt>,
        defaults: Defaults,
        allow_anonymous: bool,
    ) -> Result<Self, StoreError> {
        let operator = Access::operator(&stores, &registry);
        let credentials = Arc::<Credentials>::default();
        let limits = Arc::new(LimitTable::new(defaults));
        let keys = Keys::new(stores.clone(), clock.clone(), limits.clone(), credentials.clone());
        keys.refresh().await?;
        let failures = Failures::new(clock.clone(), defaults.failures);
        Ok(Self {
            failures,
            sessions_checked_at: AtomicI64::new(-1),
            stores,
            registry,
            clock,
            operator,
            keys,
            jwt,
            limits,
            credentials,
            allow_anonymous,
            require_credentials: AtomicBool::new(false),
        })
    }

    /// Returns the operator's access, if the service is open.
    #[must_use]
    pub fn operator(&self) -> Option<&Access> {
        let is_required =
            self.jwt.is_some() || self.require_credentials.load(Ordering::Relaxed) || self.keys.any_exist();
        (self.allow_anonymous || !is_required).then_some(&self.operator)
    }

    /// Requires authentication from now on, even without a key, because other machines can reach the service. Has no
    /// effect if the operator has disabled authentication.
    pub fn close(&self) {
        self.require_credentials.store(true, Ordering::Relaxed);
    }

    /// Authenticates the caller with the value of `Authorization: Bearer`. `address` is that of the client, if it is
    /// known; its failures are counted. After too many of them, only keys that this node has accepted before and valid
    /// tokens are admitted, so that a client with a wrong key does not affect others behind the same gateway.
    ///
    /// # Errors
    /// Returns an error if the credential is not valid or a limit of the caller is exceeded.
    pub async fn admit(&self, bearer: &str, address: Option<IpAddr>) -> Result<AdmittedCaller, AuthError> {
        let refusal = address.and_then(|address| self.failures.refusal(address));
        if let Some(refusal) = refusal
            && key_format::is_key(bearer)
            && !self.keys.is_cached(bearer)
        {
            return Err(refusal.into());
        }
        let admitted = self.admit_unlimited(bearer).await;
        if let (Err(AuthError::Invalid(_)), Some(address)) = (&admitted, address) {
            self.failures.record(address);
            return refusal.map_or(admitted, |refusal| Err(refusal.into()));
        }
        admitted
    }

    async fn admit_unlimited(&self, bearer: &str) -> Result<AdmittedCaller, AuthError> {
        if key_format::is_key(bearer) {
            let known = self.keys.find(bearer, &self.registry).await?;
            let (access, limits, credential) = known.caller();
            return Ok(AdmittedCaller { access, permit: limits.admit()?, limits, credential });
        }
        let Some(jwt) = &self.jwt else {
            return Err(AuthError::Invalid("not an API key: keys begin with `tp_`"));
        };
        let Claims { caller, subject, bounds, expires_at } = jwt.read(bearer).await?;
        let limits = self.limits.of_subject(&caller.tenant, &subject, bounds);
        let permit = limits.admit()?;
        let access = Access::open(caller, &self.stores, &self.registry).await?;
        Ok(AdmittedCaller {
            access,
            limits,
            permit,
            credential: self.credentials.of_token(expires_at, subject, bounds),
        })
    }

    /// Returns `true` if the credential may be a key or a token of the issuer, and not the token of a call.
    #[must_use]
    pub fn is_for(&self, bearer: &str) -> bool {
        key_format::is_key(bearer) || self.jwt.is_some() && bearer.split('.').count() == 3
    }

    /// Applies changes of keys immediately.
    ///
    /// # Errors
    /// Returns an error if the database fails; the changes are then applied by the next check.
    pub async fn look(&self) -> Result<(), StoreError> {
        self.keys.refresh().await?;
        self.keys.end_revoked().await?;
        self.end_signed_out().await
    }

    /// Follows changes of keys by other nodes and the command line, and records the use of keys, until `stop` fires.
    /// Ends the requests and streams of credentials that have ended. `changed` signals a change, and `poll` is the
    /// interval between checks without a signal.
    pub async fn follow(self: Arc<Self>, changed: Wakeup, poll: Duration, stop: CancellationToken) {
        tokio::join!(self.follow_keys(changed, poll, &stop), self.follow_clock(&stop));
    }

    /// Ends expired credentials. It is independent of the database.
    async fn follow_clock(&self, stop: &CancellationToken) {
        while tokio::time::timeout(CHECK_INTERVAL, stop.cancelled()).await.is_err() {
            self.credentials.end_expired(self.clock.now());
        }
    }

    async fn follow_keys(&self, mut changed: Wakeup, poll: Duration, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = changed.woken() => {}
                () = tokio::time::sleep(poll) => {}
            }
            // The journal reports an unavailable database. Until it is back, cached keys become invalid after a few
            // seconds.
            let _ = self.look().await;
            let _ = self.keys.note_use().await;
        }
        let _ = self.keys.note_use().await;
    }
}
