//! The credentials of open requests and streams, which end together with their credential.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::limits::Bounds;
use crate::domain::Time;

/// An API key, a token or a ticket in use.
#[derive(Debug)]
pub struct Credential {
    key: Option<Uuid>,
    /// The subject of a token of an issuer, and its limits.
    pub(super) subject: Option<(String, Bounds)>,
    pub(super) expires_at: Option<Time>,
    /// The hash of the session of the console through which the key is used.
    session: Option<[u8; 32]>,
    /// The version of all keys at which the key was found to be valid.
    valid_at: AtomicI64,
    ended: CancellationToken,
}

impl Credential {
    /// Waits until the credential is revoked or has expired.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn has_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// All credentials in use on this node.
#[derive(Debug, Default)]
pub(super) struct Credentials(Mutex<Vec<Weak<Credential>>>);

impl Credentials {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Credential>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key that was read at this version of all keys.
    pub fn of_key(&self, id: Uuid, expires_at: Option<Time>, version: i64) -> Arc<Credential> {
        self.add(Some(id), None, expires_at, version)
    }

    /// Adds a token of an issuer.
    pub fn of_token(&self, expires_at: Time, subject: String, bounds: Bounds) -> Arc<Credential> {
        self.add(None, Some((subject, bounds)), Some(expires_at), 0)
    }

    /// Adds the operator of an open service, who needs no credential.
    pub fn of_operator(&self) -> Arc<Credential> {
        self.add(None, None, None, 0)
    }

    /// Adds a ticket that ends at this time, or earlier with the credential of its holder. `session` is the hash of a session
    /// of the console, which also ends with its sign-out.
    pub fn of_ticket(&self, holder: &Credential, expires_at: Time, session: Option<[u8; 32]>) -> Arc<Credential> {
        let end = holder.expires_at.map_or(expires_at, |end| end.min(expires_at));
        self.register(Credential {
            key: holder.key,
            subject: holder.subject.clone(),
            expires_at: Some(end),
            session,
            valid_at: AtomicI64::new(holder.valid_at.load(Ordering::Relaxed)),
            ended: CancellationToken::new(),
        })
    }

    fn add(
        &self,
        key: Option<Uuid>,
        subject: Option<(String, Bounds)>,
        expires_at: Option<Time>,
        version: i64,
    ) -> Arc<Credential> {
        let (valid_at, ended) = (AtomicI64::new(version), CancellationToken::new());
        self.register(Credential { key, subject, expires_at, session: None, valid_at, ended })
    }

    fn register(&self, credential: Credential) -> Arc<Credential> {
        let credential = Arc::new(credential);
        self.all().push(Arc::downgrade(&credential));
        credential
    }

    /// Ends expired credentials and removes credentials that are no longer in use.
    pub fn end_expired(&self, now: Time) {
        self.end_unless(|credential| !credential.has_expired(now));
    }

    fn end_unless(&self, is_valid: impl Fn(&Credential) -> bool) {
        let mut ended = Vec::new();
        self.all().retain(|credential| {
            let Some(credential) = credential.upgrade() else { return false };
            let is_valid = is_valid(&credential);
            if !is_valid {
                ended.push(credential);
            }
            is_valid
        });
        ended.iter().for_each(|credential| credential.ended.cancel());
    }

    /// Returns the keys that were last found to be valid at another version of all keys.
    pub fn unchecked(&self, version: i64) -> Vec<Uuid> {
        let all = self.all();
        let used = all.iter().filter_map(Weak::upgrade);
        let unchecked: HashSet<Uuid> =
            used.filter(|one| one.valid_at.load(Ordering::Relaxed) != version).filter_map(|one| one.key).collect();
        unchecked.into_iter().collect()
    }

    /// Ends the `checked` keys that are not `valid`.
    pub fn end_revoked(&self, version: i64, checked: &[Uuid], valid: &HashSet<Uuid>) {
        let checked: HashSet<Uuid> = checked.iter().copied().collect();
        self.end_unless(|credential| {
            let Some(key) = credential.key.filter(|key| checked.contains(key)) else { return true };
            let is_valid = valid.contains(&key);
            if is_valid {
                credential.valid_at.store(version, Ordering::Relaxed);
            }
            is_valid
        });
    }

    /// Returns the sessions of the console in use.
    pub fn sessions(&self) -> HashSet<[u8; 32]> {
        self.all().iter().filter_map(Weak::upgrade).filter_map(|one| one.session).collect()
    }

    /// Ends the sessions of the console in `ended`.
    pub fn end_sessions(&self, ended: &HashSet<[u8; 32]>) {
        self.end_unless(|credential| credential.session.is_none_or(|session| !ended.contains(&session)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_credential_ends_and_others_do_not() {
        let credentials = Credentials::default();
        let token = credentials.of_token(Time(5), String::new(), (0, 0));
        let (short, long) =
            (credentials.of_key(Uuid::nil(), Some(Time(6)), 0), credentials.of_key(Uuid::nil(), None, 0));
        credentials.end_expired(Time(5));
        assert!(token.ended.is_cancelled() && !short.ended.is_cancelled());
        credentials.end_expired(Time(6));
        assert!(short.ended.is_cancelled() && !long.ended.is_cancelled());
        assert_eq!(credentials.all().len(), 1);
    }

    #[test]
    fn only_possibly_revoked_keys_are_looked_up() {
        let credentials = Credentials::default();
        let [one, other] = [1, 2].map(|id| credentials.of_key(Uuid::from_u128(id), None, 7));
        drop(credentials.of_key(Uuid::from_u128(3), None, 7));
        assert!(credentials.unchecked(7).is_empty());
        let mut changed = credentials.unchecked(8);
        changed.sort_unstable();
        assert_eq!(changed, [1, 2].map(Uuid::from_u128));
        credentials.end_revoked(8, &changed, &HashSet::from([Uuid::from_u128(2)]));
        assert!(one.ended.is_cancelled() && !other.ended.is_cancelled());
        assert!(credentials.unchecked(8).is_empty());
    }
}
