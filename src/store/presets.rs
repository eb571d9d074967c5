//! Presets stored through the API. Their changes count in the version of the tools, so all nodes notice them.

use super::db;
use super::tools::{Statement, change_all};
use super::{Store, StoreError};
use crate::domain::Time;
use crate::domain::preset::{Preset, PresetSource, Sealed};

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
type Row = (String, String, i16, Option<String>, Option<String>, Option<Vec<u8>>, i64, i64);

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
        let rows: Vec<Row> = db::on_reader!(&self.db, pool =>
            sqlx::query_as(SQL).bind(self.tenant.as_str().to_owned()).fetch_all(pool).await)?;
        let presets = rows.into_iter().map(|(tool, name, overridable, secret, key_id, sealed, revision, updated)| {
            let origin = match (secret, key_id, sealed) {
                (Some(secret), _, _) => Some(PresetSource::Secret(secret)),
                (None, Some(key_id), Some(bytes)) => Some(PresetSource::Stored(Some(Sealed { key_id, bytes }))),
                _ => None,
            };
            let preset = origin.map(|origin| Preset { origin, overridable: overridable != 0 });
            StoredPreset { tool, name, preset, revision, updated_at: Time(updated) }
        });
        Ok(presets.collect())
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
        db::on_writer!(&self.db, pool => {
            let statements = presets.iter().map(|(name, preset)| {
                let (secret, sealed) = match preset.as_ref().map(|preset| &preset.origin) {
                    Some(PresetSource::Secret(secret)) => (Some(secret.clone()), None),
                    Some(PresetSource::Stored(sealed)) => (None, sealed.clone()),
                    // Plain values are never stored.
                    Some(PresetSource::Value(_)) | None => (None, None),
                };
                let (key_id, bytes) = sealed.map(|sealed| (sealed.key_id, sealed.bytes)).unzip();
                sqlx::query(PUT)
                    .bind(self.tenant.as_str().to_owned())
                    .bind(tool.to_owned())
                    .bind(name.clone())
                    .bind(i16::from(preset.as_ref().is_some_and(|preset| preset.overridable)))
                    .bind(secret)
                    .bind(key_id)
                    .bind(bytes)
                    .bind(now.0)
            });
            change_all(pool, &self.tenant, statements.map(Statement::Required).collect()).await.map(|_| ())
        })
    }
}
