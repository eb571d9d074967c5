//! Registered servers at rest: what may hold secrets is sealed.

use serde_json::{Value, json};

use crate::domain::upstream::{Upstream, UpstreamTransport, read_registered};
use crate::domain::{Tenant, Time};
use crate::executor::Vault;
use crate::executor::vault::SealContext;
use crate::store::upstreams::StoredUpstream;

/// What is sealed of a server.
const SEALED: &str = "url and headers";

/// A server as it is stored.
///
/// # Errors
/// If nothing can be sealed.
pub fn seal(
    name: &str,
    upstream: &Upstream,
    vault: &Vault,
    tenant: &Tenant,
    now: Time,
) -> Result<StoredUpstream, String> {
    let UpstreamTransport::Http { url, headers } = &upstream.transport else {
        return Err("a server that is a program is not stored".to_owned());
    };
    let secret = json!({ "url": url, "headers": headers }).to_string();
    let tool = place(name);
    let sealed = vault.seal(secret.as_bytes(), &SealContext { tenant, tool: &tool, name: SEALED });
    let definition = json!({ "pin": upstream.pin, "output_check": upstream.output_check }).to_string();
    let sealed = sealed.map_err(|error| error.to_string())?;
    Ok(StoredUpstream { name: name.to_owned(), definition, sealed, created_at: now })
}

/// The way back.
///
/// # Errors
/// What is wrong with it.
pub fn open(stored: &StoredUpstream, vault: &Vault, tenant: &Tenant) -> Result<Upstream, String> {
    let tool = place(&stored.name);
    let opened = vault.open(&stored.sealed, &SealContext { tenant, tool: &tool, name: SEALED });
    let opened = opened.map_err(|error| error.to_string())?;
    let broken = |_| "what is stored of it is broken".to_owned();
    let secret: Value = serde_json::from_slice(&opened).map_err(broken)?;
    let mut whole: Value = serde_json::from_str(&stored.definition).map_err(broken)?;
    whole["name"] = stored.name.clone().into();
    for member in ["url", "headers"] {
        whole[member] = secret[member].clone();
    }
    read_registered(&whole).map(|(_, upstream)| upstream).map_err(|error| error.to_string())
}

/// No tool has a name with a blank, so no preset can be sealed for the same place.
fn place(name: &str) -> String {
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
