//! Settings of tools: their sources, rate limits, network access and confinement.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::domain::process::{NetworkAccess, ResourceLimits, SandboxMode};

/// Settings of the sources and rate limits of tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Folder of tool definitions; empty for none.
    pub dir: String,
    /// Adds the tools `find_tools` and `call_tool`.
    pub discovery: bool,
    /// Rate limits by tool name.
    #[serde(default)]
    pub limits: BTreeMap<String, ToolLimit>,
}

/// Settings of the hosts that `http` tools may reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressConfig {
    /// CIDRs, addresses and host names to allow in addition to the public internet.
    pub allow: Vec<String>,
    /// Ports to allow although they belong to other protocols than HTTP.
    #[serde(deserialize_with = "ports")]
    pub allow_ports: Vec<u16>,
    /// Availability of the tool `web_fetch`.
    pub web_fetch: WebFetchMode,
}

impl EgressConfig {
    /// Returns `true` if the tool `web_fetch` is available.
    #[must_use]
    pub fn has_web_fetch(&self) -> bool {
        match self.web_fetch {
            WebFetchMode::On => true,
            WebFetchMode::Off => false,
            WebFetchMode::Auto => !self.allow.is_empty(),
        }
    }
}

/// Availability of the tool `web_fetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebFetchMode {
    /// Available if `allow` is not empty.
    Auto,
    /// Available.
    On,
    /// Not available.
    Off,
}

/// Settings of the workspace tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// The folder; empty for none.
    pub dir: String,
    /// Enables the tool `bash`.
    pub bash: bool,
    /// Network access of `bash`.
    pub network: NetworkAccess,
    /// Confinement of `bash`.
    pub sandbox: SandboxMode,
    /// Further paths that `bash` may read.
    pub read: Vec<String>,
}

/// Settings of tools that are programs on this machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessConfig {
    /// Allows registration of such tools over the API.
    pub registration: bool,
    /// Path of the program `toolpost`; empty for the running program.
    pub helper: String,
    /// User that programs run as; empty for the user of the service.
    pub user: String,
    /// Resource limits of programs that declare no `limits`.
    pub limits: ResourceLimits,
}

/// The rate limit of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolLimit {
    /// Maximum number of calls per minute; 0 disables the limit.
    pub rate_per_minute: u32,
}

/// Parses ports. In the environment, a list of one port is a number.
fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let given = match Value::deserialize(deserializer)? {
        Value::Array(ports) => ports,
        port @ (Value::Number(_) | Value::String(_)) => vec![port],
        _ => return Err(D::Error::custom("must be a list of ports")),
    };
    let port = |value: &Value| match value {
        Value::String(text) => text.trim().parse().ok(),
        number => number.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    let refused = |value| D::Error::custom(format!("a port must be a number from 0 to 65535, got {value}"));
    given.iter().map(|value| port(value).ok_or_else(|| refused(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    #[test]
    fn tool_names_keep_their_case_and_unknown_fields_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolpost.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Config::load(Some(&file)).map(|config| config.tools.limits)
        };
        let limits = read("[tools.limits.\"Mail.send-2\"]\nrate_per_minute = 30\n").unwrap();
        assert_eq!(limits["Mail.send-2"].rate_per_minute, 30);
        assert!(read("").unwrap().is_empty());
        assert!(read("[tools.limits.a]\nrate = 30\n").unwrap_err().to_string().contains("rate"));
    }

    #[test]
    fn web_fetch_follows_egress_by_default() {
        let mut egress = Config::default().egress;
        assert!(!egress.has_web_fetch());
        egress.allow = vec!["10.0.0.0/8".into()];
        assert!(egress.has_web_fetch());
        egress.web_fetch = WebFetchMode::Off;
        assert!(!egress.has_web_fetch());
        egress = EgressConfig { allow: Vec::new(), allow_ports: Vec::new(), web_fetch: WebFetchMode::On };
        assert!(egress.has_web_fetch());
    }

    fn read_ports(value: Value) -> Result<Vec<u16>, String> {
        ports(value).map_err(|error| error.to_string())
    }

    #[test]
    fn ports_are_read_as_files_and_the_environment_give_them() {
        assert_eq!(read_ports(json!([])), Ok(Vec::new()));
        assert_eq!(read_ports(json!([25, 6379])), Ok(vec![25, 6379]));
        assert_eq!(read_ports(json!(6379)), Ok(vec![6379]));
        assert_eq!(read_ports(json!(["25", " 6379"])), Ok(vec![25, 6379]));
    }

    #[test]
    fn value_that_is_not_a_port_is_named() {
        for (value, shown) in [(json!([65536]), "65536"), (json!(-1), "-1"), (json!(["ssh"]), "\"ssh\"")] {
            assert!(read_ports(value).unwrap_err().ends_with(&format!("got {shown}")), "{shown}");
        }
        assert!(read_ports(json!({})).is_err());
    }
}
