//! Idempotency keys and the fingerprints of their requests.

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::json::write_value;

/// An idempotency key and the fingerprint of its request. The key is stored as a hash, because it can be any text and
/// can be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// SHA-256 of the key and its kind.
    pub key: [u8; 32],
    /// SHA-256 of the request, independent of white space and member order.
    pub fingerprint: [u8; 32],
}

/// A claimed key and the calls that claimed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// The key.
    pub once: IdempotencyKey,
    /// The batch, if the request was a batch.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub calls: Vec<Uuid>,
}

impl IdempotencyKey {
    /// Creates the key of a request with an `Idempotency-Key` header.
    #[must_use]
    pub fn of_request(key: &str, body: &Value) -> Self {
        Self { key: hash(&[b"request", key.as_bytes()]), fingerprint: fingerprint(body) }
    }

    /// Creates the key of a call from its session and its caller's id.
    #[must_use]
    pub fn of_call(session: Option<&str>, call_id: &str, name: &str, arguments: Option<&Value>) -> Self {
        let kind: &[u8] = if session.is_some() { b"call in a session" } else { b"call" };
        let key = hash(&[kind, session.unwrap_or_default().as_bytes(), call_id.as_bytes()]);
        let what = serde_json::json!([name, arguments]);
        Self { key, fingerprint: fingerprint(&what) }
    }
}

/// Returns the SHA-256 of the parts with their lengths, so that different lists of parts have different inputs.
#[must_use]
pub fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Returns the SHA-256 of bytes.
#[must_use]
pub fn hash_of(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 of a value, independent of white space and member order.
#[must_use]
pub fn fingerprint(value: &Value) -> [u8; 32] {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    let mut text = Vec::new();
    write_value(&mut text, &sorted);
    hash(&[&text])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fingerprint_ignores_white_space_and_member_order() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = IdempotencyKey::of_request("k", &parse(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#));
        assert_eq!(one, IdempotencyKey::of_request("k", &parse(r#"{ "b": {"d": null, "c": [1, 2]}, "a": 1 }"#)));
        for other in [r#"{"a":1,"b":{"c":[2,1],"d":null}}"#, r#"{"a":1,"b":{"c":[1,2]}}"#, r#"{"a":1.0,"b":0}"#] {
            let other = IdempotencyKey::of_request("k", &parse(other));
            assert_eq!((other.key, other.fingerprint == one.fingerprint), (one.key, false));
        }
    }

    #[test]
    fn keys_of_different_kinds_sessions_and_ids_differ() {
        let keys = [
            IdempotencyKey::of_request("ab", &json!({})).key,
            IdempotencyKey::of_call(None, "ab", "t", None).key,
            IdempotencyKey::of_call(Some(""), "ab", "t", None).key,
            IdempotencyKey::of_call(Some("a"), "b", "t", None).key,
            IdempotencyKey::of_call(Some("b"), "a", "t", None).key,
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
