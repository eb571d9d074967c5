//! Encryption of values at rest: XChaCha20-Poly1305 under a key of the operator, bound to the place of each value.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};

use toolpost_core::domain::Tenant;
use toolpost_core::domain::preset::SealedValue;

/// Size of a nonce, in bytes. Random nonces of this size do not collide.
const NONCE: usize = 24;
/// Maximum length of a key id, in bytes.
const MAX_ID: usize = 64;

/// The encryption keys. The first one seals, all of them open. `Debug` shows only their ids.
#[derive(Clone, Default)]
pub struct Vault(Vec<(String, XChaCha20Poly1305)>);

/// The place that a value is sealed for. It cannot be opened for another place.
#[derive(Debug, Clone, Copy)]
pub struct SealContext<'a> {
    /// The tenant that owns the value.
    pub tenant: &'a Tenant,
    /// The name of the tool.
    pub tool: &'a str,
    /// The name of the preset.
    pub name: &'a str,
}

/// An error returned by [`Vault::parse`]. It never contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// An entry has no colon or no valid id before it.
    #[error(
        "entry {0} is not `id:key`; write the output of `openssl rand -base64 32` after an id of your choice, as \
        in `2026:…`"
    )]
    NoId(usize),
    /// A key is not base64 of 32 bytes.
    #[error(
        "the key \"{0}\" is not base64 (RFC 4648, section 4) of 32 bytes; create one with `openssl rand -base64 32`"
    )]
    NoKey(String),
    /// An id occurs twice.
    #[error("the key id \"{0}\" occurs twice; each key needs its own id")]
    Twice(String),
}

/// An error returned by [`Vault::seal`] and [`Vault::open`]. It never contains the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// No key is configured.
    #[error(
        "this service has no encryption key and cannot store values; the operator can set TOOLPOST_ENCRYPTION_KEYS to \
         `id:` and the base64 of 32 bytes (`openssl rand -base64 32`)"
    )]
    NoKey,
    /// The key that sealed the value is not configured.
    #[error("the value was sealed with the key \"{0}\", which is not in TOOLPOST_ENCRYPTION_KEYS")]
    UnknownKey(String),
    /// The sealed value was modified, or was sealed for another place.
    #[error(
        "the stored value cannot be opened with the key \"{0}\": the value was modified or the key is a different one"
    )]
    Corrupt(String),
    /// The operating system provides no random bytes.
    #[error("the operating system provides no random bytes")]
    Randomness,
}

impl Vault {
    /// Parses `id:base64,id:base64`. Empty text means no keys.
    ///
    /// # Errors
    /// Returns a [`KeyringError`] for the first invalid entry.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut keys: Vec<(String, XChaCha20Poly1305)> = Vec::new();
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        for (index, entry) in entries.enumerate() {
            let (id, key) = entry.split_once(':').ok_or(KeyringError::NoId(index + 1))?;
            let id = id.trim();
            // An invalid id may be a key, so the error does not repeat it.
            let is_id = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            if id.is_empty() || id.len() > MAX_ID || !id.chars().all(is_id) {
                return Err(KeyringError::NoId(index + 1));
            }
            let bytes = STANDARD.decode(key.trim()).or_else(|_| STANDARD_NO_PAD.decode(key.trim()));
            let bytes: Result<[u8; 32], ()> = bytes.map_err(|_| ()).and_then(|bytes| bytes.try_into().map_err(|_| ()));
            let key = Key::from(bytes.map_err(|()| KeyringError::NoKey(id.to_owned()))?);
            if keys.iter().any(|(other, _)| other == id) {
                return Err(KeyringError::Twice(id.to_owned()));
            }
            keys.push((id.to_owned(), XChaCha20Poly1305::new(&key)));
        }
        Ok(Self(keys))
    }

    /// Adds a key that seals only if no other key is configured.
    #[must_use]
    pub fn with_fallback_key(mut self, id: &str, key: [u8; 32]) -> Self {
        if !self.0.iter().any(|(other, _)| other == id) {
            self.0.push((id.to_owned(), XChaCha20Poly1305::new(&Key::from(key))));
        }
        self
    }

    /// Returns the id of the key that seals. Values under another key should be sealed again.
    #[must_use]
    pub fn sealing_key(&self) -> Option<&str> {
        self.0.first().map(|(id, _)| id.as_str())
    }

    /// Seals a value.
    ///
    /// # Errors
    /// Returns an error if no key is configured or no random bytes are available.
    pub fn seal(&self, value: &[u8], context: &SealContext<'_>) -> Result<SealedValue, VaultError> {
        let (id, cipher) = self.0.first().ok_or(VaultError::NoKey)?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::Randomness)?;
        let payload = Payload { msg: value, aad: &context.bytes() };
        let sealed = cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| VaultError::Corrupt(id.clone()))?;
        Ok(SealedValue { key_id: id.clone(), bytes: [nonce.as_slice(), &sealed].concat() })
    }

    /// Opens a value.
    ///
    /// # Errors
    /// Returns an error if its key is unknown, the value was modified, or it was sealed for another place.
    pub fn open(&self, sealed: &SealedValue, context: &SealContext<'_>) -> Result<Vec<u8>, VaultError> {
        let SealedValue { key_id, bytes } = sealed;
        let key = self.0.iter().find(|(id, _)| id == key_id);
        let (_, cipher) = key.ok_or_else(|| VaultError::UnknownKey(key_id.clone()))?;
        let broken = || VaultError::Corrupt(key_id.clone());
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or_else(broken)?;
        let payload = Payload { msg: sealed, aad: &context.bytes() };
        cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| broken())
    }
}

