//! Checks of the operator's secrets and egress rules. No secret is ever shown.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::app;
use crate::config::Config;
use crate::executor::{Egress, SecretsFile, Vault};

use super::Finding;

/// The metadata address of clouds, which provides the credentials of their machines.
const METADATA: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254));
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Checks which networks `http` tools can reach.
pub fn egress(config: &Config) -> Finding {
    let allow = &config.egress.allow;
    match Egress::new(allow) {
        Err(reason) => Finding::fail(reason, "Fix `egress.allow`, --egress-allow or TOOLPOST_EGRESS_ALLOW."),
        Ok(egress) if egress.check(METADATA).is_ok() => Finding::warn(
            format!("tools can reach {METADATA}, which provides the credentials of machines in clouds"),
            "Allow narrower networks.",
        ),
        Ok(egress) if egress.check(LOOPBACK).is_ok() => Finding::warn(
            format!("public addresses and {}, which includes every service on this machine", allow.join(", ")),
            "In production, allow only the addresses of the tools.",
        ),
        Ok(_) if allow.is_empty() => Finding::ok("public addresses only"),
        Ok(_) => Finding::ok(format!("public addresses and {}", allow.join(", "))),
    }
}

/// Checks the secret that signs outgoing requests.
pub fn signing_secret(config: &Config) -> Finding {
    match app::given_signing_secret(config) {
        Ok(Some(_)) => Finding::ok("is set"),
        Ok(None) => Finding::ok("is generated at the first start and stored in the database"),
        Err(error) => Finding::fail(error.to_string(), "Omit it, and the service generates one."),
    }
}

/// Checks the keys that encrypt stored values.
pub fn encryption_keys(config: &Config) -> Finding {
    let is_signed_by_own = !config.server.signing_secret.0.trim().is_empty();
    match Vault::parse(&config.secrets.encryption_keys.0) {
        Err(error) => Finding::fail(
            format!("TOOLPOST_ENCRYPTION_KEYS: {error}"),
            "The first key encrypts, and all keys decrypt: add a new key in front and keep the old ones.",
        ),
        Ok(vault) => match vault.sealing_key() {
            Some(key) => Finding::ok(format!("\"{key}\" encrypts")),
            None if is_signed_by_own => Finding::ok("are derived from the signing secret, which is set"),
            None => Finding::warn(
                "not set: the values of presets are encrypted with a key derived from data in the database",
                "Set TOOLPOST_ENCRYPTION_KEYS to `id:` and the output of `openssl rand -base64 32`, so that a stolen \
                 database reveals no values.",
            ),
        },
    }
}

/// Checks the secrets file, if one is set.
pub fn secrets_file(config: &Config) -> Option<Finding> {
    let path = config.secrets.file.trim();
    if path.is_empty() {
        return None;
    }
    Some(match SecretsFile::open(PathBuf::from(path)) {
        Ok(_) if is_open(path) => Finding::warn(
            format!("{path} is readable by other users"),
            format!("Restrict it to its owner with `chmod 600 {path}`."),
        ),
        Ok(_) => Finding::ok(path),
        Err(reason) => Finding::fail(
            format!("{path}: {reason}"),
            "The file must have one line NAME=value per secret. Set its path with `secrets.file` or \
                TOOLPOST_SECRETS_FILE.",
        ),
    })
}

fn is_open(path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn egress_of(allow: &[&str]) -> Verdict {
        let mut config = Config::default();
        config.egress.allow = allow.iter().map(|&entry| entry.to_owned()).collect();
        egress(&config).status
    }

    #[test]
    fn egress_is_judged_by_the_broadest_network() {
        assert_eq!(egress_of(&[]), Verdict::Ok);
        assert_eq!(egress_of(&["10.0.0.0/8", "tools.internal"]), Verdict::Ok);
        assert_eq!(egress_of(&["127.0.0.1"]), Verdict::Warn);
        assert_eq!(egress_of(&["0.0.0.0/0"]), Verdict::Warn);
        assert_eq!(egress_of(&["10.0.0.0/99"]), Verdict::Fail);
    }

    #[test]
    fn invalid_secrets_are_reported_but_not_shown() {
        let mut config = Config::default();
        assert_eq!(encryption_keys(&config).status, Verdict::Warn);
        config.secrets.encryption_keys.0 = "2026:hidden-and-too-short".into();
        config.server.signing_secret.0 = "whsec_hidden".into();
        for check in [encryption_keys(&config), signing_secret(&config)] {
            assert_eq!(check.status, Verdict::Fail);
            assert!(!check.found.contains("hidden"), "{}", check.found);
        }
    }
}
