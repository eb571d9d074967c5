//! The issuer's public keys (RFC 7517): fetched on first use, and again when a token names an unknown key.

use std::collections::HashMap;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::AuthError;
use crate::domain::json;
use crate::executor::HttpClient;

/// Maximum length of the document in bytes, and maximum number of keys.
const MAX_BYTES: usize = 256 * 1024;
const MAX_KEYS: usize = 64;
/// Timeout of a request to the issuer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum interval of requests, regardless of the keys that tokens name.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// Lifetime of fetched keys, after which a key that the issuer has withdrawn is invalid.
const LIFETIME: Duration = Duration::from_secs(600);

/// One public key.
#[derive(Debug, Clone)]
struct Key {
    /// The only algorithm of the key, if it declares one.
    algorithm: Option<String>,
    key: DecodingKey,
}

#[derive(Debug, Default)]
struct KeySet {
    keys: HashMap<String, Key>,
    /// The time of the last successful request.
    at: Option<Instant>,
    /// The time of the last request.
    requested_at: Option<Instant>,
}

/// The keys of one issuer.
#[derive(Debug)]
pub struct Jwks {
    url: String,
    client: HttpClient,
    /// Locked during a request: one task fetches the keys for all, and the others wait for it.
    fetched: Mutex<KeySet>,
}

impl Jwks {
    /// Creates a key set without fetching it.
    #[must_use]
    pub fn new(url: String, client: HttpClient) -> Self {
        Self { url, client, fetched: Mutex::default() }
    }

    /// Returns the key of this name; without a name, the only key for the algorithm.
    ///
    /// # Errors
    /// Returns an error if the key is unknown or the keys are unavailable.
    pub async fn key(&self, name: Option<&str>, algorithm: Algorithm) -> Result<DecodingKey, AuthError> {
        let mut fetched = self.fetched.lock().await;
        let is_old = fetched.at.is_none_or(|at| at.elapsed() > LIFETIME);
        if is_old || fetched.find(name, algorithm).is_none() {
            self.fetch(&mut fetched).await;
        }
        // Keys stay valid for an hour while the issuer is unavailable, so that a short outage locks no caller out.
        let is_known = fetched.at.is_some_and(|at| at.elapsed() <= LIFETIME * 6);
        if !is_known {
            return Err(AuthError::Unknown("the keys of the token issuer are unavailable; try again"));
        }
        let unknown = AuthError::Invalid("the token is signed with an unknown key of the issuer");
        fetched.find(name, algorithm).cloned().ok_or(unknown)
    }

    async fn fetch(&self, fetched: &mut MutexGuard<'_, KeySet>) {
        if fetched.requested_at.is_some_and(|at| at.elapsed() < MIN_INTERVAL) {
            return;
        }
        fetched.requested_at = Some(Instant::now());
        match self.client.fetch_json(&self.url, MAX_BYTES, TIMEOUT, json::parse).await {
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

/// Returns the signature keys of a document. Unusable keys are skipped.
fn keys_of(document: &Value) -> HashMap<String, Key> {
    let all = document["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = all.iter().take(MAX_KEYS).enumerate().filter_map(|(index, key)| {
        // Read from the JSON, because the library rejects unknown algorithms.
        let algorithm = key["alg"].as_str().map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(key.clone()).ok()?;
        let is_for_signatures =
            jwk.common.public_key_use.as_ref().is_none_or(|r#use| *r#use == PublicKeyUse::Signature);
        let name = jwk.common.key_id.clone().unwrap_or_else(|| format!("\0{index}"));
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures)?;
        Some((name, Key { algorithm, key }))
    });
    read.collect()
}
