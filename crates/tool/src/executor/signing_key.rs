//! The signing key of this service: signs outgoing requests and derives the tokens by which tools report on their
//! calls.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use uuid::Uuid;

use toolpost_core::domain::Time;

/// Prefix of a signing secret (Standard Webhooks).
const PREFIX: &str = "whsec_";

/// The signing secret. Never shown by `Debug`.
#[derive(Clone)]
pub struct SigningKey(Arc<[u8]>);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningKey(…)")
    }
}

/// An error returned by [`SigningKey::parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret is `whsec_` followed by the base64 of 24 to 64 bytes (Standard Webhooks)")]
pub struct InvalidSigningSecret;

impl SigningKey {
    /// Parses `whsec_…`.
    ///
    /// # Errors
    /// Returns [`InvalidSigningSecret`] if the text is not a valid signing secret.
    pub fn parse(text: &str) -> Result<Self, InvalidSigningSecret> {
        let bytes = STANDARD
            .decode(text.strip_prefix(PREFIX).ok_or(InvalidSigningSecret)?)
            .map_err(|_| InvalidSigningSecret)?;
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes.into())) } else { Err(InvalidSigningSecret) }
    }

    /// Encodes random bytes as a signing secret, `whsec_…`.
    #[must_use]
    pub fn text_of(bytes: &[u8; 32]) -> String {
        format!("{PREFIX}{}", STANDARD.encode(bytes))
    }

    /// Derives a key for another purpose. The derived key reveals nothing about this one.
    #[must_use]
    pub fn derived(&self, purpose: &str) -> [u8; 32] {
        self.mac(&[b"toolpost derived key ", purpose.as_bytes()]).finalize().into_bytes().into()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        #[expect(clippy::unwrap_used, reason = "HMAC accepts keys of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    /// Returns the `webhook-signature` of a message (Standard Webhooks): `v1,` and the base64 of the HMAC over
    /// `id.timestamp.body`.
    #[must_use]
    pub fn signature(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mac = self.mac(&[id.as_bytes(), b".", timestamp.to_string().as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// Creates the headers that sign a message (Standard Webhooks).
    pub(super) fn headers(&self, id: &str, now: Time, body: &[u8]) -> HeaderMap {
        let timestamp = now.0.div_euclid(1_000_000);
        let mut signature = HeaderValue::try_from(self.signature(id, timestamp, body));
        signature.iter_mut().for_each(|signature| signature.set_sensitive(true));
        let named = [
            ("webhook-id", HeaderValue::try_from(id)),
            ("webhook-timestamp", Ok(HeaderValue::from(timestamp))),
            ("webhook-signature", signature),
        ];
        // Ids, digits and base64 are always valid header values.
        named.into_iter().filter_map(|(name, value)| Some((HeaderName::from_static(name), value.ok()?))).collect()
    }

    /// Derives the token by which a tool reports on one call. It is valid for that call only and is not stored.
    #[must_use]
    pub fn token(&self, call: Uuid) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(&[b"toolpost call token ", call.as_bytes()]).finalize().into_bytes())
    }

    /// Derives the token by which a worker reports on its attempt of a call: the number of the attempt, and a signature. It
    /// is valid for that attempt only and is not stored.
    #[must_use]
    pub fn worker_token(&self, call: Uuid, attempt: u32) -> String {
        let mac = self.mac(&[b"toolpost worker token ", call.as_bytes(), &attempt.to_be_bytes()]);
        format!("{attempt}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// Returns the attempt of the call for which this is the token of a worker. The comparison runs in constant time.
    #[must_use]
    pub fn attempt_of_token(&self, call: Uuid, token: &str) -> Option<u32> {
        let (number, signature) = token.split_once('.')?;
        // A token has one form only, without a sign or leading zeros.
        let attempt = number.parse::<u32>().ok().filter(|attempt| attempt.to_string() == number)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mac = self.mac(&[b"toolpost worker token ", call.as_bytes(), &attempt.to_be_bytes()]);
        mac.verify_slice(&signature).is_ok().then_some(attempt)
    }

    /// Returns `true` if this is the token of the call. The comparison runs in constant time.
    #[must_use]
    pub fn is_token(&self, call: Uuid, token: &str) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else { return false };
        self.mac(&[b"toolpost call token ", call.as_bytes()]).verify_slice(&bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_the_standard_webhooks_example() {
        // The example from the Standard Webhooks libraries.
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = key.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn token_is_valid_for_its_call_only() {
        let key = SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(key.is_token(one, &key.token(one)));
        assert!(!key.is_token(other, &key.token(one)) && !key.is_token(one, "") && !key.is_token(one, "é"));
    }

    #[test]
    fn worker_token_is_valid_for_its_attempt_only() {
        let key = SigningKey::parse(&SigningKey::text_of(&[7; 32])).unwrap();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let token = key.worker_token(one, 2);
        assert_eq!((key.attempt_of_token(one, &token), key.attempt_of_token(other, &token)), (Some(2), None));
        let forged = token.replacen('2', "3", 1);
        assert_eq!((key.attempt_of_token(one, &forged), key.attempt_of_token(one, &key.token(one))), (None, None));
        assert!(!key.is_token(one, &token));
        for other_form in ["+2", "02", " 2", "2 "] {
            let token = token.replacen('2', other_form, 1);
            assert_eq!(key.attempt_of_token(one, &token), None, "{token}");
        }
    }

    #[test]
    fn invalid_secrets_are_rejected() {
        for text in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!!"] {
            assert_eq!(SigningKey::parse(text).unwrap_err(), InvalidSigningSecret, "{text}");
        }
    }
}
