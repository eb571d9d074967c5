//! Import: converts OpenAPI documents to tool definitions. Pure functions; nothing is fetched.
//!
//! [`document`] parses the text within bounds, and [`openapi`] visits the operations. Each operation becomes the
//! definition of an `http` tool or is rejected with a reason. The registry decides whether a definition can be
//! registered.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::ToolDefinition;

mod arguments;
mod body;
mod credentials;
pub mod document;
mod files;
mod media;
mod names;
mod operation;
mod parameters;
mod reference;
mod responses;
mod schema;
mod security;
mod select;
mod servers;
#[cfg(test)]
mod tests;
mod version;
mod walk;

pub use credentials::Credential;
pub use walk::openapi;

/// The options of an import.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The URL of the server; overrides the servers of the document.
    pub server: Option<String>,
    /// The credentials for the operations.
    pub credentials: Vec<Credential>,
    /// The tags and operations to import; all if empty.
    pub only: Vec<String>,
    /// The prefix for the names of the tools.
    pub prefix: Option<String>,
    /// The URL of the document; its relative URLs are resolved against it.
    pub document_url: Option<Url>,
}

/// The error for a document that cannot be imported at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    /// The option at fault; `None` if the document is at fault.
    pub option: Option<&'static str>,
    /// The location in the document or in the option, as an RFC 6901 pointer.
    pub pointer: String,
    /// The fault and how to fix it.
    pub message: String,
}

impl ImportError {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { option: None, pointer: pointer.into(), message: message.into() }
    }

    /// Creates the error for a document that could not be read.
    #[must_use]
    pub fn unreadable() -> Self {
        Self::new("", "the document cannot be read")
    }

    fn option(option: &'static str, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { option: Some(option), ..Self::new(pointer, message) }
    }
}

/// The result of converting a document.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// The title of the document.
    pub title: Option<String>,
    /// The tools, in document order.
    pub offered: Vec<ImportedTool>,
    /// The operations that cannot become tools.
    pub refused: Vec<RejectedOperation>,
    /// The deviations from the document.
    pub warnings: Vec<Warning>,
}

/// An operation that becomes a tool.
#[derive(Debug)]
pub struct ImportedTool {
    /// The method and path, such as `GET /pets/{id}`.
    pub operation: String,
    /// The definition of the tool.
    pub definition: ToolDefinition,
}

/// An operation that cannot become a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Refused)]
pub struct RejectedOperation {
    /// Method and path, such as `GET /pets/{id}`.
    pub operation: String,
    /// Reason and possible remedy.
    pub reason: String,
}

/// The reason why an operation cannot become a tool.
#[derive(Debug, PartialEq, Eq)]
enum OperationError {
    /// The document names no server, so none of its operations can become a tool.
    NoServer(String),
    /// This operation cannot become a tool.
    Refused(String),
}

impl From<String> for OperationError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// A deviation from the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Warning {
    /// Method and path, such as `GET /pets/{id}`; `null` for the whole document.
    pub operation: Option<String>,
    /// Deviation and possible remedy.
    pub message: String,
}

/// The result of an import.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[schema(as = ImportReport)]
pub struct Report {
    /// Title of the document.
    pub title: Option<String>,
    /// Names of the new tools.
    pub created: Vec<String>,
    /// Names of the tools whose definition changed.
    pub replaced: Vec<String>,
    /// Names of the tools whose definition did not change.
    pub unchanged: Vec<String>,
    /// Operations that cannot become tools.
    pub refused: Vec<RejectedOperation>,
    /// Deviations from the document.
    pub warnings: Vec<Warning>,
}

/// Maximum number of operations of one import.
const MAX_OPERATIONS: usize = 2000;

/// Approximate maximum size of all definitions of one import, in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of warnings.
const MAX_WARNINGS: usize = 1000;
