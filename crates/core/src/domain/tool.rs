//! Tool definitions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::approval::ApprovalSpec;
use super::preset::Presets;
use super::schemas::{ArgumentsSchema, HttpUrl, ToolName};
use super::{LimitsSpec, Time};

mod executor;
mod read;
mod retry;

pub use super::secret::SecretRef;
pub use executor::{ExecutorSpec, HttpAuth, HttpSpec, WorkerSpec};
pub use read::{Readable, parse_definition, read_definition};
pub use retry::{RetryOverride, RetrySpec};

/// The source of a definition. Later variants shadow earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Compiled into the service.
    Builtin,
    /// Provided by an upstream MCP server.
    Mcp,
    /// Read from the tools folder (`--tools`).
    File,
    /// Registered over the API.
    Api,
}

impl Source {
    /// Returns the name, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Mcp => "mcp",
            Self::File => "file",
            Self::Api => "api",
        }
    }
}

/// Hints about the effects of a tool, with the names and defaults of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Annotations {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may destroy data.
    pub destructive: bool,
    /// Repeating a call with the same arguments has no further effect.
    pub idempotent: bool,
    /// The tool interacts with external systems.
    pub open_world: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

/// The effect of a result that does not match the output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputCheck {
    /// The mismatch is recorded in the metadata of the call.
    #[default]
    Warn,
    /// The call ends with `RESULT_INVALID`.
    Strict,
}

/// The calls that share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// The calls of one session. Calls without a session are not cached.
    #[default]
    Session,
    /// All calls.
    Global,
}

/// Caching of successful results for equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Lifetime of a result, in milliseconds.
    #[schema(minimum = 1, maximum = 2_592_000_000_i64)]
    pub ttl_ms: u64,
    /// The calls that share a result.
    #[serde(default)]
    pub scope: CacheScope,
}

/// An example call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The arguments.
    #[schema(value_type = Value)]
    pub arguments: Value,
    /// The output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
}

/// The reason why the last response of a `definition_url` is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DefinitionError {
    /// Description of the error.
    pub message: String,
    /// Time of the error.
    pub at: Time,
}

/// The pause of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Paused {
    /// Start of the pause.
    pub since: Time,
    /// End of the pause, unless the tool is resumed earlier.
    pub until: Time,
    /// Number of consecutive timeouts that caused the pause.
    pub timeouts: u32,
}

/// Metadata from an upstream server that has no equivalent in a definition. MCP clients receive it unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = ToldByUpstream)]
pub struct UpstreamMetadata {
    /// Its `title`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its `annotations`, including annotations that the service does not use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Map<String, Value>>,
    /// Its `icons`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub icons: Option<Value>,
    /// Its `_meta`.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub meta: Option<Map<String, Value>>,
    /// What was corrected in its schemas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected: Option<Vec<String>>,
}

/// The definition of a tool: its description for models, its schemas, limits and executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// Name of the tool, matching `^[A-Za-z0-9_.-]{1,128}$`.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub name: String,
    /// Display name for people. Default: the name.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub title: Option<String>,
    /// Description for the model.
    #[serde(default)]
    pub description: String,
    /// Category in lists.
    #[serde(default)]
    pub category: Option<String>,
    /// Keywords for the search.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Version that the author assigned.
    #[serde(default)]
    pub version: Option<String>,
    /// Example calls.
    #[serde(default)]
    pub examples: Vec<Example>,
    /// JSON Schema of the arguments, which must be an object. Optional for the `builtin` executor, which has its own
    /// schema.
    #[serde(default)]
    #[schema(value_type = Option<ArgumentsSchema>)]
    pub input_schema: Value,
    /// URL that returns a JSON object with any of `title`, `description`, `input_schema` and `output_schema`. These
    /// override the fields of the definition, which apply while no response is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HttpUrl>)]
    pub definition_url: Option<String>,
    /// Lifetime of such a response, in milliseconds. Default: one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 86400000, extensions(("x-together" = json!({"allOf": [
            {
                "anyOf": [
                    {"properties": {"definition_ttl_ms": {"type": "null"}}},
                    {"required": ["definition_url"], "properties": {"definition_url": {"type": "string"}}}
                ]
            },
            {
                "anyOf": [
                    {"properties": {"cache": {"type": "null"}}},
                    {
                        "required": ["annotations"],
                        "properties": {
                            "annotations": {
                                "required": ["idempotent"],
                                "properties": {"idempotent": {"const": true}}
                            }
                        }
                    }
                ]
            },
            {
                "anyOf": [
                    {"properties": {"executor": {"properties": {"type": {"const": "builtin"}}}}},
                    {"required": ["input_schema"], "properties": {"input_schema": {"type": "object"}}},
                    {"required": ["definition_url"], "properties": {"definition_url": {"type": "string"}}}
                ]
            }]}))))]
    pub definition_ttl_ms: Option<u64>,
    /// JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Effect of a result that does not match `output_schema`.
    #[serde(default)]
    pub output_check: OutputCheck,
    /// Hints about the effects of the tool.
    #[serde(default)]
    pub annotations: Annotations,
    /// Groups of the tool.
    #[serde(default)]
    #[schema(value_type = Vec<ToolName>)]
    pub groups: Vec<String>,
    /// Accepts and queues calls, and answers the caller immediately.
    #[serde(default, rename = "async")]
    pub asynchronous: bool,
    /// Whether calls can run concurrently with other calls of a batch; `null` uses `annotations.read_only`.
    #[serde(default)]
    pub concurrency_safe: Option<bool>,
    /// Limits of the calls.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Retries of failed attempts.
    #[serde(default)]
    pub retry: RetrySpec,
    /// Caching of successful results for equal calls. Only for idempotent tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// The approval that calls need before they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSpec>,
    /// The expected cost of a call, in a unit of your own. Budgets count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    pub cost: Option<f64>,
    /// Converts arguments of a wrong type to the type in the schema.
    #[serde(default = "yes")]
    pub coerce: bool,
    /// Arguments that the operator supplies. Their values are never returned.
    #[serde(default, skip_serializing_if = "Presets::is_empty")]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "object",
        "additionalProperties": {"$ref": "#/components/schemas/Preset"},
        "propertyNames": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000-\\u001F\\u007F-\\u009F]*$"}}))))]
    pub presets: Presets,
    /// Names of the context objects that are passed to the executor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "array", "uniqueItems": true,
        "items": {"type": "string", "minLength": 1, "maxLength": 128}}))))]
    pub context: Vec<String>,
    /// The executor of the tool.
    pub executor: ExecutorSpec,
    /// Further metadata from the upstream MCP server of the tool.
    #[serde(skip)]
    pub upstream: Option<Arc<UpstreamMetadata>>,
}

