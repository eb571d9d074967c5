//! Tools out of documents of others. Pure functions: a document in, definitions and refusals out; nothing is fetched.
//!
//! [`document`] reads the text within its bounds, [`openapi`] walks the operations, and each of them becomes the definition of
//! an `http` tool or a refusal with its reason. Whether a definition can be registered is the registry's to say.

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

/// What is asked of an import.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where requests go, instead of where the document says.
    pub server: Option<String>,
    /// What operations are to be authorised with.
    pub credentials: Vec<Credential>,
    /// Tags and operations; all of them if empty.
    pub only: Vec<String>,
    /// What the names of tools begin with.
    pub prefix: Option<String>,
    /// Where the document is from: its relative URLs begin there.
    pub document_url: Option<Url>,
}

/// Why a document cannot be imported at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    /// The option that it concerns; `None`: the document.
    pub option: Option<&'static str>,
    /// Where in the document or the option (RFC 6901).
    pub pointer: String,
    /// What is wrong, and the way out.
    pub message: String,
}

impl ImportError {
    fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { option: None, pointer: pointer.into(), message: message.into() }
    }

    /// Reading the document failed.
    #[must_use]
    pub fn unreadable() -> Self {
        Self::new("", "the document cannot be read")
    }

    fn option(option: &'static str, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { option: Some(option), ..Self::new(pointer, message) }
    }
}

/// What became of a document.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// The name that the document has.
    pub title: Option<String>,
    /// The tools, in the order of the document.
    pub offered: Vec<ImportedTool>,
    /// Operations that cannot be tools.
    pub refused: Vec<RejectedOperation>,
    /// What is not as the document has it.
    pub warnings: Vec<Warning>,
}

/// An operation as a tool.
#[derive(Debug)]
pub struct ImportedTool {
    /// `GET /pets/{id}`.
    pub operation: String,
    /// The tool.
    pub definition: ToolDefinition,
}

/// An operation that is no tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Refused)]
pub struct RejectedOperation {
    /// `GET /pets/{id}`.
    pub operation: String,
    /// Why, and what could be done about it.
    pub reason: String,
}

/// Something that is not as the document has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Warning {
    /// `GET /pets/{id}`; `null`: the whole document.
    pub operation: Option<String>,
    /// What, and what could be done about it.
    pub message: String,
}

/// What an import did.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[schema(as = ImportReport)]
pub struct Report {
    /// The name that the document has.
    pub title: Option<String>,
    /// Tools that are new.
    pub created: Vec<String>,
    /// Tools that were another before.
    pub replaced: Vec<String>,
    /// Tools that were the same before.
    pub unchanged: Vec<String>,
    /// Operations that are no tools.
    pub refused: Vec<RejectedOperation>,
    /// What is not as the document has it.
    pub warnings: Vec<Warning>,
}

/// Most operations of one import.
const MOST_OPERATIONS: usize = 2000;

/// Most bytes of all definitions of one import, about.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// Most warnings that are told.
const MOST_WARNINGS: usize = 1000;
