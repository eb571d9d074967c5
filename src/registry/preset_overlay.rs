//! Tools with the presets that were written over the API: a tool of any source, as it is declared but for those.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::{EntryBuilder, Provenance};
use super::{Entry, Layer, check};
use crate::domain::{Preset, Time};
use crate::store::presets::StoredPreset;

/// The stored presets of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
struct StoredPresets {
    presets: BTreeMap<String, Preset>,
    /// Grows with every change of any of them.
    revision: i64,
    updated_at: Time,
}

/// One tool as it was dressed last.
#[derive(Debug)]
struct OverlaidEntry {
    declared: Arc<Entry>,
    stored: StoredPresets,
    entry: Arc<Entry>,
}

/// The stored presets, and the tools that have them.
#[derive(Debug, Default)]
pub(super) struct PresetOverlays {
    stored: BTreeMap<String, StoredPresets>,
    dressed: BTreeMap<String, OverlaidEntry>,
}

impl PresetOverlays {
    /// These presets, from now on.
    pub fn fill(&mut self, presets: Vec<StoredPreset>) {
        self.stored.clear();
        for StoredPreset { tool, name, preset, revision, updated_at } in presets {
            let stored = self.stored.entry(tool).or_default();
            stored.revision += revision;
            stored.updated_at = stored.updated_at.max(updated_at);
            stored.presets.extend(preset.map(|preset| (name, preset)));
        }
        self.dressed.retain(|tool, _| self.stored.contains_key(tool));
    }

    /// The presets that are stored for a tool.
    pub fn of(&self, tool: &str) -> Option<&BTreeMap<String, Preset>> {
        self.stored.get(tool).map(|stored| &stored.presets)
    }

    /// Puts the tools with their presets in the place of those without.
    pub fn apply(&mut self, shown: &mut Layer, workshop: &EntryBuilder) {
        for (tool, stored) in &self.stored {
            let Some(declared) = shown.get(tool) else { continue };
            let known = self.dressed.get(tool);
            let known = known.filter(|known| Arc::ptr_eq(&known.declared, declared) && known.stored == *stored);
            let entry = match known {
                Some(known) => known.entry.clone(),
                None => match compile_with_presets(declared, stored, workshop) {
                    Ok(entry) => Arc::new(entry),
                    Err(reason) => {
                        // Without its presets it would be another tool: it is as it was, or not there.
                        tracing::error!(tool, reason, "stored presets do not fit their tool any more");
                        match self.dressed.get(tool) {
                            Some(last) => drop(shown.insert(tool.clone(), last.entry.clone())),
                            None => drop(shown.remove(tool)),
                        }
                        continue;
                    }
                },
            };
            let declared = declared.clone();
            self.dressed.insert(tool.clone(), OverlaidEntry { declared, stored: stored.clone(), entry: entry.clone() });
            shown.insert(tool.clone(), entry);
        }
    }
}

fn compile_with_presets(declared: &Entry, stored: &StoredPresets, workshop: &EntryBuilder) -> Result<Entry, String> {
    let mut definition = declared.declared.clone();
    definition.presets.extend(stored.presets.clone());
    let Provenance { source, revision, created_at, updated_at } = declared.made;
    // Another value is another tool to whoever keeps its results.
    let made = Provenance {
        source,
        revision: revision + stored.revision,
        created_at,
        updated_at: updated_at.max(stored.updated_at),
    };
    let entry = workshop.make_with(definition, made, declared.fetched.clone());
    let entry = entry.map_err(|faults| check::summary(&faults))?;
    Ok(entry.withheld(declared.is_quarantined))
}
