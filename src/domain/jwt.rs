//! How tokens of an issuer (RFC 7519) are read, as it is configured.

use serde::Deserialize;

/// Settings of tokens of an issuer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// `iss`; empty for no tokens at all.
    pub issuer: String,
    /// `aud`.
    pub audience: String,
    /// Where the issuer's public keys are.
    pub jwks_url: String,
    /// The algorithms that count, of public keys.
    pub algorithms: Vec<String>,
    /// The claim that names the tenant; empty: all are the default tenant.
    pub tenant_claim: String,
    /// The claim that names the scopes.
    pub scope_claim: String,
    /// How far clocks may be apart, in seconds.
    pub leeway_s: u64,
    /// Requests a minute of each subject; 0 is no bound.
    pub rate: u32,
    /// Requests at once of each subject; 0 is no bound.
    pub concurrency: u32,
    /// The claim that says the first for its own subject; empty for none.
    pub rate_claim: String,
    /// The claim that says the second; empty for none.
    pub concurrency_claim: String,
}
