//! Registering what was imported: whatever can be, in one change.

use std::sync::Arc;

use super::fetched::{self, FetchedDefinition};
use super::{Registry, check};
use crate::domain::{Source, Tenant, ToolDefinition};
use crate::executor::HttpClient;
use crate::import::{ImportPlan, ImportedTool, RejectedOperation, Report, Warning};
use crate::store::tools::{Precondition, ToolWrite};
use crate::store::{Store, StoreError};

/// Most tools in one change of the database, which has to be made within its bound of time.
const MOST_AT_ONCE: usize = 500;

/// How often what others changed meanwhile is looked at anew.
const MOST_TRIES: usize = 3;

/// How what was imported is registered.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportMode {
    /// Another registered tool of the same name is replaced.
    pub replace: bool,
    /// Nothing is registered.
    pub dry_run: bool,
}

/// What is to become of a tool.
enum Plan {
    Write(Precondition),
    Keep,
    Reject(String),
}

impl Registry {
    /// What documents are fetched with.
    #[must_use]
    pub fn http_client(&self) -> &HttpClient {
        self.workshop.client()
    }

    /// Leaves out what could not be registered; the reasons join those of the import. It takes long: not for async threads.
    #[must_use]
    pub fn check_imported(&self, tenant: &Tenant, mut imported: ImportPlan) -> ImportPlan {
        for ImportedTool { operation, definition } in std::mem::take(&mut imported.offered) {
            match self.try_fetched(tenant, definition.clone(), FetchedDefinition::default()) {
                Ok(_) => imported.offered.push(ImportedTool { operation, definition }),
                Err(faults) => imported.refused.push(RejectedOperation { operation, reason: check::summary(&faults) }),
            }
        }
        imported
    }

    fn plan(&self, tenant: &Tenant, definition: &ToolDefinition, how: ImportMode) -> Plan {
        match self.api_entry(tenant, &definition.name) {
            None => Plan::Write(Precondition::Absent),
            Some(entry) if entry.declared == *definition => Plan::Keep,
            Some(entry) if how.replace => Plan::Write(Precondition::Revision(entry.made.revision)),
            Some(_) => {
                let name = &definition.name;
                Plan::Reject(format!(
                    "there is another registered tool \"{name}\": take a prefix (`prefix`), or replace it (`replace`)"
                ))
            }
        }
    }

    /// A registered tool comes before one of the same name from elsewhere, which may not be what is meant.
    fn warn_shadowed(&self, tenant: &Tenant, report: &mut Report) {
        let Some(shelf) = self.shelf(tenant) else { return };
        let snapshot = shelf.snapshot();
        for name in &report.created {
            let hidden = snapshot.get(name).filter(|entry| entry.made.source != Source::Api);
            if hidden.is_some() {
                let message =
                    format!("\"{name}\" hides a tool of the same name that is built in or declared in a file");
                report.warnings.push(Warning { operation: None, message });
            }
        }
    }
}

/// Registers what was imported and checked.
///
/// # Errors
/// If the database fails. What was written before it is registered.
pub async fn register(
    registry: &Arc<Registry>,
    store: &Store,
    imported: ImportPlan,
    how: ImportMode,
) -> Result<Report, StoreError> {
    let ImportPlan { title, offered, refused, warnings } = imported;
    let mut report = Report { title, refused, warnings, ..Report::default() };
    registry.reload(store).await?;
    let mut told = Report::default();
    for chunk in offered.chunks(MOST_AT_ONCE) {
        let part = register_chunk(registry, store, chunk, how).await?;
        told.created.extend(part.created);
        told.replaced.extend(part.replaced);
        told.unchanged.extend(part.unchanged);
        told.refused.extend(part.refused);
        told.warnings.extend(part.warnings);
    }
    report.created = told.created;
    report.replaced = told.replaced;
    report.unchanged = told.unchanged;
    report.refused.extend(told.refused);
    report.warnings.extend(told.warnings);
    Ok(report)
}

async fn register_chunk(
    registry: &Arc<Registry>,
    store: &Store,
    offered: &[ImportedTool],
    how: ImportMode,
) -> Result<Report, StoreError> {
    for _ in 0..MOST_TRIES {
        let mut report = Report::default();
        let mut writes = Vec::new();
        for ImportedTool { operation, definition } in offered {
            let expected = match registry.plan(store.tenant(), definition, how) {
                Plan::Write(expected) => expected,
                Plan::Keep => {
                    report.unchanged.push(definition.name.clone());
                    continue;
                }
                Plan::Reject(reason) => {
                    report.refused.push(RejectedOperation { operation: operation.clone(), reason });
                    continue;
                }
            };
            let names = if expected == Precondition::Absent { &mut report.created } else { &mut report.replaced };
            names.push(definition.name.clone());
            let stored = fetched::to_store(definition, &FetchedDefinition::default());
            let definition_text = stored.map_err(|error| StoreError::Corrupt(error.to_string()))?;
            writes.push(ToolWrite { name: definition.name.clone(), definition: definition_text, expected });
        }
        registry.warn_shadowed(store.tenant(), &mut report);
        if how.dry_run || writes.is_empty() {
            return Ok(report);
        }
        let written = match store.put_tools(&writes, registry.clock.now()).await {
            Err(full @ StoreError::TooMany { .. }) => return Ok(without_room(offered, report, &full)),
            written => written?,
        };
        registry.reload(store).await?;
        if written {
            return Ok(report);
        }
    }
    let reason = "others are changing tools of these names; nothing of them was registered, try again";
    let refuse = |ImportedTool { operation, .. }: &ImportedTool| RejectedOperation {
        operation: operation.clone(),
        reason: reason.to_owned(),
    };
    Ok(Report { refused: offered.iter().map(refuse).collect(), ..Report::default() })
}

/// What becomes of tools that there is no room for: none of them is registered.
fn without_room(offered: &[ImportedTool], report: Report, full: &StoreError) -> Report {
    let reason = format!("{full}; nothing of these was registered");
    let is_new = |name: &String| report.created.contains(name) || report.replaced.contains(name);
    let left_out = offered.iter().filter(|offered| is_new(&offered.definition.name));
    let refuse = |ImportedTool { operation, .. }: &ImportedTool| RejectedOperation {
        operation: operation.clone(),
        reason: reason.clone(),
    };
    let refused = report.refused.into_iter().chain(left_out.map(refuse)).collect();
    Report { refused, created: Vec::new(), replaced: Vec::new(), ..report }
}
