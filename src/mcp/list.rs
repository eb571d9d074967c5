//! `tools/list`: the tools as `GET /tools?format=mcp` has them, in pages.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListToolsResult, Tool};
use serde::Deserialize;
use serde_json::Value;

use super::Server;
use crate::access::Access;
use crate::executor::mcp::annotations;
use crate::formats::definitions::{Format, mcp};
use crate::registry::{Lookup, Snapshot};

/// Tools in one page.
const PAGE: usize = 500;
/// How long a client may take a list for what there is, in milliseconds: tools come and go.
const FRESH_MS: u64 = 5_000;

/// The list as it was made last.
#[derive(Debug, Default)]
pub(super) struct Tools(ArcSwapOption<List>);

#[derive(Debug)]
struct List {
    /// Of these tools.
    of: Weak<Snapshot>,
    /// In the order of their own names.
    tools: Vec<ListedTool>,
    /// By their own names.
    places: HashMap<Arc<str>, usize>,
}

/// A tool as it is shown, and its own name.
type ListedTool = (Arc<str>, Tool);

#[derive(Deserialize)]
struct Rendered {
    tools: Vec<Tool>,
}

impl List {
    fn new(snapshot: &Arc<Snapshot>) -> Self {
        let rendered = snapshot.rendered(Format::Mcp, false);
        let read = serde_json::from_slice(&rendered.body).and_then(|mut list: Value| {
            annotations::pack_all(&mut list);
            serde_json::from_value::<Rendered>(list)
        });
        let tools = read.map_or_else(
            |error| {
                tracing::error!(%error, "the list of tools cannot be read back");
                Vec::new()
            },
            |list| list.tools,
        );
        let own = |tool: Tool| snapshot.find(&tool.name).map(|entry| (entry.name.clone(), tool));
        let tools: Vec<ListedTool> = tools.into_iter().filter_map(own).collect();
        let places = tools.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        Self { of: Arc::downgrade(snapshot), tools, places }
    }

    fn is_of(&self, snapshot: &Arc<Snapshot>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(snapshot))
    }
}

impl Server {
    /// One page of the tools that everybody can call.
    pub(super) async fn list(&self, access: &Access, cursor: Option<String>) -> Result<ListToolsResult, ErrorData> {
        let after = cursor.as_deref().map(name_of).transpose()?;
        let list = self.listed(access).await?;
        let start = after.map_or(0, |after| list.tools.partition_point(|(name, _)| **name <= *after));
        let page = &list.tools[start..list.tools.len().min(start + PAGE)];
        let is_last = start + page.len() == list.tools.len();
        let last = page.last().filter(|_| !is_last);
        let next_cursor = last.map(|(name, _)| URL_SAFE_NO_PAD.encode(name.as_bytes()));
        let mut result = ListToolsResult::with_all_items(page.iter().map(|(_, tool)| tool.clone()).collect());
        (result.next_cursor, result.ttl_ms) = (next_cursor, Some(FRESH_MS));
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    async fn listed(&self, access: &Access) -> Result<Arc<List>, ErrorData> {
        let snapshot = access.snapshot().clone();
        if access.allowed().is_some() {
            return self.allowed(access.clone(), snapshot).await;
        }
        if let Some(list) = self.0.tools.0.load_full().filter(|list| list.is_of(&snapshot)) {
            return Ok(list);
        }
        // With many tools this takes a while, and others would wait.
        let made = tokio::task::spawn_blocking(move || Arc::new(List::new(&snapshot))).await;
        let list = made.map_err(|_| ErrorData::internal_error("the list of tools could not be made", None))?;
        self.0.tools.0.store(Some(list.clone()));
        Ok(list)
    }

    /// The list for those who may not have all tools; it is kept for nobody.
    async fn allowed(&self, access: Access, snapshot: Arc<Snapshot>) -> Result<Arc<List>, ErrorData> {
        let made = tokio::task::spawn_blocking(move || {
            let view = access.view(&snapshot, None);
            let mut list = List::new(&snapshot);
            list.tools.retain(|(name, _)| matches!(view.find(name), Lookup::Available(_)));
            Arc::new(list)
        });
        made.await.map_err(|_| ErrorData::internal_error("the list of tools could not be made", None))
    }

    /// One tool, for what of its arguments is to stand in headers.
    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        // It is not told who asks: only what is everybody's, or the operator's, is known by it.
        let snapshot = self.0.engine.registry().default_shelf().snapshot().clone();
        if let Some(list) = self.0.tools.0.load_full().filter(|list| list.is_of(&snapshot)) {
            let name = &snapshot.find(name)?.name;
            return list.places.get(name).map(|place| list.tools[*place].1.clone());
        }
        let schema = snapshot.find(name)?.definition.input_schema.as_object()?.clone();
        Some(Tool::new(name.to_owned(), "", Arc::new(schema)))
    }

    /// Whether callers of this tool are not kept waiting, and whether it says what its results look like.
    pub(super) fn kind_of(access: &Access, name: &str) -> ToolTraits {
        let snapshot = access.snapshot();
        let view = access.view(&snapshot, None);
        let Lookup::Available(entry) = view.find(name) else { return ToolTraits::default() };
        ToolTraits {
            is_asynchronous: entry.definition.asynchronous,
            has_output_schema: entry.definition.output_schema.as_ref().is_some_and(mcp::is_told),
        }
    }
}

/// See [`Server::kind_of`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolTraits {
    pub is_asynchronous: bool,
    pub has_output_schema: bool,
}

fn name_of(cursor: &str) -> Result<String, ErrorData> {
    let name = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| ErrorData::invalid_params("the cursor is none of this server: begin without one", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_cursor_is_rejected() {
        assert_eq!(name_of(&URL_SAFE_NO_PAD.encode("a.b")).unwrap(), "a.b");
        assert_eq!(name_of("!").unwrap_err().code, rmcp::model::ErrorCode::INVALID_PARAMS);
    }
}
