//! The issuer's public keys (RFC 7517): fetched when they are first wanted, and again when a token names an unknown one.

use std::collections::HashMap;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::executor::HttpClient;

/// Largest document, in bytes, and most keys of it.
const LARGEST: usize = 256 * 1024;
const MOST_KEYS: usize = 64;
/// How long the issuer may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked at most, whatever tokens name.
const AT_MOST_EVERY: Duration = Duration::from_secs(30);
/// How long keys count without being asked for again: one that the issuer has withdrawn is of no use then.
const GOOD_FOR: Duration = Duration::from_secs(600);

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLookupError {
    /// The issuer has none of this name.
    Unknown,
    /// The issuer cannot be asked.
    Unavailable,
}

/// One public key.
#[derive(Debug, Clone)]
struct Key {
    /// The one algorithm that it is for, where it says so.
    algorithm: Option<String>,
    key: DecodingKey,
}

#[derive(Debug, Default)]
struct KeySet {
    keys: HashMap<String, Key>,
    /// When they were fetched.
    at: Option<Instant>,
    /// When that was tried last.
    tried_at: Option<Instant>,
}

/// The keys of one issuer.
#[derive(Debug)]
pub struct Jwks {
    url: String,
    client: HttpClient,
    /// Held while the issuer is asked: one asks for all, and the others wait for no longer than it.
    fetched: Mutex<KeySet>,
}

impl Jwks {
    /// Nothing is fetched yet.
    #[must_use]
    pub fn new(url: String, client: HttpClient) -> Self {
        Self { url, client, fetched: Mutex::default() }
    }

    /// The key of this name; without a name the only one that there is.
    ///
    /// # Errors
    /// If there is none.
    pub async fn key(&self, name: Option<&str>, algorithm: Algorithm) -> Result<DecodingKey, KeyLookupError> {
        let mut fetched = self.fetched.lock().await;
        let is_old = fetched.at.is_none_or(|at| at.elapsed() > GOOD_FOR);
        if is_old || fetched.find(name, algorithm).is_none() {
            self.fetch(&mut fetched).await;
        }
        // An issuer that cannot be asked for a while does not lock everybody out at once.
        let is_known = fetched.at.is_some_and(|at| at.elapsed() <= GOOD_FOR * 6);
        match fetched.find(name, algorithm).filter(|_| is_known) {
            Some(key) => Ok(key.clone()),
            None if is_known => Err(KeyLookupError::Unknown),
            None => Err(KeyLookupError::Unavailable),
        }
    }

    async fn fetch(&self, fetched: &mut MutexGuard<'_, KeySet>) {
        if fetched.tried_at.is_some_and(|at| at.elapsed() < AT_MOST_EVERY) {
            return;
        }
        fetched.tried_at = Some(Instant::now());
        match self.client.fetch_json(&self.url, LARGEST, PATIENCE).await {
            Ok(document) => {
                fetched.keys = keys_of(&document);
                fetched.at = Some(Instant::now());
            }
            Err(error) => tracing::error!(error, "the issuer's keys cannot be fetched"),
        }
    }
}

impl KeySet {
    fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let is_for = |key: &&Key| {
            let named = key.algorithm.as_deref().is_none_or(|name| name == format!("{algorithm:?}"));
            named && key.key.family() == algorithm.family()
        };
        let found = match name {
            Some(name) => self.keys.get(name).filter(is_for),
            None => {
                let mut fitting = self.keys.values().filter(is_for);
                fitting.next().filter(|_| fitting.next().is_none())
            }
        };
        found.map(|key| &key.key)
    }
}

/// The keys for signatures that a document has. One that cannot be used is left out.
fn keys_of(document: &Value) -> HashMap<String, Key> {
    let all = document["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = all.iter().take(MOST_KEYS).enumerate().filter_map(|(place, key)| {
        // As the document has it: what the library does not know of it is no reason to leave the key out.
        let algorithm = key["alg"].as_str().map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
        let is_for_signatures =
            jwk.common.public_key_use.as_ref().is_none_or(|r#use| *r#use == PublicKeyUse::Signature);
        let name = jwk.common.key_id.clone().unwrap_or_else(|| format!("\0{place}"));
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures)?;
        Some((name, Key { algorithm, key }))
    });
    read.collect()
}
