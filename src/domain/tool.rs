//! Tool definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decode::{self, DecodeError};
use super::json::{ReplacedBound, SCHEMA_MAPS};
use super::preset::{self, Presets};
use super::process::ProcessSpec;
use super::schemas::{HttpUrl, ToolName};
use super::serialization::{BodyType, ValueStyle};
use super::{LimitsSpec, Time, json};

mod every_fault;
mod plain;
mod schemas;
mod upstream;

pub use super::secret::SecretRef;
pub use every_fault::Readable;
pub use schemas::ArgumentsSchema;
pub use upstream::UpstreamMetadata;

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

/// Retries of failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// Maximum number of attempts, including the first.
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: u32,
    /// Backoff before the second attempt, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: u64,
    /// Maximum backoff, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: u64,
    /// Factor between consecutive backoffs.
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: f64,
    /// Random share of the backoff, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: f64,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { max_attempts: 1, initial_backoff_ms: 1000, max_backoff_ms: 10_000, backoff_multiplier: 2.0, jitter: 0.5 }
    }
}

/// Retry settings of a call. Absent settings are taken from its tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOverride {
    /// Maximum number of attempts, including the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: Option<u32>,
    /// Backoff before the second attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: Option<u64>,
    /// Maximum backoff, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: Option<u64>,
    /// Factor between consecutive backoffs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: Option<f64>,
    /// Random share of the backoff, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
}

impl RetryOverride {
    /// Returns these settings, with absent settings taken from `those`.
    #[must_use]
    pub fn or(self, those: &Self) -> Self {
        Self {
            max_attempts: self.max_attempts.or(those.max_attempts),
            initial_backoff_ms: self.initial_backoff_ms.or(those.initial_backoff_ms),
            max_backoff_ms: self.max_backoff_ms.or(those.max_backoff_ms),
            backoff_multiplier: self.backoff_multiplier.or(those.backoff_multiplier),
            jitter: self.jitter.or(those.jitter),
        }
    }

    /// Returns the effective settings, with absent settings taken from the tool.
    #[must_use]
    pub fn over(&self, tool: &RetrySpec) -> RetrySpec {
        RetrySpec {
            max_attempts: self.max_attempts.unwrap_or(tool.max_attempts),
            initial_backoff_ms: self.initial_backoff_ms.unwrap_or(tool.initial_backoff_ms),
            max_backoff_ms: self.max_backoff_ms.unwrap_or(tool.max_backoff_ms),
            backoff_multiplier: self.backoff_multiplier.unwrap_or(tool.backoff_multiplier),
            jitter: self.jitter.unwrap_or(tool.jitter),
        }
    }
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

/// The executor of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ExecutorSpec {
    /// Rust code in the service.
    Builtin {
        /// The name of the built-in tool.
        name: String,
    },
    /// A request to an HTTP server.
    Http(Box<HttpSpec>),
    /// A program on the server.
    Process(Box<ProcessSpec>),
    /// A tool of an upstream MCP server.
    Mcp {
        /// The name of the server.
        server: String,
        /// The name of the tool on that server.
        tool: String,
    },
    /// A program outside of the service, which does the work and posts the result.
    External {},
}

/// The request of an `http` tool. `{name}` is replaced by the argument of that name, encoded for its position; `{{` and
/// `}}` are literal braces. If an optional argument is absent, its query parameter, header or body member is omitted.
/// Arguments in the path are required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// The URL, `http://` or `https://`. Placeholders are allowed in the path and the query only.
    #[schema(
        pattern = r"^https?://(([A-Za-z0-9_-]+\.)*[A-Za-z_][A-Za-z0-9_-]*|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|\[(::|([0-9A-Fa-f]{1,4}:){7}|([0-9A-Fa-f]{1,4}:){1,6}:)[0-9A-Fa-f]{1,4}\])(:([1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?]([!$&-;=?-Z_a-z~]|%[0-9A-Fa-f]{2}|\{[^{}]+\})*)?$"
    )]
    pub url: String,
    /// `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH` or `DELETE`. Default: `POST`.
    #[serde(default = "post")]
    #[schema(extensions(("x-is" = json!({"type": "string", "enum": ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]}))))]
    pub method: String,
    /// Headers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters by name, in addition to those of the URL. Arrays and objects are sent as compact JSON unless
    /// `styles` contains another style.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub query: Option<Map<String, Value>>,
    /// Cookies by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cookies: Option<Map<String, Value>>,
    /// Template of the body. A string that is exactly `"{name}"` is replaced by the argument with its own type. The
    /// body is sent as JSON, or as a form if `Content-Type` is a form. Without a template, `GET`, `HEAD`, `OPTIONS` and
    /// `DELETE` have no body and send arguments without a placeholder as query parameters; other methods send the
    /// envelope of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Value>,
    /// Format of the body. Default: the format of `Content-Type`. `none` sends no body with any method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_type: Option<BodyType>,
    /// Styles of array and object arguments in the path, the query, headers, cookies and a form, by argument name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub styles: BTreeMap<String, ValueStyle>,
    /// Credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
}

