//! How tokens of an issuer (RFC 7519) are read, as it is configured.

use serde::Deserialize;

/// Settings of tokens of an external issuer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// Required `iss`; empty to accept only keys.
    pub issuer: String,
    /// Audience that `aud` must equal or contain.
    pub audience: String,
    /// URL of the issuer's public keys.
    pub jwks_url: String,
    /// Accepted signature algorithms.
    pub algorithms: Vec<String>,
    /// Claim that names the tenant; empty if all tokens belong to the default tenant.
    pub tenant_claim: String,
    /// Claim that lists the scopes.
    pub scope_claim: String,
    /// Maximum clock difference, in seconds.
    pub leeway_s: u64,
    /// Maximum number of requests per minute for each subject; 0 disables the limit.
    pub rate: u32,
    /// Maximum number of concurrent requests for each subject; 0 disables the limit.
    pub concurrency: u32,
    /// Claim whose value overrides `rate`; empty to disable overrides.
    pub rate_claim: String,
    /// Claim whose value overrides `concurrency`; empty to disable overrides.
    pub concurrency_claim: String,
}
