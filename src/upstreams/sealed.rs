//! Stored servers: the parts that may contain secrets are sealed.

use serde_json::{Value, json};

use crate::domain::upstream::{Upstream, UpstreamTransport, read_registered};
use crate::domain::{Tenant, Time};
use crate::executor::Vault;
use crate::executor::vault::SealContext;
use crate::store::upstreams::StoredUpstream;

/// The name of the sealed parts, for the seal context.
const SEALED: &str = "url and headers";

/// Converts a server to its stored form.
///
/// # Errors
/// Returns the reason if the server is not an HTTP server or cannot be sealed.
pub fn seal(
    name: &str,
    upstream: &Upstream,
    vault: &Vault,
    tenant: &Tenant,
    now: Time,
) -> Result<StoredUpstream, String> {
    let UpstreamTransport::Http { url, headers } = &upstream.transport else {
        return Err("a stdio server cannot be stored".to_owned());
    };
    let secret = json!({ "url": url, "headers": headers }).to_string();
    let tool = seal_name(name);
    let sealed = vault.seal(secret.as_bytes(), &SealContext { tenant, tool: &tool, name: SEALED });
    let definition = json!({ "pin": upstream.pin, "output_check": upstream.output_check }).to_string();
    let sealed = sealed.map_err(|error| error.to_string())?;
    Ok(StoredUpstream { name: name.to_owned(), definition, sealed, created_at: now })
}

/// Converts a stored server back.
///
/// # Errors
/// Returns the reason if the server cannot be opened or is invalid.
pub fn open(stored: &StoredUpstream, vault: &Vault, tenant: &Tenant) -> Result<Upstream, String> {
    let tool = seal_name(&stored.name);
    let opened = vault.open(&stored.sealed, &SealContext { tenant, tool: &tool, name: SEALED });
    let opened = opened.map_err(|error| error.to_string())?;
    let broken = |_| "the stored server is corrupt".to_owned();
    let secret: Value = serde_json::from_slice(&opened).map_err(broken)?;
    let mut whole: Value = serde_json::from_str(&stored.definition).map_err(broken)?;
    whole["name"] = stored.name.clone().into();
    for member in ["url", "headers"] {
        whole[member] = secret[member].clone();
    }
    read_registered(&whole).map(|(_, upstream)| upstream).map_err(|error| error.to_string())
}

/// Returns the tool name for the seal context. Tool names contain no space, so it never equals that of a preset.
fn seal_name(name: &str) -> String {
    format!("upstream {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_upstream_opens_again_and_hides_secrets() {
        let (vault, tenant) = (Vault::default().with_fallback_key("k", [1; 32]), Tenant::default());
        let value = json!({"name": "a", "url": "https://h/?k=s3cret", "headers": {"X": "s3cret", "Y": {"secret": "N"}},
            "pin": true, "output_check": "strict"});
        let (name, upstream) = read_registered(&value).unwrap();
        let stored = seal(&name, &upstream, &vault, &tenant, Time(0)).unwrap();
        assert!(!stored.definition.contains("s3cret") && !format!("{stored:?}").contains("s3cret"));
        assert!(open(&stored, &vault, &tenant).unwrap() == upstream);
        let elsewhere = StoredUpstream { name: "b".into(), ..stored };
        assert!(open(&elsewhere, &vault, &tenant).is_err());
    }
}
