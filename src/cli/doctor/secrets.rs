//! What the operator gives: networks that tools may reach, and what is signed and sealed with. No secret is ever shown.

use std::net::IpAddr;
use std::path::PathBuf;

use toolpost::app;
use toolpost::config::Config;
use toolpost::executor::{Egress, SecretsFile, Vault};

use super::Check;

/// Where clouds keep the credentials of their machines.
const METADATA: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254));
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// What `http` tools may reach.
pub fn egress(config: &Config) -> Check {
    let allow = &config.egress.allow;
    match Egress::new(allow) {
        Err(reason) => Check::fail("egress", reason, "Mend `egress.allow`, --egress-allow or TOOLPOST_EGRESS_ALLOW."),
        Ok(egress) if egress.check(METADATA).is_ok() => Check::warn(
            "egress",
            format!("tools may reach {METADATA}, where clouds keep the credentials of their machines"),
            "Allow narrower networks.",
        ),
        Ok(egress) if egress.check(LOOPBACK).is_ok() => Check::warn(
            "egress",
            format!("public addresses, and {}; with that every service on this machine", allow.join(", ")),
            "Allow the addresses of the tools only, once this is not for trying it out.",
        ),
        Ok(_) if allow.is_empty() => Check::ok("egress", "public addresses only"),
        Ok(_) => Check::ok("egress", format!("public addresses, and {}", allow.join(", "))),
    }
}

/// What outgoing requests are signed with.
pub fn signing_secret(config: &Config) -> Check {
    match app::given_signing_secret(config) {
        Ok(Some(_)) => Check::ok("signing secret", "is set"),
        Ok(None) => Check::ok("signing secret", "is made at the first start and kept in the database"),
        Err(error) => Check::fail("signing secret", error.to_string(), "Leave it out, and the service makes one."),
    }
}

/// What stored values are sealed with.
pub fn encryption_keys(config: &Config) -> Check {
    let is_signed_by_own = !config.server.signing_secret.0.trim().is_empty();
    match Vault::parse(&config.secrets.encryption_keys.0) {
        Err(error) => Check::fail(
            "encryption keys",
            format!("TOOLPOST_ENCRYPTION_KEYS: {error}"),
            "The first key seals, all of them open: put a new one in front and leave the old ones.",
        ),
        Ok(vault) => match vault.sealing_key() {
            Some(key) => Check::ok("encryption keys", format!("\"{key}\" seals")),
            None if is_signed_by_own => Check::ok("encryption keys", "follow from the signing secret, which is set"),
            None => Check::warn(
                "encryption keys",
                "none is set: values of presets are sealed with a key that follows from what the database keeps",
                "Set TOOLPOST_ENCRYPTION_KEYS to `id:` and the output of `openssl rand -base64 32`, so that a stolen \
                 database gives no values away.",
            ),
        },
    }
}

/// The secrets file, if there is to be one.
pub fn secrets_file(config: &Config) -> Option<Check> {
    let path = config.secrets.file.trim();
    if path.is_empty() {
        return None;
    }
    Some(match SecretsFile::open(PathBuf::from(path)) {
        Ok(_) if is_open(path) => Check::warn(
            "secrets file",
            format!("{path} can be read by others"),
            format!("`chmod 600 {path}` keeps it to its owner."),
        ),
        Ok(_) => Check::ok("secrets file", path),
        Err(reason) => Check::fail(
            "secrets file",
            format!("{path}: {reason}"),
            "It has a line NAME=value for each secret; `secrets.file` and TOOLPOST_SECRETS_FILE name it.",
        ),
    })
}

#[cfg(unix)]
fn is_open(path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &str) -> bool {
    false
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
    fn what_tools_may_reach_is_judged_by_the_worst_of_it() {
        assert_eq!(egress_of(&[]), Verdict::Ok);
        assert_eq!(egress_of(&["10.0.0.0/8", "tools.internal"]), Verdict::Ok);
        assert_eq!(egress_of(&["127.0.0.1"]), Verdict::Warn);
        assert_eq!(egress_of(&["0.0.0.0/0"]), Verdict::Warn);
        assert_eq!(egress_of(&["10.0.0.0/99"]), Verdict::Fail);
    }

    #[test]
    fn secrets_that_are_none_are_told_and_never_shown() {
        let mut config = Config::default();
        assert_eq!(encryption_keys(&config).status, Verdict::Warn);
        config.secrets.encryption_keys.0 = "2026:hidden-and-too-short".into();
        config.server.signing_secret.0 = "whsec_hidden".into();
        for check in [encryption_keys(&config), signing_secret(&config)] {
            assert_eq!(check.status, Verdict::Fail);
            assert!(!check.text().contains("hidden"), "{}", check.text());
        }
    }
}
