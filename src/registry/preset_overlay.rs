//! Overlays presets stored through the API on declared tools of any source.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::builder::EntryBuilder;
use super::entry::Provenance;
use super::{Entry, Layer, check};
use crate::domain::{Preset, Time};
use crate::store::presets::StoredPreset;

/// The stored presets of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
struct StoredPresets {
    presets: BTreeMap<String, Preset>,
    /// The sum of the revisions of the presets, which grows with every change.
    revision: i64,
    updated_at: Time,
}

/// A tool with its presets as it was compiled last.
#[derive(Debug)]
struct OverlaidEntry {
    declared: Arc<Entry>,
    stored: StoredPresets,
    entry: Arc<Entry>,
}

/// The stored presets of a tenant and the tools compiled with them.
#[derive(Debug, Default)]
pub(super) struct PresetOverlays {
    stored: BTreeMap<String, StoredPresets>,
    compiled: BTreeMap<String, OverlaidEntry>,
}

impl PresetOverlays {
    /// Replaces all stored presets.
    pub fn fill(&mut self, presets: Vec<StoredPreset>) {
        self.stored.clear();
        for StoredPreset { tool, name, preset, revision, updated_at } in presets {
            let stored = self.stored.entry(tool).or_default();
            stored.revision += revision;
            stored.updated_at = stored.updated_at.max(updated_at);
            stored.presets.extend(preset.map(|preset| (name, preset)));
        }
        self.compiled.retain(|tool, _| self.stored.contains_key(tool));
    }

    /// Returns the stored presets of a tool.
    pub fn of(&self, tool: &str) -> Option<&BTreeMap<String, Preset>> {
        self.stored.get(tool).map(|stored| &stored.presets)
    }

    /// Replaces the tools that have stored presets by their compiled overlays.
    pub fn apply(&mut self, tools: &mut Layer, builder: &EntryBuilder) {
        for (tool, stored) in &self.stored {
            let Some(declared) = tools.get(tool) else { continue };
            let is_current = |last: &OverlaidEntry| Arc::ptr_eq(&last.declared, declared) && last.stored == *stored;
            if !self.compiled.get(tool).is_some_and(is_current) {
                match compile_with_presets(declared, stored, builder) {
                    Ok(entry) => {
                        let (declared, stored) = (declared.clone(), stored.clone());
                        self.compiled.insert(tool.clone(), OverlaidEntry { declared, stored, entry: Arc::new(entry) });
                    }
                    Err(reason) => tracing::error!(tool, reason, "stored presets no longer match their tool"),
                }
            }
            // A tool must not run without its presets: after an error the last valid overlay stays, or the tool is
            // removed.
            match self.compiled.get(tool) {
                Some(compiled) => drop(tools.insert(tool.clone(), compiled.entry.clone())),
                None => drop(tools.remove(tool)),
            }
        }
    }
}

fn compile_with_presets(declared: &Entry, stored: &StoredPresets, builder: &EntryBuilder) -> Result<Entry, String> {
    let mut definition = declared.declared.clone();
    definition.presets.extend(stored.presets.clone());
    let made = Provenance {
        // The revision changes with every preset, because it is part of the key of cached results.
        revision: declared.made.revision + stored.revision,
        updated_at: declared.made.updated_at.max(stored.updated_at),
        ..declared.made
    };
    let entry = builder.make_with(definition, made, declared.fetched.clone());
    let entry = entry.map_err(|faults| check::summary(&faults))?;
    Ok(entry.with_quarantine(declared.is_quarantined))
}
