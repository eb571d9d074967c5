//! Schemas of a definition's parts that no attribute can express: each variant of a tagged enum refuses unknown members.

use super::{ExecutorSpec, HttpAuth, HttpSpec, SecretRef};
use crate::domain::ProcessSpec;
use crate::domain::schemas::described_as;

/// The JSON Schema of a tool's arguments.
pub enum ArgumentsSchema {}

described_as!(ExecutorSpec as "ExecutorSpec", [HttpSpec, ProcessSpec], {
    "description": "What runs a tool.",
    "oneOf": [
        {
            "type": "object", "description": "Rust code in this process.", "required": ["type", "name"],
            "properties": {
                "type": {"type": "string", "const": "builtin"},
                "name": {"type": "string", "description": "The built-in's name."}
            },
            "additionalProperties": false
        },
        {
            "allOf": [
                {"$ref": "#/components/schemas/HttpSpec"},
                {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "const": "http"}}}
            ],
            "description": "A request to an HTTP server."
        },
        {
            "allOf": [
                {"$ref": "#/components/schemas/ProcessSpec"},
                {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "const": "process"}}}
            ],
            "description": "A program on the server. Over the API it is refused unless the operator allows it."
        },
        {
            "type": "object", "description": "A tool of an upstream MCP server.",
            "required": ["type", "server", "tool"],
            "properties": {
                "type": {"type": "string", "const": "mcp"},
                "server": {"type": "string", "description": "The server's name.", "minLength": 1},
                "tool": {"type": "string", "description": "The tool's name there.", "minLength": 1}
            },
            "additionalProperties": false
        },
        {
            "type": "object", "description": "Someone outside does the work and posts its result.",
            "required": ["type"], "properties": {"type": {"type": "string", "const": "external"}},
            "additionalProperties": false
        }
    ]
});

described_as!(HttpAuth as "HttpAuth", [SecretRef], {
    "description": "Credentials of an `http` tool; the definition never contains the secret itself.",
    "oneOf": [
        {
            "type": "object", "description": "`Authorization: Bearer …` (RFC 6750).", "required": ["type", "token"],
            "properties": {
                "type": {"type": "string", "const": "bearer"}, "token": {"$ref": "#/components/schemas/SecretRef"}
            },
            "additionalProperties": false
        },
        {
            "type": "object", "description": "`Authorization: Basic …` (RFC 7617).",
            "required": ["type", "username", "password"],
            "properties": {
                "type": {"type": "string", "const": "basic"},
                "username": {"type": "string", "description": "The user."},
                "password": {"$ref": "#/components/schemas/SecretRef"}
            },
            "additionalProperties": false
        }
    ]
});

described_as!(ArgumentsSchema as "ArgumentsSchema", [], {
    "type": "object",
    "description": "JSON Schema (2020-12, or what `$schema` says) of the arguments: an object. At most 256 KiB, 64 levels and 10,000 nodes; it refers to nothing outside itself.",
    "properties": {
        "type": {
            "anyOf": [
                {"type": "string", "const": "object"},
                {"type": "array", "items": {"type": "string", "const": "object"}, "minItems": 1, "maxItems": 1}
            ]
        },
        "properties": {"type": "object", "additionalProperties": {"type": ["object", "boolean"]}},
        "required": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
        "description": {"type": "string"}, "title": {"type": "string"}
    },
    "required": ["type"]
});
