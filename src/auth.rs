//! Who asks: API keys, tokens of an issuer, or anybody while the service is open.
//!
//! A service without keys and without an issuer is open: whoever reaches it is the operator. That is for one machine only,
//! see `toolpost serve`. Once there is a key, everybody has to show one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::domain::Clock;
use crate::registry::Registry;
use crate::store::{StoreError, Stores};

pub mod create;
mod credentials;
pub mod jwks;
pub mod jwt;
pub mod key_format;
pub mod keys;
pub mod limits;
mod subjects;
pub mod tickets;

pub use credentials::Credential;
pub use jwt::Jwt;
pub use keys::Keys;
pub use limits::{Defaults, LimitExceeded, Limits, Permit};

use credentials::Credentials;
use jwt::Claims;
use subjects::Subjects;

/// How often it is looked whether keys have changed: a revoked one is of no use 5 s later, on any node.
const LOOK: Duration = Duration::from_secs(1);

/// Why nobody is let in with this.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// It is no key and no token, or one that ended.
    #[error("{0}")]
    Invalid(&'static str),
    /// Whether it is good cannot be found out now.
    #[error("{0}")]
    Unknown(&'static str),
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A caller who has shown who they are, with their share of the service.
#[derive(Debug)]
pub struct Admitted {
    /// What they may see.
    pub access: Access,
    /// How much they may ask.
    pub limits: Arc<Limits>,
    /// Their place among what they do at once.
    pub permit: Option<Permit>,
    /// What they have shown.
    pub credential: Arc<Credential>,
}

/// Why a caller who is known is not served now.
#[derive(Debug)]
pub enum AdmitError {
    /// They are not known.
    Denied(AuthError),
    /// They ask too much.
    Busy(LimitExceeded),
}

impl From<AuthError> for AdmitError {
    fn from(denied: AuthError) -> Self {
        Self::Denied(denied)
    }
}

/// What callers are asked to show.
#[derive(Debug)]
pub struct Auth {
    stores: Stores,
    registry: Arc<Registry>,
    clock: Clock,
    operator: Access,
    keys: Keys,
    jwt: Option<Jwt>,
    subjects: Subjects,
    credentials: Arc<Credentials>,
    /// Nobody is asked for anything, whatever there is.
    allow_anonymous: bool,
    /// Everybody is asked, whether or not there are keys yet.
    require_credentials: AtomicBool,
}

impl Auth {
    /// Reads whether there are keys.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn open(
        stores: Stores,
        registry: Arc<Registry>,
        clock: Clock,
        jwt: Option<Jwt>,
        defaults: Defaults,
        is_insecure: bool,
    ) -> Result<Self, StoreError> {
        let operator = Access::operator(&stores, &registry);
        let credentials = Arc::<Credentials>::default();
        let keys = Keys::new(stores.clone(), clock.clone(), defaults, credentials.clone());
        keys.refresh().await?;
        let (subjects, is_closed) = (Subjects::new(defaults.streams), AtomicBool::new(false));
        Ok(Self {
            stores,
            registry,
            clock,
            operator,
            keys,
            jwt,
            subjects,
            credentials,
            allow_anonymous: is_insecure,
            require_credentials: is_closed,
        })
    }

    /// The operator's access, if nobody has to show anything.
    #[must_use]
    pub fn operator(&self) -> Option<&Access> {
        let is_asked = self.jwt.is_some() || self.require_credentials.load(Ordering::Relaxed) || self.keys.any_exist();
        (self.allow_anonymous || !is_asked).then_some(&self.operator)
    }

    /// From now on everybody has to show who they are, also while there is no key: strangers can reach the service. Not if
    /// the operator has said that it does not matter.
    pub fn close(&self) {
        self.require_credentials.store(true, Ordering::Relaxed);
    }

    /// Who this is: what `Authorization: Bearer` has.
    ///
    /// # Errors
    /// If nobody is let in with it, or has asked too much.
    pub async fn admit(&self, bearer: &str) -> Result<Admitted, AdmitError> {
        if key_format::is_key(bearer) {
            let known = self.keys.find(bearer, &self.registry).await?;
            let permit = known.limits.admit().map_err(AdmitError::Busy)?;
            let (access, limits, credential) = (known.access.clone(), known.limits.clone(), known.credential.clone());
            return Ok(Admitted { access, limits, permit, credential });
        }
        let Some(jwt) = &self.jwt else {
            return Err(AuthError::Invalid("this is no API key: one begins with `tp_`").into());
        };
        let Claims { caller, subject, bounds, expires_at } = jwt.read(bearer).await?;
        let limits = self.subjects.of(&caller.tenant, &subject, bounds);
        let permit = limits.admit().map_err(AdmitError::Busy)?;
        let access = Access::open(caller, &self.stores, &self.registry).await.map_err(AuthError::Store)?;
        Ok(Admitted { access, limits, permit, credential: self.credentials.of_token(expires_at, subject, bounds) })
    }

    /// Whether this may be a key or a token of an issuer, and not a call's own token.
    #[must_use]
    pub fn is_for(&self, bearer: &str) -> bool {
        key_format::is_key(bearer) || self.jwt.is_some() && bearer.split('.').count() == 3
    }

    /// Sees at once what was just changed here.
    ///
    /// # Errors
    /// If the database fails; then it is seen with the next look.
    pub async fn look(&self) -> Result<(), StoreError> {
        self.keys.refresh().await?;
        self.keys.end_revoked().await
    }

    /// Follows the changes of keys by other nodes and the command line, and notes which are used, until `stop` fires. Ends
    /// what was opened with keys and tokens that have ended.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        tokio::join!(self.follow_keys(&stop), self.follow_clock(&stop));
    }

    /// Does not wait for the database: what expires does so without it.
    async fn follow_clock(&self, stop: &CancellationToken) {
        while tokio::time::timeout(LOOK, stop.cancelled()).await.is_err() {
            self.credentials.end_expired(self.clock.now());
        }
    }

    async fn follow_keys(&self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(LOOK) => {}
            }
            // A database that is away is told of by the journal; until it is back no key counts for long.
            let _ = self.look().await;
            let _ = self.keys.note_use().await;
        }
        let _ = self.keys.note_use().await;
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> crate::domain::Time {
        self.clock.now()
    }
}
