//! Rendered lists of tools, kept while they are in use.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::compiled::{CompiledMemory, Evict};
use super::entry::etag_of;
use crate::formats::definitions::Format;

/// A list as it is sent.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// JSON, or Markdown for [`Format::Prompt`].
    pub body: Bytes,
    /// The entity tag of the body.
    pub etag: String,
}

impl Rendered {
    /// Creates a list from its body.
    #[must_use]
    pub fn new(body: Bytes) -> Self {
        Self { etag: etag_of(&body), body }
    }
}

/// The rendered lists of one snapshot, by format and whether they contain losses.
#[derive(Debug, Default)]
pub(super) struct RenderedLists {
    lists: [[OnceLock<Arc<RenderedList>>; 2]; Format::COUNT],
    memory: Option<Arc<CompiledMemory>>,
}

#[derive(Debug, Default)]
struct RenderedList {
    list: ArcSwapOption<Rendered>,
    was_used: AtomicBool,
    /// Held while the list is rendered, so that it is rendered once.
    rendering: Mutex<()>,
}

impl RenderedLists {
    /// Creates no lists. Lists that are rendered count for this memory.
    pub fn new(memory: Option<Arc<CompiledMemory>>) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Creates the lists of the next snapshot.
    pub fn of_next(&self) -> Self {
        Self::new(self.memory.clone())
    }

    /// Returns a list if it is kept.
    pub fn get(&self, format: Format, losses: bool) -> Option<Arc<Rendered>> {
        let slot = self.lists[format as usize][usize::from(losses)].get()?;
        let list = slot.list.load_full()?;
        slot.was_used.store(true, Relaxed);
        Some(list)
    }

    /// Returns a list, and renders it if it is not kept.
    pub fn get_or_render(&self, format: Format, losses: bool, render: impl FnOnce() -> Rendered) -> Arc<Rendered> {
        let slot = self.lists[format as usize][usize::from(losses)].get_or_init(Arc::default);
        let _alone = slot.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = self.get(format, losses) {
            return list;
        }
        let list = Arc::new(render());
        slot.list.store(Some(list.clone()));
        slot.was_used.store(true, Relaxed);
        if let Some(memory) = &self.memory {
            let owner: Weak<RenderedList> = Arc::downgrade(slot);
            memory.add(owner, list.body.len());
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
