//! A tool as it is declared.

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

/// Where a definition comes from; a later variant shadows an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Compiled in.
    Builtin,
    /// Of an upstream MCP server.
    Mcp,
    /// From the folder given by `--tools`.
    File,
    /// Registered over HTTP.
    Api,
}

/// Hints about what a tool does (those of the Model Context Protocol, with its defaults).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Running it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches the world outside.
    pub open_world: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

/// What a mismatch with the output schema does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputCheck {
    /// It is noted in the call's metadata.
    #[default]
    Warn,
    /// The call ends `RESULT_INVALID`.
    Strict,
}

/// How often and when a failed attempt is made again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// Attempts in all.
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: u32,
    /// Wait before the second attempt, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: u64,
    /// Longest wait, in milliseconds.
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: u64,
    /// Factor from one wait to the next.
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: f64,
    /// Share of the wait that is random, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: f64,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { max_attempts: 1, initial_backoff_ms: 1000, max_backoff_ms: 10_000, backoff_multiplier: 2.0, jitter: 0.5 }
    }
}

/// What a call says of its tool's retries; what is absent is the tool's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOverride {
    /// Attempts in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub max_attempts: Option<u32>,
    /// Wait before the second attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub initial_backoff_ms: Option<u64>,
    /// Longest wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub max_backoff_ms: Option<u64>,
    /// Factor from one wait to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub backoff_multiplier: Option<f64>,
    /// Share of the wait that is random, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub jitter: Option<f64>,
}

impl RetryOverride {
    /// Field by field: these, or else those.
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

    /// Field by field: these, or else the tool's.
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

/// Which calls share a kept result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Those of one session; a call without one has none.
    #[default]
    Session,
    /// All of them.
    Global,
}

/// How long a good result serves equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// How long, in milliseconds.
    #[schema(minimum = 1, maximum = 2_592_000_000_i64)]
    pub ttl_ms: u64,
    /// Which calls share it.
    #[serde(default)]
    pub scope: CacheScope,
}

/// What runs a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ExecutorSpec {
    /// Rust code in this process.
    Builtin {
        /// The built-in's name.
        name: String,
    },
    /// A request to an HTTP server.
    Http(Box<HttpSpec>),
    /// A program on the server.
    Process(Box<ProcessSpec>),
    /// A tool of an upstream MCP server.
    Mcp {
        /// The server's name.
        server: String,
        /// The tool's name there.
        tool: String,
    },
    /// Someone outside does the work and posts its result.
    External {},
}

/// The request that an `http` tool makes. `{name}` stands for the argument of that name, encoded for its place; `{{` and
/// `}}` are literal braces. Where an optional argument is absent, its query parameter, header or body member is left out;
/// the path needs all of its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// `http://` or `https://`, with placeholders in the path and the query only.
    #[schema(
        pattern = r"^https?://(([A-Za-z0-9_-]+\.)*[A-Za-z_][A-Za-z0-9_-]*|((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|\[(::|([0-9A-Fa-f]{1,4}:){7}|([0-9A-Fa-f]{1,4}:){1,6}:)[0-9A-Fa-f]{1,4}\])(:([1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?]([!$&-;=?-Z_a-z~]|%[0-9A-Fa-f]{2}|\{[^{}]+\})*)?$"
    )]
    pub url: String,
    /// `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH` or `DELETE`; `POST` unless given.
    #[serde(default = "post")]
    #[schema(extensions(("x-is" = json!({"type": "string", "enum": ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]}))))]
    pub method: String,
    /// Headers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters by name, added to those of the URL. Arrays and objects are sent as compact JSON, unless `styles` says
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub query: Option<Map<String, Value>>,
    /// Cookies by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub cookies: Option<Map<String, Value>>,
    /// A template for the body: a string that is exactly `"{name}"` is the argument with its own type. It is sent as JSON,
    /// or as a form if `Content-Type` says so. Without it, `GET`, `HEAD`, `OPTIONS` and `DELETE` have no body and send the
    /// arguments that no placeholder names as query parameters; other methods send the service's own envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Value>,
    /// What the body is sent as; follows `Content-Type` unless given. `none`: no body, whatever the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_type: Option<BodyType>,
    /// How arguments that are arrays or objects are written in the path, the query, headers, cookies and a form, by the
    /// argument's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub styles: BTreeMap<String, ValueStyle>,
    /// Credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
}

fn post() -> String {
    "POST".to_owned()
}

/// Credentials of an `http` tool; the secret itself never stands in the definition.
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
        /// The user.
        username: String,
        /// The password.
        password: SecretRef,
    },
}

/// One worked example of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// Arguments.
    #[schema(value_type = Value)]
    pub arguments: Value,
    /// What comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
}

