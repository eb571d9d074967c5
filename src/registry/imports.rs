//! Registration of imported tools: all valid tools, in as few transactions as possible.

use std::sync::Arc;

use super::fetched::{self, FetchedDefinition};
use super::{Registry, check};
use crate::domain::{Source, Tenant, ToolDefinition};
use crate::executor::HttpClient;
use crate::import::{ImportPlan, ImportedTool, RejectedOperation, Report, Warning};
use crate::store::tools::{Precondition, ToolWrite};
use crate::store::{Store, StoreError};

/// Maximum number of tools in one transaction, so that it stays within its timeout.
const MOST_AT_ONCE: usize = 500;

/// Maximum number of attempts if the tools change concurrently.
const MOST_TRIES: usize = 3;

/// Options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportMode {
    /// Replace a registered tool of the same name.
    pub replace: bool,
    /// Register nothing.
    pub dry_run: bool,
}

/// The action for one imported tool.
enum Plan {
    Write(Precondition),
    Keep,
    Reject(String),
}

impl Registry {
    /// Returns the HTTP client that fetches documents.
    #[must_use]
    pub fn http_client(&self) -> &HttpClient {
        self.builder.client()
    }

    /// Moves tools that cannot be registered to the rejected operations. Compiles all definitions, so it blocks the
    /// thread.
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
                    "another registered tool has the name \"{name}\": set a prefix (`prefix`), or replace the tool \
                        (`replace`)"
                ))
            }
        }
    }

    /// Warns about registered tools that shadow a tool of another source, which may be unintended.
    fn warn_shadowed(&self, tenant: &Tenant, report: &mut Report) {
        let Some(catalog) = self.shelf(tenant) else { return };
        let snapshot = catalog.snapshot();
        for name in &report.created {
            let hidden = snapshot.get(name).filter(|entry| entry.made.source != Source::Api);
            if hidden.is_some() {
                let message =
                    format!("\"{name}\" shadows a tool of the same name that is built in or declared in a file");
                report.warnings.push(Warning { operation: None, message });
            }
        }
    }
}

/// Registers the checked tools of an import.
///
/// # Errors
/// Returns an error if the database fails. Tools of earlier transactions stay registered.
pub async fn register(
    registry: &Arc<Registry>,
    store: &Store,
    imported: ImportPlan,
    how: ImportMode,
) -> Result<Report, StoreError> {
    let ImportPlan { title, offered, refused, warnings } = imported;
    let mut report = Report { title, refused, warnings, ..Report::default() };
    registry.reload(store).await?;
    let mut merged = Report::default();
    for chunk in offered.chunks(MOST_AT_ONCE) {
        let part = register_chunk(registry, store, chunk, how).await?;
        merged.created.extend(part.created);
        merged.replaced.extend(part.replaced);
        merged.unchanged.extend(part.unchanged);
        merged.refused.extend(part.refused);
        merged.warnings.extend(part.warnings);
    }
    report.created = merged.created;
    report.replaced = merged.replaced;
    report.unchanged = merged.unchanged;
    report.refused.extend(merged.refused);
    report.warnings.extend(merged.warnings);
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
    let reason = "tools of these names are being changed by other requests; none of them was registered, try again";
    let refuse = |ImportedTool { operation, .. }: &ImportedTool| RejectedOperation {
        operation: operation.clone(),
        reason: reason.to_owned(),
    };
    Ok(Report { refused: offered.iter().map(refuse).collect(), ..Report::default() })
}

/// Returns the report of a chunk that exceeds a quota: none of its tools is registered.
fn without_room(offered: &[ImportedTool], report: Report, full: &StoreError) -> Report {
    let reason = format!("{full}; none of these tools was registered");
    let is_new = |name: &String| report.created.contains(name) || report.replaced.contains(name);
    let left_out = offered.iter().filter(|offered| is_new(&offered.definition.name));
    let refuse = |ImportedTool { operation, .. }: &ImportedTool| RejectedOperation {
        operation: operation.clone(),
        reason: reason.clone(),
    };
    let refused = report.refused.into_iter().chain(left_out.map(refuse)).collect();
    Report { refused, created: Vec::new(), replaced: Vec::new(), ..report }
}
