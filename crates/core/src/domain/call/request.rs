//! A call as requested, before its tool is resolved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::tool::RetryOverride;
use super::super::{IdempotencyKey, LimitsSpec, Naming, Vendor};

/// The cache control of a call (RFC 9111, `Cache-Control` of a request).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheControl {
    /// A cached result is accepted.
    #[default]
    Any,
    /// The tool must run, and its result is cached.
    NoCache,
    /// The tool must run, and its result is not cached.
    NoStore,
}

/// A requested call, before its tool is resolved.
#[derive(Debug, Clone, Default)]
pub struct CallRequest {
    /// The tool's name as written by the model.
    pub name: String,
    /// The caller's id.
    pub call_id: Option<String>,
    /// An object, a JSON text, or any other value that the model wrote.
    pub arguments: Option<Value>,
    /// The limits of this call.
    pub limits: LimitsSpec,
    /// The retry settings of this call.
    pub retry: RetryOverride,
    /// The priority; higher values leave the queue first.
    pub priority: Option<i32>,
    /// The key that identifies repeated requests for the same call.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The position in the request, if other calls of the request are skipped.
    pub index: Option<u32>,
    /// The vendor of the model, if the request is a model message. Such models know tools by their aliases.
    pub vendor: Option<Vendor>,
    /// Whether the call came over the Model Context Protocol, which has its own tool names.
    pub over_mcp: bool,
    /// Whether the model's output was cut off within this call.
    pub truncated: bool,
    /// Whether the arguments are streamed.
    pub streamed: bool,
    /// The earlier call that this call repeats.
    pub rerun_of: Option<Uuid>,
}

impl CallRequest {
    /// Returns the naming scheme of the tools that the caller sees.
    #[must_use]
    pub fn naming(&self) -> Naming {
        if self.over_mcp { Naming::Mcp } else { self.vendor.into() }
    }
}
