//! Overlays presets stored through the API on declared tools of any source.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::builder::EntryBuilder;
use super::entry::Provenance;
use super::layer::ChangedNames;
use super::{ToolRecord, check};
use toolpost_core::domain::{Preset, Time};
use toolpost_store::store::presets::StoredPreset;

/// The stored presets of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
struct StoredPresets {
    presets: BTreeMap<String, Preset>,
    /// The sum of the revisions of the presets, which grows with every change.
    revision: i64,
    updated_at: Time,
}

/// A tool with its presets as it was checked last.
#[derive(Debug)]
struct OverlaidTool {
    declared: Arc<ToolRecord>,
    stored: StoredPresets,
    overlaid: Arc<ToolRecord>,
}

/// The stored presets of a tenant and the tools with them.
#[derive(Debug, Default)]
pub(super) struct PresetOverlays {
    stored: BTreeMap<String, StoredPresets>,
    compiled: BTreeMap<String, OverlaidTool>,
}

impl PresetOverlays {
    /// Replaces all stored presets, and adds the names of the tools that have or had any.
    pub fn fill(&mut self, presets: Vec<StoredPreset>, changed: &mut ChangedNames) {
        let before = std::mem::take(&mut self.stored);
        changed.extend(before.into_keys().map(Arc::from));
        for StoredPreset { tool, name, preset, revision, updated_at } in presets {
            let stored = self.stored.entry(tool).or_default();
            stored.revision += revision;
            stored.updated_at = stored.updated_at.max(updated_at);
            stored.presets.extend(preset.map(|preset| (name, preset)));
        }
        changed.extend(self.stored.keys().map(|tool| Arc::from(tool.as_str())));
        self.compiled.retain(|tool, _| self.stored.contains_key(tool));
    }

    /// Returns the stored presets of a tool.
    pub fn get(&self, tool: &str) -> Option<&BTreeMap<String, Preset>> {
        self.stored.get(tool).map(|stored| &stored.presets)
    }

    /// Returns a tool with its stored presets, or unchanged if it has none. Returns `None` if the presets do not match
    /// the tool: it must not run without them.
    pub fn overlaid(&mut self, declared: Arc<ToolRecord>, builder: &Arc<EntryBuilder>) -> Option<Arc<ToolRecord>> {
        let tool = &*declared.name;
        let Some(stored) = self.stored.get(tool) else { return Some(declared) };
        let is_current = |last: &OverlaidTool| Arc::ptr_eq(&last.declared, &declared) && last.stored == *stored;
        if !self.compiled.get(tool).is_some_and(is_current) {
            match with_presets(&declared, stored, builder) {
                Ok(overlaid) => {
                    let (declared, stored) = (declared.clone(), stored.clone());
                    let overlaid = OverlaidTool { declared, stored, overlaid: Arc::new(overlaid) };
                    self.compiled.insert(tool.to_owned(), overlaid);
                }
                Err(reason) => tracing::error!(tool, reason, "stored presets no longer match their tool"),
            }
        }
        // After an error the last valid overlay stays, or the tool is removed.
        self.compiled.get(tool).map(|last| last.overlaid.clone())
    }
}

fn with_presets(
    declared: &ToolRecord,
    stored: &StoredPresets,
    builder: &Arc<EntryBuilder>,
) -> Result<ToolRecord, String> {
    let mut definition = declared.declared()?;
    definition.presets.extend(stored.presets.clone());
    let made = Provenance {
        // The revision changes with every preset, because it is part of the key of cached results.
        revision: declared.made.revision + stored.revision,
        updated_at: declared.made.updated_at.max(stored.updated_at),
        ..declared.made
    };
    let facts =
        builder.check(&definition, made.source, declared.fetched()).map_err(|faults| check::summary(&faults))?;
    let text = declared.text().with_presets(stored.presets.clone());
    Ok(ToolRecord::new(builder, text, facts, made).with_quarantine(declared.is_quarantined))
}
