//! What makes two requests the same: an idempotency key, and the fingerprint of what it came with.

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A key and what it stands for. The key is kept as its hash: it may be any text, and may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// SHA-256 of the key and of what kind it is.
    pub key: [u8; 32],
    /// SHA-256 of the request, whatever its blanks and the order of its members.
    pub fingerprint: [u8; 32],
}

/// A key that is taken, and by which calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// The key.
    pub once: IdempotencyKey,
    /// The batch, if the request was one.
    pub batch_id: Option<Uuid>,
    /// The calls, in request order.
    pub calls: Vec<Uuid>,
}

impl IdempotencyKey {
    /// Of a whole request with an `Idempotency-Key`.
    #[must_use]
    pub fn of_request(key: &str, body: &Value) -> Self {
        Self { key: hash(&[b"request", key.as_bytes()]), fingerprint: fingerprint(body) }
    }

    /// Of one call by its session and its caller's id.
    #[must_use]
    pub fn of_call(session: Option<&str>, call_id: &str, name: &str, arguments: Option<&Value>) -> Self {
        let kind: &[u8] = if session.is_some() { b"call in a session" } else { b"call" };
        let key = hash(&[kind, session.unwrap_or_default().as_bytes(), call_id.as_bytes()]);
        let what = serde_json::json!([name, arguments]);
        Self { key, fingerprint: fingerprint(&what) }
    }
}

/// SHA-256 of the parts with their lengths, so that no two lists of parts are the same text.
#[must_use]
pub fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// SHA-256 of a value, whatever its blanks and the order of its members.
#[must_use]
pub fn fingerprint(value: &Value) -> [u8; 32] {
    let mut text = String::new();
    canonical(value, &mut text);
    hash(&[text.as_bytes()])
}

/// JSON with sorted members and no blanks.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (place, (name, value)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_the_same_whatever_its_blanks_and_order_and_no_other() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = IdempotencyKey::of_request("k", &parse(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#));
        assert_eq!(one, IdempotencyKey::of_request("k", &parse(r#"{ "b": {"d": null, "c": [1, 2]}, "a": 1 }"#)));
        for other in [r#"{"a":1,"b":{"c":[2,1],"d":null}}"#, r#"{"a":1,"b":{"c":[1,2]}}"#, r#"{"a":1.0,"b":0}"#] {
            let other = IdempotencyKey::of_request("k", &parse(other));
            assert_eq!((other.key, other.fingerprint == one.fingerprint), (one.key, false));
        }
    }

    #[test]
    fn keys_of_different_kinds_sessions_and_ids_never_meet() {
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
