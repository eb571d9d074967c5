//! Rendered lists of tools, kept while they are in use. A list takes the texts of unchanged tools from the one before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::ToolRecord;
use super::compiled::{CompiledMemory, Evict};
use super::entry::etag_of;
use toolpost_core::formats::definitions::Format;

/// A list as it is sent.
#[derive(Debug, Clone)]
pub struct RenderedTools {
    /// JSON, or Markdown for [`Format::Prompt`].
    pub body: Bytes,
    /// The entity tag of the body.
    pub etag: String,
    /// The tools in the order of the body, each with the end of its text.
    tools: Vec<(Weak<ToolRecord>, usize)>,
    /// The text between two tools.
    separator: &'static str,
    /// The start of the first tool.
    start: usize,
}

impl RenderedTools {
    /// Creates a list from its body.
    #[must_use]
    pub fn new(body: Bytes) -> Self {
        Self { etag: etag_of(&body), body, tools: Vec::new(), separator: "", start: 0 }
    }

    /// Returns the text of each tool, by the address of its record. A removed record keeps its address.
    pub(super) fn texts(&self) -> HashMap<*const ToolRecord, &[u8]> {
        let mut start = self.start;
        let text = |(tool, end): &(Weak<ToolRecord>, usize)| {
            let text = &self.body[start..*end];
            start = end + self.separator.len();
            (tool.as_ptr(), text)
        };
        self.tools.iter().map(text).collect()
    }
}

/// Writes the tools of a list.
pub(super) struct ListWriter {
    body: Vec<u8>,
    tools: Vec<(Weak<ToolRecord>, usize)>,
    separator: &'static str,
    start: usize,
}

impl ListWriter {
    /// Begins a list with this text.
    pub fn new(opening: impl Into<Vec<u8>>, separator: &'static str) -> Self {
        let body = opening.into();
        Self { start: body.len(), body, tools: Vec::new(), separator }
    }

    /// Adds the text of a tool.
    pub fn add(&mut self, tool: &Arc<ToolRecord>, text: &[u8]) {
        if !self.tools.is_empty() {
            self.body.extend_from_slice(self.separator.as_bytes());
        }
        self.body.extend_from_slice(text);
        self.tools.push((Arc::downgrade(tool), self.body.len()));
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Ends the list with this text. Without `etag`, its entity tag is the hash of the body.
    pub fn end(mut self, closing: &[u8], etag: Option<String>) -> RenderedTools {
        self.body.extend_from_slice(closing);
        let (body, tools) = (Bytes::from(self.body.into_boxed_slice()), self.tools);
        let etag = etag.unwrap_or_else(|| etag_of(&body));
        RenderedTools { body, etag, tools, separator: self.separator, start: self.start }
    }
}

/// The rendered lists of one snapshot, by format and whether they contain losses.
#[derive(Debug, Default)]
pub(super) struct RenderedLists {
    lists: [[OnceLock<Arc<RenderedList>>; 2]; Format::COUNT],
    /// The last lists of earlier snapshots without losses, until the list of this snapshot is rendered.
    before: [ArcSwapOption<RenderedList>; Format::COUNT],
    memory: Option<Arc<CompiledMemory>>,
}

#[derive(Debug, Default)]
struct RenderedList {
    list: ArcSwapOption<RenderedTools>,
    was_used: AtomicBool,
    /// Held while the list is rendered, so that it is rendered once.
    rendering: Mutex<()>,
}

impl RenderedLists {
    /// Creates no lists. Lists that are rendered count for this memory.
    pub fn new(memory: Option<Arc<CompiledMemory>>) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Creates the lists of the next snapshot. They take texts of these lists if the tools kept their aliases.
    pub fn of_next(&self, has_same_aliases: bool) -> Self {
        let last = |format: usize| {
            let own = self.lists[format][0].get().cloned();
            own.or_else(|| self.before[format].load_full()).filter(|_| has_same_aliases)
        };
        Self { before: std::array::from_fn(|format| last(format).into()), ..Self::new(self.memory.clone()) }
    }

    /// Returns a list if it is kept.
    pub fn get(&self, format: Format, losses: bool) -> Option<Arc<RenderedTools>> {
        let slot = self.lists[format as usize][usize::from(losses)].get()?;
        let list = slot.list.load_full()?;
        slot.was_used.store(true, Relaxed);
        Some(list)
    }

    /// Returns a list, and renders it if it is not kept. `render` gets the last list of earlier snapshots.
    pub fn get_or_render(
        &self,
        format: Format,
        losses: bool,
        render: impl FnOnce(Option<&RenderedTools>) -> RenderedTools,
    ) -> Arc<RenderedTools> {
        let slot = self.lists[format as usize][usize::from(losses)].get_or_init(Arc::default);
        let _alone = slot.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = self.get(format, losses) {
            return list;
        }
        let before = if losses { None } else { self.before[format as usize].swap(None) };
        let list = Arc::new(render(before.and_then(|before| before.list.load_full()).as_deref()));
        slot.list.store(Some(list.clone()));
        slot.was_used.store(true, Relaxed);
        if let Some(memory) = &self.memory {
            let owner: Weak<RenderedList> = Arc::downgrade(slot);
            memory.add(owner, list.body.len() + list.tools.len() * size_of::<(Weak<ToolRecord>, usize)>());
        }
        list
    }
}

impl Evict for RenderedList {
    fn was_used(&self) -> bool {
        self.was_used.swap(false, Relaxed)
    }

    fn evict(&self) {
        self.list.store(None);
    }
}
