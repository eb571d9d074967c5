//! Tools as responses show them, and their entity tags.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};

use super::ToolRecord;
use super::entry::etag_of;
use toolpost_core::domain::tool::{DefinitionError, UpstreamMetadata};
use toolpost_core::domain::{Paused, Source, Time, ToolDefinition};

/// A tool as a response shows it. Its definition is parsed when it is serialized, so that a long list needs the memory
/// of one definition.
#[derive(Debug)]
pub struct ListedTool {
    record: Arc<ToolRecord>,
    paused: Option<Paused>,
    active: bool,
    /// Differences between the definition in the request and the stored one.
    pub warnings: Vec<String>,
}

impl ToolRecord {
    /// Returns the public representation of the tool. `active` states whether the caller can call it.
    #[must_use]
    pub fn view(self: &Arc<Self>, paused: Option<Paused>, active: bool) -> ListedTool {
        ListedTool { record: self.clone(), paused, active, warnings: Vec::new() }
    }

    /// Returns a strong entity tag (RFC 9110, section 8.8.3), which is the same on every node and after a restart.
    #[must_use]
    pub fn etag(self: &Arc<Self>) -> &str {
        self.etag.get_or_init(|| self.tag(None).into())
    }

    /// Returns the entity tag of the current representation, which differs if the tool is paused or inactive.
    #[must_use]
    pub fn etag_now(self: &Arc<Self>, paused: Option<Paused>, active: bool) -> Cow<'_, str> {
        let tag: Cow<'_, str> = if paused.is_some() { self.tag(paused).into() } else { self.etag().into() };
        if active { tag } else { etag_of(format!("inactive {tag}").as_bytes()).into() }
    }

    fn tag(self: &Arc<Self>, paused: Option<Paused>) -> String {
        etag_of(&serde_json::to_vec(&self.view(paused, true)).unwrap_or_default())
    }
}

impl Serialize for ListedTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { record, paused, active, warnings } = self;
        let (definition, fetched) = (record.definition(), record.fetched());
        let view = ToolView {
            definition: &definition,
            upstream: definition.upstream.as_deref(),
            source: record.made.source,
            revision: record.made.revision,
            active: *active,
            paused: *paused,
            definition_error: fetched.error.as_ref(),
            created_at: record.made.created_at,
            updated_at: record.made.updated_at,
            warnings,
        };
        view.serialize(serializer)
    }
}

impl utoipa::PartialSchema for ListedTool {
    fn schema() -> RefOr<Schema> {
        ToolView::schema()
    }
}

impl utoipa::ToSchema for ListedTool {
    fn name() -> Cow<'static, str> {
        ToolView::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ToolView::schemas(schemas);
    }
}

/// A tool as returned by `GET /tools/{name}`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Tool)]
pub struct ToolView<'a> {
    #[serde(flatten)]
    definition: &'a ToolDefinition,
    /// Metadata from the upstream MCP server; only for tools of upstream servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a UpstreamMetadata>,
    /// The source of the definition.
    source: Source,
    /// Incremented by every change.
    revision: i64,
    /// Whether the tool can be called.
    active: bool,
    /// Why the tool is paused; `null` if it is not paused.
    #[schema(value_type = Option<Object>)]
    paused: Option<Paused>,
    /// Why the last response of `definition_url` is not in use; absent if there was no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_error: Option<&'a DefinitionError>,
    /// The time of the first declaration.
    created_at: Time,
    /// The time of the last change.
    updated_at: Time,
    /// Differences between the definition in the request and the stored one; absent if both are equal.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schema(required = false)]
    warnings: &'a [String],
}
