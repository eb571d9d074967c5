//! Presets stored through the API. Their changes count in the version of the tools, so all nodes notice them.

use super::{Store, StoreError};
use toolpost_core::domain::Time;
use toolpost_core::domain::preset::{Preset, PresetSource, SealedValue};

/// A stored preset.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPreset {
    /// The tool.
    pub tool: String,
    /// The name of the argument.
    pub name: String,
    /// The preset; `None` if it was removed.
    pub preset: Option<Preset>,
    /// A number that increases with every change.
    pub revision: i64,
    /// The time of the last change.
    pub updated_at: Time,
}

/// A row as it is read.
type Row = (String, String, i16, Option<String>, Option<String>, Option<Vec<u8>>, i64, Time);

const PUT: &str = "INSERT INTO tool_presets AS p (tenant, tool, name, overridable, secret, key_id, sealed, updated_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, tool, name) DO UPDATE SET \
    overridable = excluded.overridable, secret = excluded.secret, key_id = excluded.key_id, sealed = excluded.sealed, \
    revision = p.revision + 1, updated_at = excluded.updated_at";

impl Store {
    /// Returns all stored presets, including removed ones, because their revisions still count.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn presets(&self) -> Result<Vec<StoredPreset>, StoreError> {
        const SQL: &str = "SELECT tool, name, overridable, secret, key_id, sealed, revision, updated_at \
            FROM tool_presets WHERE tenant = $1 ORDER BY tool, name";
        let preset = |(tool, name, overridable, secret, key_id, sealed, revision, updated_at): Row| {
            let origin = match (secret, key_id, sealed) {
                (Some(secret), _, _) => Some(PresetSource::Secret(secret)),
                (None, Some(key_id), Some(bytes)) => Some(PresetSource::Stored(Some(SealedValue { key_id, bytes }))),
                _ => None,
            };
            let preset = origin.map(|origin| Preset { origin, overridable: overridable != 0 });
            StoredPreset { tool, name, preset, revision, updated_at }
        };
        Ok(self.read(SQL).all().await?.into_iter().map(preset).collect())
    }

    /// Writes presets of one tool, or none of them; `None` removes a preset. Values must be sealed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn put_presets(
        &self,
        tool: &str,
        presets: &[(String, Option<Preset>)],
        now: Time,
    ) -> Result<(), StoreError> {
        let written = self.change_tools(async |transaction| {
            for (name, preset) in presets {
                let (secret, sealed) = match preset.as_ref().map(|preset| &preset.origin) {
                    Some(PresetSource::Secret(secret)) => (Some(secret), None),
                    Some(PresetSource::Stored(sealed)) => (None, sealed.as_ref()),
                    // Plain values are never stored.
                    Some(PresetSource::Value(_)) | None => (None, None),
                };
                let overridable = i16::from(preset.as_ref().is_some_and(|preset| preset.overridable));
                let (key_id, bytes) = sealed.map(|sealed| (&sealed.key_id, &sealed.bytes)).unzip();
                let query = transaction.query(PUT).bind(&self.tenant).bind(tool).bind(name).bind(overridable);
                query.bind(secret).bind(key_id).bind(bytes).bind(now).execute().await?;
            }
            Ok(true)
        });
        written.await.map(drop)
    }
}
