//! The unit of systemd in the Debian package.

use std::fs;

use toolpost::config::Config;

use crate::support::fixture::project_file;

/// Settings that confine the service.
const HARDENING: &str = "\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=user net
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service";

/// The lines `NAME=VALUE` of a unit.
pub struct Unit(Vec<(String, String)>);

impl Unit {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Returns all values of a name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the only value of a name.
    pub fn value(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0]
    }

    fn number(&self, name: &str) -> u64 {
        self.value(name).parse().unwrap()
    }
}

fn unit() -> Unit {
    Unit::parse(&fs::read_to_string(project_file("packaging/deb/toolpost.service")).unwrap())
}

#[test]
fn service_is_confined() {
    let unit = unit();
    for line in HARDENING.lines() {
        let (name, value) = line.split_once('=').unwrap();
        assert!(unit.values(name).contains(&value), "{line}");
    }
    // What the sandbox of tools uses is allowed.
    let calls = unit.values("SystemCallFilter").join(" ");
    for call in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"] {
        assert!(calls.split(' ').any(|allowed| allowed == call), "{call}");
    }
}

#[test]
fn service_has_time_to_drain_and_enough_files() {
    let (unit, config) = (unit(), Config::default());
    assert!(unit.number("TimeoutStopSec") >= config.server.drain_ms / 1000 + 35);
    assert!(unit.number("LimitNOFILE") >= config.server.max_connections as u64 + 1000);
    assert_eq!(unit.value("KillMode"), "mixed", "programs of tools end after the service has drained");
    assert_eq!((unit.value("Type"), unit.value("Restart")), ("exec", "on-failure"));
}
