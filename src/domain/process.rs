//! The program that a `process` tool runs, and what it may do, as it is declared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::secret::SecretRef;

/// A program on the server. It is given the call as JSON on standard input, and its standard output is the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// The program and its arguments, as they are: there is no shell. In a file of the tools folder, a program with a relative
    /// path and every argument that begins with `./` name a file next to the definition.
    #[schema(min_items = 1)]
    pub argv: Vec<String>,
    /// All of its environment beside `PATH`. In a text `{name}` stands for the argument or preset of that name, and the
    /// variable is left out where that is absent; `{{` and `}}` are literal braces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// Where it runs: an absolute path; a fresh folder of its own, removed afterwards, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub cwd: Option<String>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_default")]
    pub limits: ResourceLimits,
    /// How it is confined: `best_effort` is as far as the kernel can, `required` refuses to run it where there is no Landlock
    /// or no way to deny the network, `off` leaves it its limits and its end.
    #[serde(default)]
    pub sandbox: SandboxMode,
    /// Whether it may use the network.
    #[serde(default)]
    pub network: NetworkAccess,
    /// Folders and files that it may read, beside those of the system; everything unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, extensions(("x-is" = json!({"type": ["array", "null"], "items": {"type": "string", "pattern": "^/"}}))))]
    pub read: Option<Vec<String>>,
    /// Folders and files that it may write, beside its working directory; the folders for temporary files unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, extensions(("x-is" = json!({"type": ["array", "null"], "items": {"type": "string", "pattern": "^/"}}))))]
    pub write: Option<Vec<String>>,
}

/// A value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or {\"secret\": \"NAME\"}")]
pub enum EnvValue {
    /// A secret of the service.
    Secret(SecretRef),
    /// A text, perhaps with placeholders.
    Text(String),
}

/// What one run may use. What is absent is as the service has it (`[process.limits]`); 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    /// CPU time of each process, in milliseconds, rounded up to seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Memory of each process that is its own (`RLIMIT_DATA`), in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes at once, the command itself among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Size of each file that it writes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Open files of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

impl ResourceLimits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What holds: these, or else those, and `None` for what has no limit.
    #[must_use]
    pub fn effective(&self, those: &Self) -> Self {
        let one = |own: Option<u64>, default: Option<u64>| own.or(default).filter(|limit| *limit > 0);
        Self {
            cpu_ms: one(self.cpu_ms, those.cpu_ms),
            memory_bytes: one(self.memory_bytes, those.memory_bytes),
            processes: one(self.processes, those.processes),
            file_bytes: one(self.file_bytes, those.file_bytes),
            open_files: one(self.open_files, those.open_files),
        }
    }
}

/// How much its confinement matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// Everything that the kernel can do.
    #[default]
    BestEffort,
    /// It does not run without.
    Required,
    /// None: only its limits hold, and its end.
    Off,
}

/// Whether a program may use the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// The server's own.
    #[default]
    Allow,
    /// None, and no Unix sockets either (seccomp): a network namespace where the service may make one, else no sockets at
    /// all.
    Deny,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit_and_absence_the_default() {
        let declared = ResourceLimits { processes: Some(0), cpu_ms: Some(5), ..ResourceLimits::default() };
        let those = ResourceLimits { processes: Some(9), cpu_ms: Some(9), open_files: Some(9), ..declared };
        let held = declared.effective(&those);
        assert_eq!((held.processes, held.cpu_ms, held.open_files), (None, Some(5), Some(9)));
    }

    #[test]
    fn a_value_of_a_wrong_type_is_never_repeated() {
        let wrong = serde_json::json!({"argv": ["a"], "env": {"A": {"secert": "hidden"}}});
        let error = serde_json::from_value::<ProcessSpec>(wrong).unwrap_err().to_string();
        assert!(error.contains("expected a string or") && !error.contains("hidden"), "{error}");
    }
}
