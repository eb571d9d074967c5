//! `tools/list`: the tools as in `GET /tools?format=mcp`, in pages, with schemas that all known clients take.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListToolsResult, Tool};
use serde_json::Value;

use super::Server;
use super::result::Promise;
use crate::access::Access;
use crate::domain::{Call, McpLowering};
use crate::executor::mcp::annotations;
use crate::formats::definitions::{Format, mcp};
use crate::registry::{Lookup, Snapshot};

/// Maximum number of tools in one page.
const PAGE: usize = 500;
/// Time that a client may cache a list, in milliseconds; the tools can change.
const LIST_TTL_MS: u64 = 5_000;

/// The cached list of tools.
#[derive(Debug, Default)]
pub(super) struct Tools(ArcSwapOption<List>);

#[derive(Debug)]
struct List {
    /// The snapshot that the list was built from.
    of: Weak<Snapshot>,
    /// The tools, sorted by their names in the registry.
    tools: Vec<ListedTool>,
    /// The index of each tool, by its name in the registry.
    indexes: HashMap<Arc<str>, usize>,
    /// The members of the first page as JSON without the outer braces and without `resultType`. Empty if the list is
    /// restricted.
    first_page: Bytes,
}

/// The name of a tool in the registry, and the tool as clients see it.
type ListedTool = (Arc<str>, Tool);

impl List {
    fn new(snapshot: &Arc<Snapshot>, lowering: McpLowering) -> Self {
        let rendered = snapshot.rendered(Format::Mcp, false);
        let read = serde_json::from_slice(&rendered.body).and_then(|mut list: Value| {
            if lowering == McpLowering::Portable {
                list["tools"].as_array_mut().into_iter().flatten().for_each(mcp::make_portable);
            }
            annotations::pack_all(&mut list);
            serde_json::from_value::<Vec<Tool>>(list["tools"].take())
        });
        let tools = read.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot decode the list of tools");
            Vec::new()
        });
        let own = |tool: Tool| snapshot.find(&tool.name).map(|entry| (entry.name.clone(), tool));
        let tools: Vec<ListedTool> = tools.into_iter().filter_map(own).collect();
        let indexes = tools.iter().enumerate().map(|(index, (name, _))| (name.clone(), index)).collect();
        Self { of: Arc::downgrade(snapshot), tools, indexes, first_page: Bytes::new() }
    }

    /// Returns the page of the tools after this name.
    fn page(&self, after: Option<&str>) -> ListToolsResult {
        let start = after.map_or(0, |after| self.tools.partition_point(|(name, _)| **name <= *after));
        let page = &self.tools[start..self.tools.len().min(start + PAGE)];
        let is_last = start + page.len() == self.tools.len();
        let last = page.last().filter(|_| !is_last);
        let next_cursor = last.map(|(name, _)| URL_SAFE_NO_PAD.encode(name.as_bytes()));
        let mut result = ListToolsResult::with_all_items(page.iter().map(|(_, tool)| tool.clone()).collect());
        (result.next_cursor, result.ttl_ms) = (next_cursor, Some(LIST_TTL_MS));
        result.cache_scope = Some(CacheScope::Private);
        result
    }

    /// Renders the first page.
    fn render(&mut self) {
        let mut page = self.page(None);
        page.result_type = None;
        let Ok(mut page) = serde_json::to_value(page) else { return };
        annotations::unpack_all(&mut page);
        let text = page.to_string();
        self.first_page = Bytes::copy_from_slice(&text.as_bytes()[1..text.len() - 1]);
    }

    fn is_of(&self, snapshot: &Arc<Snapshot>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(snapshot))
    }
}

impl Server {
    /// Returns one page of the tools that the client can call.
    pub(super) async fn list(&self, access: &Access, cursor: Option<String>) -> Result<ListToolsResult, ErrorData> {
        let after = cursor.as_deref().map(name_of).transpose()?;
        let list = self.listed(access).await?;
        Ok(list.page(after.as_deref()))
    }

