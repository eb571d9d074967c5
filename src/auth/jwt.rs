//! Tokens of an issuer (RFC 7519, RFC 9068): checked against its public keys, and read as a caller.

use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, AlgorithmFamily, Validation};
use serde_json::{Map, Value};
use url::Url;

use super::AuthError;
use super::jwks::{Jwks, KeyLookupError};
use super::limits::Bounds;
use crate::config::JwtConfig;
use crate::domain::{Caller, Clock, Scope, Scopes, Tenant, Time};
use crate::executor::{Egress, HttpClient, Reporting, Secrets};

/// Longest token that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// What a token says.
#[derive(Debug)]
pub struct Claims {
    /// Who this is.
    pub caller: Caller,
    /// Its name at the issuer; empty where the token has none.
    pub subject: String,
    /// How much it may ask.
    pub bounds: Bounds,
    /// When it ends, with as much leeway as it is read with.
    pub expires_at: Time,
}

/// Reads tokens.
#[derive(Debug)]
pub struct Jwt {
    settings: JwtConfig,
    algorithms: Vec<Algorithm>,
    jwks: Jwks,
}

impl Jwt {
    /// For these settings, if they name an issuer. Its own host is asked wherever it is: the operator has named it.
    ///
    /// # Errors
    /// A sentence that names the setting that cannot be used.
    pub fn new(settings: JwtConfig, clock: Clock, reporting: Reporting) -> Result<Option<Self>, String> {
        if settings.issuer.is_empty() {
            return Ok(None);
        }
        if settings.audience.is_empty() {
            return Err("auth.jwt.audience: is missing; without it a token for any other service would count".into());
        }
        let algorithms = settings.algorithms.iter().map(|name| algorithm(name)).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err("auth.jwt.algorithms: name those that the issuer uses, as RS256".into());
        }
        let url = Url::parse(&settings.jwks_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(host) = url.as_ref().and_then(Url::host_str) else {
            return Err("auth.jwt.jwks_url: must be the web address of the issuer's keys".into());
        };
        // The operator has named its port, too.
        let egress = Egress::new([host])?.with_ports(url.as_ref().and_then(Url::port));
        let client = HttpClient::new(egress, Secrets::from_env(), clock, reporting)?;
        let jwks = Jwks::new(settings.jwks_url.clone(), client);
        Ok(Some(Self { settings, algorithms, jwks }))
    }

    /// Who a token says that this is, and how much they may ask.
    ///
    /// # Errors
    /// If it does not count.
    pub async fn read(&self, token: &str) -> Result<Claims, AuthError> {
        const NONE: AuthError = AuthError::Invalid("this is no token of the issuer");
        if token.len() > LONGEST {
            return Err(NONE);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| NONE)?;
        if !self.algorithms.contains(&header.alg) {
            return Err(AuthError::Invalid("the token is signed with an algorithm that does not count"));
        }
        // An extension that is not understood must not be ignored (RFC 7515, section 4.1.11), and none is understood here.
        if has_critical_extensions(token) {
            return Err(AuthError::Invalid("the token needs an extension (`crit`) that is not supported"));
        }
        let key = self.jwks.key(header.kid.as_deref(), header.alg).await.map_err(|no| match no {
            KeyLookupError::Unknown => {
                AuthError::Invalid("the token is signed with a key that the issuer does not have")
            }
            KeyLookupError::Unavailable => {
                AuthError::Unknown("the issuer of tokens cannot be asked for its keys; try again")
            }
        })?;
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
        validation.validate_nbf = true;
        validation.leeway = self.settings.leeway_s;
        let read = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation);
        let claims = read.map_err(|error| AuthError::Invalid(reason(&error)))?.claims;
        self.said(&claims)
    }

    /// A token without `exp` was refused already.
    fn end_of(&self, claims: &Map<String, Value>) -> Time {
        let seconds = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        let micros = (seconds + self.settings.leeway_s as f64) * 1e6;
        // Beyond the range of times it is the last one.
        Time(micros as i64)
    }

    fn said(&self, claims: &Map<String, Value>) -> Result<Claims, AuthError> {
        let tenant = match self.settings.tenant_claim.as_str() {
            "" => Tenant::default(),
            claim => {
                let name = claims.get(claim).and_then(Value::as_str);
                let named = name.and_then(Tenant::named);
                named.ok_or(AuthError::Invalid("the token names no tenant"))?
            }
        };
        let scopes = claims.get(&self.settings.scope_claim).map(scopes).unwrap_or_default();
        let caller = Caller { tenant, scopes, tools: None, key: None };
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
        let bounds = (
            number(claims, &self.settings.rate_claim).unwrap_or(self.settings.rate),
            number(claims, &self.settings.concurrency_claim).unwrap_or(self.settings.concurrency),
        );
        let expires_at = self.end_of(claims);
        Ok(Claims { caller, subject, bounds, expires_at })
    }
}

/// Returns `true` if the header of a token has `crit`, whatever its value is.
fn has_critical_extensions(token: &str) -> bool {
    let header = token.split('.').next().and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
    let members = header.and_then(|json| serde_json::from_slice::<Map<String, Value>>(&json).ok());
    members.is_none_or(|members| members.contains_key("crit"))
}

/// What a claim says, if it is one and says a number.
fn number(claims: &Map<String, Value>, name: &str) -> Option<u32> {
    let said = claims.get(name).filter(|_| !name.is_empty())?.as_u64()?;
    Some(u32::try_from(said).unwrap_or(u32::MAX))
}

/// A text with blanks between the scopes, or a list of them.
fn scopes(claim: &Value) -> Scopes {
    match claim {
        Value::String(text) => Scopes::of_text(text),
        Value::Array(list) => list.iter().filter_map(Value::as_str).filter_map(Scope::named).collect(),
        _ => Scopes::default(),
    }
}

/// With a shared secret, or without any, a public key would be enough to make tokens.
fn algorithm(name: &str) -> Result<Algorithm, String> {
    let known = Algorithm::from_str(name.trim()).ok();
    let public = known.filter(|algorithm| algorithm.family() != AlgorithmFamily::Hmac);
    public.ok_or_else(|| {
        format!(
            "auth.jwt.algorithms: \"{name}\" is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
        )
    })
}

fn reason(error: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not good yet",
        ErrorKind::InvalidAudience => "the token is for another service",
        ErrorKind::InvalidIssuer => "the token is of another issuer",
        ErrorKind::MissingRequiredClaim(_) => "the token lacks `exp`, `aud` or `iss`",
        _ => "this is no token of the issuer",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_algorithms_of_public_keys_count() {
        assert!(algorithm("RS256").is_ok() && algorithm("EdDSA").is_ok());
        for bad in ["HS256", "none", "None", "", "rs256"] {
            assert!(algorithm(bad).unwrap_err().contains("auth.jwt.algorithms"), "{bad}");
        }
    }

    #[test]
    fn scopes_come_as_a_text_or_as_a_list_and_others_mean_nothing() {
        assert_eq!(scopes(&json!("openid call admin2 read")).to_text(), "call read");
        assert_eq!(scopes(&json!(["tools", "x", 5])).to_text(), "tools");
        assert_eq!(scopes(&json!({"admin": true})), Scopes::default());
    }
}
