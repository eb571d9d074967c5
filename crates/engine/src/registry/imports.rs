//! Registration of imported tools: all valid tools, in as few transactions as possible.

use std::collections::HashSet;
use std::sync::Arc;

use super::declared::DeclaredDefinition;
use super::fetched::FetchedDefinition;
use super::{Registry, check, checked};
use toolpost_core::domain::{Source, Tenant};
use toolpost_core::import::{ImportPlan, ImportedTool, RejectedOperation, Report, Warning};
use toolpost_store::store::tools::Precondition;
use toolpost_store::store::{Store, StoreError};
use toolpost_tool::executor::HttpClient;

/// Maximum number of tools in one transaction, so that it stays within its timeout.
const MAX_CHUNK: usize = 500;

/// Maximum number of attempts if the tools change concurrently.
const MAX_TRIES: usize = 3;

/// Options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportMode {
    /// Replace a registered tool of the same name.
    pub replace: bool,
    /// Register nothing.
    pub dry_run: bool,
}

impl Registry {
    /// Returns the HTTP client that fetches documents.
    #[must_use]
    pub fn http_client(&self) -> &HttpClient {
        &self.builder.client
    }

    /// Moves tools that cannot be registered to the rejected operations. Checks all definitions, so it blocks the
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

    /// Warns about registered tools that shadow a tool of another source, which may be unintended.
    fn warn_shadowed(&self, tenant: &Tenant, report: &mut Report) {
        let Some(catalog) = self.catalog(tenant) else { return };
        let snapshot = catalog.snapshot();
        for name in &report.created {
            let hidden = snapshot.get(name).filter(|record| record.made.source != Source::Api);
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
    for chunk in offered.chunks(MAX_CHUNK) {
        let part = register_chunk(registry, store, chunk, how).await?;
        report.created.extend(part.created);
        report.replaced.extend(part.replaced);
        report.unchanged.extend(part.unchanged);
        report.refused.extend(part.refused);
        report.warnings.extend(part.warnings);
    }
    Ok(report)
}

async fn register_chunk(
    registry: &Arc<Registry>,
    store: &Store,
    offered: &[ImportedTool],
    how: ImportMode,
) -> Result<Report, StoreError> {
    for _ in 0..MAX_TRIES {
        let mut report = Report::default();
        let mut writes = Vec::new();
        for tool in offered {
            let (definition, name) = (&tool.definition, &tool.definition.name);
            let expected = match registry.registered(store.tenant(), name) {
                None => Precondition::Absent,
                Some(record)
                    if DeclaredDefinition::of(definition).is_ok_and(|declared| record.text().is(&declared)) =>
                {
                    report.unchanged.push(name.clone());
                    continue;
                }
                Some(record) if how.replace => Precondition::Revision(record.made.revision),
                Some(_) => {
                    let reason = format!(
                        "another registered tool has the name \"{name}\": set a prefix (`prefix`), or replace the \
                            tool (`replace`)"
                    );
                    report.refused.push(reject(tool, &reason));
                    continue;
                }
            };
            let names = if expected == Precondition::Absent { &mut report.created } else { &mut report.replaced };
            names.push(name.clone());
            let write = checked::write_of(definition, &FetchedDefinition::default(), expected);
            writes.push(write.map_err(|error| StoreError::Corrupt(error.to_string()))?);
        }
        registry.warn_shadowed(store.tenant(), &mut report);
        if how.dry_run || writes.is_empty() {
            return Ok(report);
        }
        let names: HashSet<String> = writes.iter().map(|write| write.name.clone()).collect();
        let written = match store.put_tools(writes, registry.clock.now()).await {
            Err(full @ StoreError::TooMany { .. }) => {
                let reason = format!("{full}; none of these tools was registered");
                let is_written = |tool: &&ImportedTool| names.contains(&tool.definition.name);
                report.refused.extend(offered.iter().filter(is_written).map(|tool| reject(tool, &reason)));
                return Ok(Report { created: Vec::new(), replaced: Vec::new(), ..report });
            }
            written => written?,
        };
        if let Some(commit) = written {
            registry.apply(store, commit).await?;
            return Ok(report);
        }
        registry.reload(store).await?;
    }
    let reason = "tools of these names are being changed by other requests; none of them was registered, try again";
    let refused = offered.iter().map(|tool| reject(tool, reason)).collect();
    Ok(Report { refused, ..Report::default() })
}

fn reject(tool: &ImportedTool, reason: &str) -> RejectedOperation {
    RejectedOperation { operation: tool.operation.clone(), reason: reason.to_owned() }
}
