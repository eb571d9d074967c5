//! Declaration of the program of a `process` tool, with its limits and confinement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::secret::SecretRef;

/// A program on the server. It receives the call as JSON on standard input, and its standard output is the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// The program and its arguments. They are not interpreted by a shell. In a file of the tools folder, a program
    /// with a relative path, and every argument that begins with `./`, is relative to the definition.
    #[schema(min_items = 1)]
    pub argv: Vec<String>,
    /// The environment of the program, in addition to `PATH`. In a text, `{name}` is replaced by the argument or preset
    /// of that name, and the variable is omitted if that is absent. `{{` and `}}` are literal braces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// The working directory, as an absolute path. Default: a new folder that is removed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub cwd: Option<String>,
    /// The resource limits.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_default")]
    pub limits: ResourceLimits,
    /// The confinement: `best_effort` confines the program as far as the kernel can; `required` refuses to run it
    /// without Landlock or without a way to deny the network; `off` only applies the limits.
    #[serde(default)]
    pub sandbox: SandboxMode,
    /// The network access.
    #[serde(default)]
    pub network: NetworkAccess,
    /// Folders and files that the program may read, in addition to the system's. Default: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, extensions(("x-is" = json!({"type": ["array", "null"], "items": {"type": "string", "pattern": "^/"}}))))]
    pub read: Option<Vec<String>>,
    /// Folders and files that the program may write, in addition to its working directory. Default: the folders for
    /// temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, extensions(("x-is" = json!({"type": ["array", "null"], "items": {"type": "string", "pattern": "^/"}}))))]
    pub write: Option<Vec<String>>,
}

/// The value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or {\"secret\": \"NAME\"}")]
pub enum EnvValue {
    /// A secret of the service.
    Secret(SecretRef),
    /// A text, which can contain placeholders.
    Text(String),
}

/// Resource limits of one run. Absent limits default to `[process.limits]` of the service; 0 disables a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimits {
    /// Maximum CPU time of each process, in milliseconds, rounded up to seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Maximum unshared memory of each process (`RLIMIT_DATA`), in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Maximum number of processes at once, including the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Maximum size of each file that a process writes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Maximum number of open files of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

impl ResourceLimits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits, with absent limits taken from `those`, and `None` for disabled limits.
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

/// The confinement of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// The program is confined as far as the kernel can.
    #[default]
    BestEffort,
    /// The program does not run unless it can be confined.
    Required,
    /// The program is not confined; only its limits apply.
    Off,
}

/// The network access of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// The network of the server.
    #[default]
    Allow,
    /// No network and no Unix sockets (seccomp). Uses a network namespace if the service can create one, and otherwise
    /// denies all sockets.
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
    fn value_of_a_wrong_type_is_never_repeated() {
        let wrong = serde_json::json!({"argv": ["a"], "env": {"A": {"secert": "hidden"}}});
        let error = serde_json::from_value::<ProcessSpec>(wrong).unwrap_err().to_string();
        assert!(error.contains("expected a string or") && !error.contains("hidden"), "{error}");
    }
}
