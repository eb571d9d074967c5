//! A call as its caller requests it, before anything is known about its tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::tool::RetryOverride;
use super::super::{IdempotencyKey, LimitsSpec, Naming, Vendor};

/// What a caller says of kept results (RFC 9111, `Cache-Control` of a request).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheControl {
    /// A kept one will do.
    #[default]
    Any,
    /// It must be a new one, which is kept.
    NoCache,
    /// It must be a new one, which is not kept.
    NoStore,
}

/// What a caller asks for: one call, before anything is known about its tool.
#[derive(Debug, Clone, Default)]
pub struct CallRequest {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The caller's own id.
    pub call_id: Option<String>,
    /// An object, a JSON text, or whatever the model made of them.
    pub arguments: Option<Value>,
    /// Bounds for this call only.
    pub limits: LimitsSpec,
    /// Retries of this call only.
    pub retry: RetryOverride,
    /// Higher ones leave the queue first.
    pub priority: Option<i32>,
    /// What makes it the same as another request for it.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Its place in the request, where others of it are left out.
    pub index: Option<u32>,
    /// Whose model asked, where its own message says so: tools are known to it by their aliases.
    pub vendor: Option<Vendor>,
    /// It came over the Model Context Protocol, whose clients are shown names of their own.
    pub over_mcp: bool,
    /// The model's output was cut off within this call.
    pub truncated: bool,
    /// Its arguments come piece by piece.
    pub streamed: bool,
}

impl CallRequest {
    /// The names under which its caller is shown tools.
    #[must_use]
    pub fn naming(&self) -> Naming {
        if self.over_mcp { Naming::Mcp } else { self.vendor.into() }
    }
}
