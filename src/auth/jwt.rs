//! Tokens of an issuer (RFC 7519, RFC 9068): verified with its public keys and converted to a caller.

use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, AlgorithmFamily, Validation};
use serde_json::{Map, Value};
use url::Url;

use super::AuthError;
use super::jwks::Jwks;
use super::limits::Bounds;
use crate::domain::caller::JwtConfig;
use crate::domain::{Caller, Clock, Identity, Scope, Scopes, Tenant, Time};
use crate::executor::{Egress, HttpClient, Reporting, Secrets};

/// Maximum length of a token, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// The verified content of a token.
#[derive(Debug)]
pub struct Claims {
    /// The caller.
    pub caller: Caller,
    /// The value of `sub`; empty if the token has none.
    pub subject: String,
    /// The limits of the subject.
    pub bounds: Bounds,
    /// The time at which the token expires, including the leeway.
    pub expires_at: Time,
}

/// A verifier of tokens.
#[derive(Debug)]
pub struct Jwt {
    settings: JwtConfig,
    algorithms: Vec<Algorithm>,
    jwks: Jwks,
}

impl Jwt {
    /// Creates a verifier, or `None` if the settings name no issuer. The host of `jwks_url` is reachable even if it is
    /// in a private network, because the operator has configured it.
    ///
    /// # Errors
    /// Returns a message that names the invalid setting.
    pub fn new(settings: JwtConfig, clock: Clock, reporting: Reporting) -> Result<Option<Self>, String> {
        if settings.issuer.is_empty() {
            return Ok(None);
        }
        if settings.audience.is_empty() {
            return Err(
                "auth.jwt.audience: is missing; without it, tokens for any other service would be accepted".into()
            );
        }
        let algorithms = settings.algorithms.iter().map(|name| algorithm(name)).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err("auth.jwt.algorithms: must name the algorithms of the issuer, such as RS256".into());
        }
        let url = Url::parse(&settings.jwks_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(host) = url.as_ref().and_then(Url::host_str) else {
            return Err("auth.jwt.jwks_url: must be the http:// or https:// URL of the issuer's keys".into());
        };
        // The operator has configured the port as well.
        let egress = Egress::new([host])?.with_ports(url.as_ref().and_then(Url::port));
        let client = HttpClient::new(egress, Secrets::from_env(), clock, reporting)?;
        let jwks = Jwks::new(settings.jwks_url.clone(), client);
        Ok(Some(Self { settings, algorithms, jwks }))
    }

    /// Verifies a token and returns its claims.
    ///
    /// # Errors
    /// Returns an error if the token is not valid or the keys of the issuer are unavailable.
    pub async fn read(&self, token: &str) -> Result<Claims, AuthError> {
        const NOT_ISSUED: AuthError = AuthError::Invalid("the token was not issued by the configured issuer");
        if token.len() > MAX_BYTES {
            return Err(NOT_ISSUED);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| NOT_ISSUED)?;
        if !self.algorithms.contains(&header.alg) {
            return Err(AuthError::Invalid("the token is signed with an algorithm that is not accepted"));
        }
        // Unsupported extensions must not be ignored (RFC 7515, section 4.1.11), and no extension is supported.
        if has_critical_extensions(token) {
            return Err(AuthError::Invalid("the token requires an extension (`crit`) that is not supported"));
        }
        let key = self.jwks.key(header.kid.as_deref(), header.alg).await?;
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
        validation.validate_nbf = true;
        validation.leeway = self.settings.leeway_s;
        let read = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation);
        let claims = read.map_err(|error| AuthError::Invalid(reason(&error)))?.claims;
        self.claims_of(&claims)
    }

    fn claims_of(&self, claims: &Map<String, Value>) -> Result<Claims, AuthError> {
        let tenant = match self.settings.tenant_claim.as_str() {
            "" => Tenant::default(),
            claim => claims
                .get(claim)
                .and_then(Value::as_str)
                .and_then(Tenant::named)
                .ok_or(AuthError::Invalid("the token names no tenant"))?,
        };
        let scopes = claims.get(&self.settings.scope_claim).map(scopes).unwrap_or_default();
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        let identity = Identity { subject: subject.as_str().into(), key: None, scopes };
        let caller = Caller { tenant, scopes, tools: None, queues: None, key: None, identity: Some(identity.into()) };
        let bounds = (
            number(claims, &self.settings.rate_claim).unwrap_or(self.settings.rate),
            number(claims, &self.settings.concurrency_claim).unwrap_or(self.settings.concurrency),
        );
        // Tokens without `exp` were rejected before. The cast saturates at the last time that can be represented.
        let seconds = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        let expires_at = Time(((seconds + self.settings.leeway_s as f64) * 1e6) as i64);
        Ok(Claims { caller, subject, bounds, expires_at })
    }
}

/// Returns `true` if the header of a token has a member `crit` with any value.
fn has_critical_extensions(token: &str) -> bool {
    let header = token.split('.').next().and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
    let members = header.and_then(|json| serde_json::from_slice::<Map<String, Value>>(&json).ok());
    members.is_none_or(|members| members.contains_key("crit"))
}

/// Returns the value of a numeric claim; `None` if it is missing or `name` is empty.
fn number(claims: &Map<String, Value>, name: &str) -> Option<u32> {
    let value = claims.get(name).filter(|_| !name.is_empty())?.as_u64()?;
    Some(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Parses a string of scopes separated by spaces, or an array of scopes. Unknown scopes are ignored.
fn scopes(claim: &Value) -> Scopes {
    match claim {
        Value::String(text) => Scopes::of_text(text),
        Value::Array(list) => list.iter().filter_map(Value::as_str).filter_map(Scope::named).collect(),
        _ => Scopes::default(),
    }
}

/// Parses the name of a public-key algorithm. With HMAC, the public key would be enough to forge tokens.
fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = Algorithm::from_str(name.trim()).ok();
    let public = known.filter(|algorithm| algorithm.family() != AlgorithmFamily::Hmac);
    public.ok_or_else(|| {
        format!(
            "auth.jwt.algorithms: \"{name}\" must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, \
                EdDSA"
        )
    })
}

fn reason(error: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidAudience => "the token is for another service",
        ErrorKind::InvalidIssuer => "the token was issued by another issuer",
        ErrorKind::MissingRequiredClaim(_) => "the token lacks `exp`, `aud` or `iss`",
        _ => "the token was not issued by the configured issuer",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_public_key_algorithms_are_accepted() {
        assert!(algorithm("RS256").is_ok() && algorithm("EdDSA").is_ok());
        for bad in ["HS256", "none", "None", "", "rs256"] {
            assert!(algorithm(bad).unwrap_err().contains("auth.jwt.algorithms"), "{bad}");
        }
    }

    #[test]
    fn scopes_are_a_string_or_an_array_and_unknown_ones_are_ignored() {
        assert_eq!(scopes(&json!("openid call admin2 read")).to_text(), "call read");
        assert_eq!(scopes(&json!(["tools", "x", 5])).to_text(), "tools");
        assert_eq!(scopes(&json!({"admin": true})), Scopes::default());
    }
}