fn post() -> String {
    "POST".to_owned()
}

/// Credentials of an `http` tool. The definition contains only the names of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum HttpAuth {
    /// `Authorization: Bearer …` (RFC 6750).
    Bearer {
        /// The token.
        token: SecretRef,
    },
    /// `Authorization: Basic …` (RFC 7617).
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: SecretRef,
    },
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
    /// Converts arguments of a wrong type to the type in the schema.
    #[serde(default = "yes")]
    pub coerce: bool,
    /// Arguments that the operator supplies. Their values are never returned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
        matches!(self.executor, ExecutorSpec::External {})
    }

    /// Returns `true` if the tool receives a token with which it can report progress and its result.
    #[must_use]
    pub fn has_token(&self) -> bool {
        matches!(self.executor, ExecutorSpec::Http(_))
    }

    /// Returns the definition as JSON for the database. Only this form contains the values of presets.
    ///
    /// # Errors
    /// Never returns an error, because all keys are strings and all numbers come from JSON.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        let mut kept = serde_json::to_value(self)?;
        if !self.presets.is_empty() {
            kept["presets"] = Value::Object(preset::told(&self.presets));
        }
        serde_json::to_string(&kept)
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

/// Members that responses add to a definition. They are ignored in requests, so that a tool can be fetched, changed and
/// sent back.
const READ_ONLY: [&str; 9] =
    ["upstream", "source", "revision", "active", "paused", "definition_error", "created_at", "updated_at", "warnings"];

/// Parses the JSON of one or several definitions. `before` returns the number of leading path tokens that locate a
/// definition. Returns the value, and the bounds of its schemas that were replaced.
///
/// # Errors
/// Returns an error as [`json::parse_with_schemas`] does.
pub fn parse_definition(
    bytes: &[u8],
    before: impl Fn(&[String]) -> usize,
) -> Result<(Value, Vec<ReplacedBound>), json::JsonError> {
    json::parse_with_schemas(bytes, |path| match path[before(path).min(path.len())..].split_first() {
        Some((member, schema)) => {
            matches!(member.as_str(), "input_schema" | "output_schema")
                && json::is_within_schema(schema, |key| SCHEMA_MAPS.contains(&key))
        }
        None => false,
    })
}

/// Decodes a definition of a user.
///
/// # Errors
/// Returns an error for the first invalid or unknown member.
pub fn read_definition(mut value: Value) -> Result<ToolDefinition, DecodeError> {
    let parts = ["", "/annotations", "/limits", "/retry", "/executor", "/executor/auth", "/executor/auth/token"];
    decode::expect_objects(&value, &parts)?;
    decode::expect_objects(&value, &["/executor/auth/password", "/presets", "/executor/cookies", "/executor/styles"])?;
    check_presets(&value)?;
    decode::expect_objects(&value, &["/cache", "/executor/limits", "/output_schema"])?;
    for place in 0..value["examples"].as_array().map_or(0, Vec::len) {
        decode::expect_objects(&value, &[&format!("/examples/{place}")])?;
    }
    decode::expect_strings(&value, &["/output_check", "/limits/truncate", "/executor/type", "/cache/scope"])?;
    decode::expect_strings(&value, &["/executor/body_type", "/executor/auth/type"])?;
    // An error inside a tagged enum would not name the path, so integers are converted in advance.
    let limits = value.pointer_mut("/executor/limits").and_then(Value::as_object_mut);
    for limit in limits.into_iter().flat_map(|limits| limits.values_mut()) {
        decode::make_integer(limit);
    }
    if let Value::Object(members) = &mut value {
        for name in READ_ONLY {
            members.shift_remove(name);
        }
    }
    decode::read(value)
}

/// Checks the presets. An invalid value can be a secret, so it is not quoted in the error.
fn check_presets(value: &Value) -> Result<(), DecodeError> {
    let presets = value.get("presets").and_then(Value::as_object).into_iter().flatten();
    for (name, preset) in presets {
        let pointer = format!("/presets/{}", json::pointer_token(name));
        if !preset.is_object() {
            let message = r#"must be an object: {"value": …} or {"secret": "NAME"}"#.to_owned();
            return Err(DecodeError { pointer, message });
        }
        decode::expect_strings(preset, &["/secret", "/kind"])
            .map_err(|error| DecodeError { pointer: format!("{pointer}{}", error.pointer), ..error })?;
    }
    Ok(())
}