fn yes() -> bool {
    true
}

impl ToolDefinition {
    /// Creates a definition with this name, schema and executor, and the defaults of all other fields.
    #[must_use]
    pub fn plain(name: String, input_schema: Value, executor: ExecutorSpec) -> Self {
        Self {
            name,
            title: None,
            description: String::new(),
            category: None,
            tags: Vec::new(),
            version: None,
            examples: Vec::new(),
            input_schema,
            definition_url: None,
            definition_ttl_ms: None,
            output_schema: None,
            output_check: OutputCheck::default(),
            annotations: Annotations::default(),
            groups: Vec::new(),
            asynchronous: false,
            concurrency_safe: None,
            limits: LimitsSpec::default(),
            retry: RetrySpec::default(),
            cache: None,
            approval: None,
            cost: None,
            coerce: true,
            presets: Presets::new(),
            context: Vec::new(),
            executor,
            upstream: None,
        }
    }

    /// Returns the display name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns `true` if a call that may have run can be run again, because the tool is read-only or idempotent.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.annotations.read_only || self.annotations.idempotent
    }

    /// Returns `true` if the work is done outside of the service.
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self.executor, ExecutorSpec::External {} | ExecutorSpec::Worker(_))
    }

    /// Returns `true` if the tool receives a token with which it can report progress and its result.
    #[must_use]
    pub fn has_token(&self) -> bool {
        matches!(self.executor, ExecutorSpec::Http(_) | ExecutorSpec::Worker(_))
    }

    /// Returns the queue of the tool, if worker programs fetch its calls.
    #[must_use]
    pub fn worker(&self) -> Option<&WorkerSpec> {
        match &self.executor {
            ExecutorSpec::Worker(spec) => Some(spec),
            _ => None,
        }
    }

    /// Returns the definition as JSON for the database. Only this form contains the values of presets.
    ///
    /// # Errors
    /// Never returns an error, because all keys are strings and all numbers come from JSON.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        let mut kept = serde_json::to_value(self)?;
        if !self.presets.is_empty() {
            kept["presets"] = self.presets.iter().map(|(name, preset)| (name.clone(), preset.to_stored())).collect();
        }
        serde_json::to_string(&kept)
    }

    /// Returns `true` if every call needs approval.
    #[must_use]
    pub fn requires_approval(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.required)
    }

    /// Returns `true` if calls can run concurrently with other calls of a batch.
    #[must_use]
    pub fn is_concurrency_safe(&self) -> bool {
        self.concurrency_safe.unwrap_or(self.annotations.read_only)
    }
}

/// Returns `true` if `name` is a valid tool name.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_definition_equals_minimal_json() {
        let executor = ExecutorSpec::Builtin { name: "echo".into() };
        let minimal = json!({"name": "t", "description": "", "input_schema": {"type": "object"}, "executor": executor});
        let read: ToolDefinition = serde_json::from_value(minimal).unwrap();
        assert_eq!(ToolDefinition::plain("t".into(), json!({"type": "object"}), executor), read);
    }
}
