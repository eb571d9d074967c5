//! Visits all operations of a document.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::names::{self, Unique};
use super::operation::{self, ImportContext, OperationRef};
use super::reference::{self, document_title, text};
use super::security::Security;
use super::select::Selection;
use super::version::Version;
use super::{
    ImportError, ImportPlan, ImportedTool, MAX_BYTES, MAX_OPERATIONS, MAX_WARNINGS, OperationError, Options,
    RejectedOperation, Warning, servers,
};
use crate::domain::json;
use crate::schema;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Maximum length of the prefix of tool names.
const MAX_PREFIX_LENGTH: usize = 64;

/// Converts the operations of an OpenAPI document (2.0, 3.0 or 3.1) to tools. Operations that cannot become tools are
/// listed in the plan.
///
/// # Errors
/// Returns an [`ImportError`] if nothing can be imported: the document is invalid or names no server, or the options do
/// not match it.
pub fn openapi(document: &Value, options: &Options) -> Result<ImportPlan, ImportError> {
    let (version, _) = Version::detect(document)?;
    // Only 3.1 schemas have identities and anchors.
    let local = if version == Version::V31 { schema::localize_document(document) } else { None };
    let document = local.as_ref().unwrap_or(document);
    let (version, members) = Version::detect(document)?;
    let prefix = checked_prefix(options)?;
    let server = servers::from_options(options)?;
    let mut imported = ImportPlan { title: document_title(members, 200), ..ImportPlan::default() };
    let all = collect_operations(document, members, prefix, &mut imported.refused)?;
    let mut selection = Selection::new(&options.only);
    let chosen: Vec<&OperationRef<'_>> = all.iter().filter(|at| selection.selects(at)).collect();
    let words = all.iter().flat_map(|at| at.tags.iter().map(String::as_str).chain(text(at.operation, "operationId")));
    selection.check(words)?;
    if chosen.len() > MAX_OPERATIONS {
        let message =
            format!("{} operations are selected, the maximum is {MAX_OPERATIONS}: select fewer", chosen.len());
        return Err(ImportError::option("only", "", message));
    }
    let has_requirements = all.iter().any(|at| at.operation.contains_key("security"));
    let security = Security::new(document, version, members, has_requirements, &options.credentials)?;
    let (from, budget) = (options.document_url.as_ref(), Cell::new(MAX_BYTES));
    let common = ImportContext { document, members, version, server, from, security, budget };
    for at in chosen {
        let operation = shown(at.method, at.path);
        match operation::definition(&common, at) {
            Ok((definition, warnings)) => {
                let warning = |message| Warning { operation: Some(operation.clone()), message };
                imported.warnings.extend(warnings.into_iter().map(warning));
                imported.offered.push(ImportedTool { operation, definition });
            }
            Err(OperationError::NoServer(message)) => return Err(ImportError::option("server", "", message)),
            Err(OperationError::Refused(reason)) => {
                imported.refused.push(RejectedOperation { operation, reason: json::shorten(&reason, 1000) });
            }
        }
    }
    imported.warnings.extend(common.security.unused());
    let more = imported.warnings.len().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        imported.warnings.truncate(MAX_WARNINGS);
        imported.warnings.push(Warning { operation: None, message: format!("{more} more warnings are omitted") });
    }
    Ok(imported)
}

fn checked_prefix(options: &Options) -> Result<&str, ImportError> {
    let prefix = options.prefix.as_deref().unwrap_or_default();
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if prefix.len() <= MAX_PREFIX_LENGTH && prefix.bytes().all(is_good) {
        return Ok(prefix);
    }
    let message = format!("must have at most {MAX_PREFIX_LENGTH} characters of A-Z, a-z, 0-9, `_`, `.` and `-`");
    Err(ImportError::option("prefix", "", message))
}

/// Collects all operations. The name of a tool does not depend on the selection.
fn collect_operations<'d>(
    document: &'d Value,
    members: &'d Map<String, Value>,
    prefix: &str,
    refused: &mut Vec<RejectedOperation>,
) -> Result<Vec<OperationRef<'d>>, ImportError> {
    let paths = match members.get("paths") {
        Some(Value::Object(paths)) => paths,
        Some(other) => {
            return Err(ImportError::new("/paths", format!("must be an object, not {}", json::type_name(other))));
        }
        None => return Err(ImportError::new("", "the document has no `paths`: nothing can be imported")),
    };
    let (mut found, mut taken) = (Vec::new(), Unique::default());
    for (path, item) in paths.iter().filter(|(path, _)| !path.starts_with("x-")) {
        let mut refuse = |operation: String, reason: String| {
            // For a document full of errors, only the first ones are reported.
            if refused.len() < MAX_OPERATIONS {
                refused.push(RejectedOperation { operation, reason });
            }
        };
        if !path.starts_with('/') {
            refuse(json::shorten(path, 200), "a path must begin with a slash".to_owned());
            continue;
        }
        let item = match reference::object(document, item, "a path") {
            Ok(item) => item,
            Err(reason) => {
                refuse(json::shorten(path, 200), reason);
                continue;
            }
        };
        for (method, operation) in item.iter().filter(|(method, _)| METHODS.contains(&&***method)) {
            let Value::Object(operation) = operation else {
                let reason = format!("must be an object, not {}", json::type_name(operation));
                refuse(shown(method, path), reason);
                continue;
            };
            let name = names::of_operation(text(operation, "operationId"), method, path);
            let tool = taken.tool(&names::prefixed(prefix, &name));
            let tags = reference::elements(operation, "tags").unwrap_or_default().iter().filter_map(Value::as_str);
            let tags = tags.map(|tag| json::shorten(tag, 100)).collect();
            found.push(OperationRef { path, method, item, operation, tags, tool });
        }
    }
    Ok(found)
}

fn shown(method: &str, path: &str) -> String {
    format!("{} {}", method.to_ascii_uppercase(), json::shorten(path, 200))
}
