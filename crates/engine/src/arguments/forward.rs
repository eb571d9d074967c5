//! Forwarding of `call_tool`: a call of it becomes a call of the tool that its arguments name, on the same path.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Entry, Lookup, View};
use toolpost_core::domain::call::CALLED_AS;
use toolpost_core::domain::{CallRequest, Failure};
use toolpost_tool::executor::ToolRole;

/// The tool of a request.
pub(crate) struct ResolvedTool {
    /// The tool, if the caller can see it.
    pub entry: Option<Arc<Entry>>,
    /// The name of the forwarding tool, if the request was forwarded.
    pub forwarded_from: Option<Arc<str>>,
    /// The failure that the call ends with, although the tool exists.
    pub refused: Option<Box<Failure>>,
}

/// Resolves the tool of a request. A forwarded request gets the name and the arguments of its target.
pub(crate) fn resolve_tool(view: View<'_>, request: &mut CallRequest, is_unknown: bool) -> ResolvedTool {
    let entry = match view.find(&request.name) {
        Lookup::Available(tool) => match tool.entry() {
            Ok(entry) => entry,
            Err(failure) => return ResolvedTool::failed(failure),
        },
        found => return ResolvedTool::unavailable(found),
    };
    // Truncated arguments may name a wrong tool, and streamed ones have not arrived yet.
    if is_unknown || entry.role != Some(ToolRole::Forward) {
        return ResolvedTool { entry: Some(entry), forwarded_from: None, refused: None };
    }
    match inner(&entry, request) {
        Ok((name, arguments)) => {
            // Targets always have Toolpost's own names, regardless of the vendor.
            let found = view.find(&name);
            (request.name, request.arguments) = (name, arguments);
            let resolved = match found {
                Lookup::Available(inner) if inner.role.is_none() => match inner.entry() {
                    Ok(inner) => ResolvedTool { entry: Some(inner), forwarded_from: None, refused: None },
                    Err(failure) => ResolvedTool::failed(failure),
                },
                Lookup::Unavailable(inner) if inner.role.is_none() => ResolvedTool::unavailable(found),
                _ => ResolvedTool::unavailable(Lookup::Missing),
            };
            ResolvedTool { forwarded_from: Some(entry.name.clone()), ..resolved }
        }
        Err(failure) => ResolvedTool { entry: Some(entry), forwarded_from: None, refused: Some(failure) },
    }
}

impl ResolvedTool {
    /// Describes a tool that is unavailable or missing.
    fn unavailable(found: Lookup<'_>) -> Self {
        let (Lookup::Available(tool) | Lookup::Unavailable(tool)) = found else {
            return Self { entry: None, forwarded_from: None, refused: None };
        };
        match tool.entry() {
            Ok(entry) => {
                let refused = Failure::unavailable(&entry.name).into();
                Self { entry: Some(entry), forwarded_from: None, refused: Some(refused) }
            }
            Err(failure) => Self::failed(failure),
        }
    }

    /// Describes a tool that cannot be compiled.
    fn failed(failure: Box<Failure>) -> Self {
        Self { entry: None, forwarded_from: None, refused: Some(failure) }
    }

    /// Returns metadata with the names under which the tool was called, if they differ from its own.
    pub fn names(&self, name: &str) -> impl Iterator<Item = (String, Value)> + use<> {
        let is_alias = self.entry.as_ref().is_some_and(|entry| *entry.name != *name);
        let called_as = is_alias.then(|| (CALLED_AS.to_owned(), name.into()));
        let through = self.forwarded_from.as_deref().map(|name| ("called_through".to_owned(), name.into()));
        called_as.into_iter().chain(through)
    }
}

/// Extracts the name and the arguments of the target.
fn inner(entry: &Entry, request: &CallRequest) -> Result<(String, Option<Value>), Box<Failure>> {
    let given = Arc::new(request.arguments.clone().unwrap_or_default());
    let outer = super::parsed(entry, &given, |_| true)?;
    if let Some(call) = plain(&outer) {
        return Ok(call);
    }
    let checked = super::checked(entry, &outer, request.vendor)?;
    let name = checked.arguments["name"].as_str().unwrap_or_default().to_owned();
    Ok((name, checked.arguments.get("arguments").cloned()))
}

/// Extracts the target from well-formed arguments without a schema check. The inner arguments may be JSON text; their
/// errors are reported for the target.
fn plain(outer: &Value) -> Option<(String, Option<Value>)> {
    let members = outer.as_object()?;
    let (name, arguments) = (members.get("name")?.as_str()?, members.get("arguments"));
    let is_taken = matches!(arguments, None | Some(Value::Null | Value::Object(_) | Value::String(_)));
    let is_all = members.len() == 1 + usize::from(arguments.is_some());
    (is_taken && is_all).then(|| (name.to_owned(), arguments.cloned()))
}
