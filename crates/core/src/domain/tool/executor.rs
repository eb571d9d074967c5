//! Declaration of the executor of a tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::SecretRef;
use crate::described_as;
use crate::domain::process::ProcessSpec;
use crate::domain::serialization::{BodyType, ValueStyle};

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
    /// Worker programs, which fetch the calls of a queue.
    Worker(WorkerSpec),
}

/// The queue of a `worker` tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// The queue from which workers fetch the calls.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub queue: String,
    /// The time for which a worker has a call without a heartbeat, in milliseconds.
    #[serde(default = "lease_ms")]
    #[schema(minimum = 1000, maximum = 3_600_000, default = 30_000)]
    pub lease_ms: u64,
}

fn lease_ms() -> u64 {
    30_000
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

// No attribute can express these schemas: each variant of a tagged enum refuses unknown members.

described_as!(ExecutorSpec as "ExecutorSpec", [HttpSpec, ProcessSpec, WorkerSpec], {
    "description": "What runs a tool.",
    "oneOf": [
        variant("builtin", "Rust code in this process.", json!({
            "name": {"type": "string", "description": "The built-in's name."}
        })),
        variant_of("http", "HttpSpec", "A request to an HTTP server."),
        variant_of(
            "process", "ProcessSpec", "A program on the server. Over the API it is refused unless the operator allows it."
        ),
        variant("mcp", "A tool of an upstream MCP server.", json!({
            "server": {"type": "string", "description": "The server's name.", "minLength": 1},
            "tool": {"type": "string", "description": "The tool's name there.", "minLength": 1}
        })),
        variant("external", "Someone outside does the work and posts its result.", json!({})),
        variant_of("worker", "WorkerSpec", "Worker programs fetch the calls from a queue.")
    ]
});

described_as!(HttpAuth as "HttpAuth", [SecretRef], {
    "description": "Credentials of an `http` tool; the definition never contains the secret itself.",
    "oneOf": [
        variant("bearer", "`Authorization: Bearer …` (RFC 6750).", json!({
            "token": {"$ref": "#/components/schemas/SecretRef"}
        })),
        variant("basic", "`Authorization: Basic …` (RFC 7617).", json!({
            "username": {"type": "string", "description": "The user."},
            "password": {"$ref": "#/components/schemas/SecretRef"}
        }))
    ]
});

/// Returns the schema of a variant with these required members.
fn variant(name: &str, description: &str, members: Value) -> Value {
    let mut properties = Map::from_iter([("type".to_owned(), json!({"type": "string", "const": name}))]);
    properties.extend(members.as_object().cloned().unwrap_or_default());
    let required: Vec<&String> = properties.keys().collect();
    json!({
        "type": "object", "description": description, "required": required, "properties": properties,
        "additionalProperties": false
    })
}

/// Returns the schema of a variant with the members of another schema.
fn variant_of(name: &str, schema: &str, description: &str) -> Value {
    json!({
        "allOf": [
            {"$ref": format!("#/components/schemas/{schema}")},
            {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "const": name}}}
        ],
        "description": description
    })
}