    /// Returns the members of the first page of a client that is not restricted to some tools, as JSON without the outer
    /// braces and without `resultType`.
    pub(super) async fn first_page(&self, access: &Access) -> Result<Bytes, ErrorData> {
        let page = self.listed(access).await?.first_page.clone();
        let failed = || ErrorData::internal_error("the list of tools could not be rendered", None);
        (!page.is_empty()).then_some(page).ok_or_else(failed)
    }

    /// Returns the list of a client. The list of a client that is restricted to some tools is not cached.
    async fn listed(&self, access: &Access) -> Result<Arc<List>, ErrorData> {
        let (access, snapshot, lowering) = (access.clone(), access.snapshot().clone(), self.0.lowering);
        let is_restricted = access.allowed().is_some();
        let cached = self.0.tools.0.load_full().filter(|list| !is_restricted && list.is_of(&snapshot));
        if let Some(list) = cached {
            return Ok(list);
        }
        // Building a long list takes a while and would block other tasks.
        let built = tokio::task::spawn_blocking(move || {
            let mut list = List::new(&snapshot, lowering);
            if is_restricted {
                let view = access.view(&snapshot, None);
                list.tools.retain(|(name, _)| matches!(view.find(name), Lookup::Available(_)));
            } else {
                list.render();
            }
            Arc::new(list)
        });
        let list = built.await.map_err(|_| ErrorData::internal_error("the list of tools could not be built", None))?;
        if !is_restricted {
            self.0.tools.0.store(Some(list.clone()));
        }
        Ok(list)
    }

    /// Returns one tool; rmcp checks headers against its input schema.
    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        // The caller is not known here: only the operator's tools and shared tools are found.
        let snapshot = self.0.engine.registry().default_catalog().snapshot().clone();
        if let Some(list) = self.0.tools.0.load_full().filter(|list| list.is_of(&snapshot)) {
            let name = &snapshot.find(name)?.name;
            return list.indexes.get(name).map(|index| list.tools[*index].1.clone());
        }
        let schema = snapshot.find(name)?.definition().input_schema.as_object()?.clone();
        Some(Tool::new(name.to_owned(), "", Arc::new(schema)))
    }

    /// Returns how clients check the data of a result. A stored result may have been changed by a hook.
    pub(super) fn promise_of(access: &Access, call: &Call, is_stored: bool) -> Promise {
        let snapshot = access.snapshot();
        let view = access.view(&snapshot, None);
        let Lookup::Available(tool) = view.find(&call.name) else { return Promise::None };
        let Ok(entry) = tool.entry() else { return Promise::None };
        if !entry.definition.output_schema.as_ref().is_some_and(mcp::is_publishable) {
            return Promise::None;
        }
        let data = call.outcome.as_deref().and_then(|outcome| outcome.structured.as_deref()).filter(|_| is_stored);
        match (&entry.output, data) {
            (Some(schema), Some(data)) if !schema.violations(data).is_empty() => Promise::Broken,
            _ => Promise::Checked,
        }
    }

    /// Returns whether a tool is `async` and whether its calls require approval.
    pub(super) fn traits_of(access: &Access, name: &str) -> ToolTraits {
        let snapshot = access.snapshot();
        let view = access.view(&snapshot, None);
        let Lookup::Available(tool) = view.find(name) else { return ToolTraits::default() };
        // The call that follows needs the compiled tool, too.
        let Ok(entry) = tool.entry() else { return ToolTraits::default() };
        ToolTraits {
            is_asynchronous: entry.definition.asynchronous,
            requires_approval: entry.definition.requires_approval(),
        }
    }
}

/// The properties of a tool that decide how its calls are answered; see [`Server::traits_of`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolTraits {
    pub is_asynchronous: bool,
    pub requires_approval: bool,
}

fn name_of(cursor: &str) -> Result<String, ErrorData> {
    let name = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| ErrorData::invalid_params("the cursor is invalid: start without a cursor", None))
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