/// Why the last answer of a `definition_url` is not in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DefinitionError {
    /// What is wrong.
    pub message: String,
    /// Since when.
    pub at: Time,
}

/// A tool's definition: what the model reads, what is checked, and what runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// `^[A-Za-z0-9_.-]{1,128}$`.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub name: String,
    /// For people; the name unless given.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub title: Option<String>,
    /// For the model.
    #[serde(default)]
    pub description: String,
    /// A heading to list it under.
    #[serde(default)]
    pub category: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author's version.
    #[serde(default)]
    pub version: Option<String>,
    /// Worked examples.
    #[serde(default)]
    pub examples: Vec<Example>,
    /// JSON Schema of the arguments: an object. May be left out for the `builtin` executor, which brings its own.
    #[serde(default)]
    #[schema(value_type = Option<ArgumentsSchema>)]
    pub input_schema: Value,
    /// Where `title`, `description`, `input_schema` and `output_schema` come from: a URL that answers a JSON object with
    /// any of them. They come before the definition's own, which serve where there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HttpUrl>)]
    pub definition_url: Option<String>,
    /// How long such an answer is good, in milliseconds; one minute unless given.
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
    /// What a mismatch with `output_schema` does.
    #[serde(default)]
    pub output_check: OutputCheck,
    /// Hints about what it does.
    #[serde(default)]
    pub annotations: Annotations,
    /// Groups that it belongs to.
    #[serde(default)]
    #[schema(value_type = Vec<ToolName>)]
    pub groups: Vec<String>,
    /// Accepted and queued, the caller is not kept waiting.
    #[serde(default, rename = "async")]
    pub asynchronous: bool,
    /// Whether it may run beside others in a batch; `null` follows `annotations.read_only`.
    #[serde(default)]
    pub concurrency_safe: Option<bool>,
    /// Its bounds.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Its retries.
    #[serde(default)]
    pub retry: RetrySpec,
    /// Whether good results are kept for equal calls; only for idempotent tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether types that the model got wrong are mended.
    #[serde(default = "yes")]
    pub coerce: bool,
    /// Arguments that the operator gives; no answer shows their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "object",
        "additionalProperties": {"$ref": "#/components/schemas/Preset"},
        "propertyNames": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000-\\u001F\\u007F-\\u009F]*$"}}))))]
    pub presets: Presets,
    /// Names of the context objects that the executor is to receive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "array", "uniqueItems": true,
        "items": {"type": "string", "minLength": 1, "maxLength": 128}}))))]
    pub context: Vec<String>,
    /// What runs it.
    pub executor: ExecutorSpec,
    /// What its upstream MCP server says of it beside all this.
    #[serde(skip)]
    pub upstream: Option<Arc<UpstreamMetadata>>,
}

fn yes() -> bool {
    true
}

impl ToolDefinition {
    /// The name for people.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Whether a call that may have run can be run again: the tool changes nothing, or nothing more.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.annotations.read_only || self.annotations.idempotent
    }

    /// Whether its work is done by callers.
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self.executor, ExecutorSpec::External {})
    }

    /// Whether whoever does its work is sent a token to report by.
    #[must_use]
    pub fn has_token(&self) -> bool {
        matches!(self.executor, ExecutorSpec::Http(_))
    }

    /// As it is kept: the only form in which the values of presets are written out.
    ///
    /// # Errors
    /// Never: all keys are strings, and all numbers came from JSON.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        let mut kept = serde_json::to_value(self)?;
        if !self.presets.is_empty() {
            kept["presets"] = Value::Object(preset::told(&self.presets));
        }
        serde_json::to_string(&kept)
    }

    /// Whether it may run beside others in a batch.
    #[must_use]
    pub fn is_concurrency_safe(&self) -> bool {
        self.concurrency_safe.unwrap_or(self.annotations.read_only)
    }
}

/// Whether `name` is one that a tool can have.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// What an answer adds to a definition; taken back in silence, so that a tool can be read, changed and put.
const READ_ONLY: [&str; 9] =
    ["upstream", "source", "revision", "active", "paused", "definition_error", "created_at", "updated_at", "warnings"];

/// Parses a JSON text of a definition. `before` is what the path of a definition begins with: nothing, or what tells it
/// among several. Returns the value, and the bounds of its schemas that were replaced.
///
/// # Errors
/// As [`json::parse_with_schemas`].
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

/// Reads a definition that someone wrote.
///
/// # Errors
/// The first thing that does not fit, as a member that there is not.
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
    // Within a tagged shape nobody would know where they stand.
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

/// What stands where a preset should be may be one's secret: it is never repeated.
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
