//! The search index of a tenant, which follows its snapshots.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::ToolRecord;
use super::compiled::{CompiledMemory, Evict};
use super::name_map::NameMap;
use super::search::WordIndex;

/// A search index that the snapshots of a tenant share. A search first adds and removes the tools in which its snapshot
/// differs from the indexed one.
#[derive(Default)]
pub(super) struct ToolIndex {
    indexed: RwLock<IndexedTools>,
    memory: Option<Arc<CompiledMemory>>,
    was_used: AtomicBool,
}

#[derive(Default)]
struct IndexedTools {
    tools: NameMap<Arc<ToolRecord>>,
    words: WordIndex,
    /// The part of its size that counts for the memory of derived data, in bytes.
    counted: usize,
}

impl std::fmt::Debug for ToolIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ToolIndex")
    }
}

impl ToolIndex {
    /// Creates an empty index that counts for this memory.
    pub fn new(memory: Option<Arc<CompiledMemory>>) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Returns all of these tools that match a query, best first, each with its score.
    pub fn search(self: &Arc<Self>, tools: &NameMap<Arc<ToolRecord>>, query: &str) -> Vec<(Arc<ToolRecord>, f64)> {
        self.was_used.store(true, Relaxed);
        {
            let indexed = self.indexed.read().unwrap_or_else(PoisonError::into_inner);
            if indexed.tools.is_same(tools) {
                return indexed.search(query);
            }
        }
        let mut indexed = self.indexed.write().unwrap_or_else(PoisonError::into_inner);
        indexed.follow(tools);
        let found = indexed.search(query);
        let added = indexed.count();
        // The memory may drop this index, which needs the lock.
        drop(indexed);
        if let Some(memory) = self.memory.as_ref().filter(|_| added > 0) {
            let owner: Weak<Self> = Arc::downgrade(self);
            memory.add(owner, added);
        }
        found
    }

    /// Returns the number of indexed tools.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.indexed.read().unwrap().tools.len()
    }
}

impl IndexedTools {
    /// Indexes these tools instead.
    fn follow(&mut self, tools: &NameMap<Arc<ToolRecord>>) {
        for name in self.tools.names_that_differ(tools, Arc::ptr_eq) {
            match tools.get(&name) {
                Some(tool) => self.words.add(&name, &tool.definition()),
                None => self.words.remove(&name),
            }
        }
        self.tools = tools.clone();
    }

    fn search(&self, query: &str) -> Vec<(Arc<ToolRecord>, f64)> {
        let found = self.words.search(query).into_iter();
        found.filter_map(|(name, score)| Some((self.tools.get(name)?.clone(), score))).collect()
    }

    /// Returns by how many bytes the index has grown since it was counted, or 0 if that is little.
    fn count(&mut self) -> usize {
        let size = self.words.size();
        if size <= self.counted + self.counted / 4 {
            return 0;
        }
        size - std::mem::replace(&mut self.counted, size)
    }
}

impl Evict for ToolIndex {
    fn was_used(&self) -> bool {
        self.was_used.swap(false, Relaxed)
    }

    fn evict(&self) {
        *self.indexed.write().unwrap_or_else(PoisonError::into_inner) = IndexedTools::default();
    }
}