impl SealContext<'_> {
    /// Encodes the place with a length before each part, so that no two places have the same bytes.
    fn bytes(&self) -> Vec<u8> {
        let parts = [self.tenant.as_str(), self.tool, self.name];
        parts.iter().flat_map(|part| [&(part.len() as u64).to_le_bytes(), part.as_bytes()].concat()).collect()
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(keys: &[(&str, u8)]) -> Vault {
        let entries: Vec<String> =
            keys.iter().map(|(id, byte)| format!("{id}:{}", STANDARD.encode([*byte; 32]))).collect();
        Vault::parse(&entries.join(", ")).unwrap()
    }

    fn context<'a>(tenant: &'a Tenant, tool: &'a str, name: &'a str) -> SealContext<'a> {
        SealContext { tenant, tool, name }
    }

    #[test]
    fn value_opens_only_in_the_context_it_was_sealed_for() {
        let (vault, tenant) = (vault(&[("a", 1)]), Tenant::default());
        let sealed = vault.seal(b"value", &context(&tenant, "tool", "key")).unwrap();
        assert_eq!(vault.open(&sealed, &context(&tenant, "tool", "key")).unwrap(), b"value");
        for (tool, name) in [("tool", "kez"), ("tools", "key"), ("toolk", "ey"), ("", "toolkey")] {
            assert_eq!(vault.open(&sealed, &context(&tenant, tool, name)), Err(VaultError::Corrupt("a".into())));
        }
        let mut changed = sealed.clone();
        *changed.bytes.last_mut().unwrap() ^= 1;
        assert!(vault.open(&changed, &context(&tenant, "tool", "key")).is_err());
        changed.bytes.truncate(NONCE - 1);
        assert!(vault.open(&changed, &context(&tenant, "tool", "key")).is_err());
        let again = vault.seal(b"value", &context(&tenant, "tool", "key")).unwrap();
        assert_ne!(again.bytes, sealed.bytes, "each value has its own nonce");
    }

    #[test]
    fn new_key_seals_while_the_old_one_still_opens() {
        let tenant = Tenant::default();
        let context = context(&tenant, "t", "k");
        let old = vault(&[("a", 1)]).seal(b"value", &context).unwrap();
        let rotated = vault(&[("b", 2), ("a", 1)]);
        assert_eq!(rotated.open(&old, &context).unwrap(), b"value");
        assert_eq!(rotated.seal(b"value", &context).unwrap().key_id, "b");
        assert_eq!(vault(&[("b", 2)]).open(&old, &context), Err(VaultError::UnknownKey("a".into())));
        assert_eq!(vault(&[]).seal(b"value", &context), Err(VaultError::NoKey));
    }

    #[test]
    fn invalid_keys_are_rejected_and_not_repeated() {
        let good = STANDARD.encode([1; 32]);
        assert_eq!(Vault::parse(" ").unwrap().sealing_key(), None);
        assert_eq!(Vault::parse(&good).unwrap_err(), KeyringError::NoId(1));
        assert_eq!(Vault::parse(&format!("a:{good},{good}")).unwrap_err(), KeyringError::NoId(2));
        assert_eq!(Vault::parse(&format!("a:{good},a:{good}")).unwrap_err(), KeyringError::Twice("a".into()));
        let error = Vault::parse("a:c2VjcmV0").unwrap_err();
        assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
        assert_eq!(format!("{:?}", vault(&[("a", 1)])), "[\"a\"]");
    }
}
