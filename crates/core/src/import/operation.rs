//! Converts one operation to the definition of a tool.

use std::cell::Cell;

use serde_json::{Map, Value, json};
use url::Url;

use super::OperationError;
use super::arguments::{Request, placeholder};
use super::body::Body;
use super::credentials::{Credential, CredentialKind};
use super::parameters::{self, Parameter, ParameterLocation, literal};
use super::reference::{document_title, is_true, text};
use super::responses;
use super::schema::{Bundler, Direction};
use super::security::Security;
use super::servers;
use super::version::Version;
use crate::domain::{ToolDefinition, json, tool};
use crate::schema::{self, CorrectedSchema, Role};

/// Maximum length of a description for the model, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 4000;
/// Maximum length of a title, in characters.
const MAX_TITLE_LENGTH: usize = 200;
/// Maximum number of tags, and maximum length of a tag.
const MAX_TAGS: usize = 20;

/// The context that all operations of a document share.
pub struct ImportContext<'d> {
    /// The document.
    pub document: &'d Value,
    /// The members of the document.
    pub members: &'d Map<String, Value>,
    /// The OpenAPI version.
    pub version: Version,
    /// The server from the options.
    pub server: Option<String>,
    /// The URL of the document.
    pub from: Option<&'d Url>,
    /// The security requirements and credentials.
    pub security: Security<'d>,
    /// The bytes that are left for all definitions.
    pub budget: Cell<usize>,
}

/// An operation with its location in the document.
#[derive(Debug, Clone)]
pub struct OperationRef<'d> {
    /// The path, such as `/pets/{id}`.
    pub path: &'d str,
    /// The method in lower case, such as `get`.
    pub method: &'d str,
    /// The path item that contains the operation.
    pub item: &'d Map<String, Value>,
    /// The operation.
    pub operation: &'d Map<String, Value>,
    /// The tags of the operation.
    pub tags: Vec<String>,
    /// The name of the tool.
    pub tool: String,
}

/// Returns the definition of an operation's tool, and the deviations from the document.
///
/// # Errors
/// Returns an [`OperationError`] if the operation cannot become a tool.
pub fn definition<'d>(
    common: &'d ImportContext<'d>,
    at: &OperationRef<'d>,
) -> Result<(ToolDefinition, Vec<String>), OperationError> {
    let ImportContext { document, version, .. } = *common;
    let server = match &common.server {
        Some(server) => server.clone(),
        None => servers::of_operation(version, common.members, at.item, at.operation, common.from)?,
    };
    if at.method == "trace" {
        return Err(OperationError::Refused("an http tool cannot send TRACE".to_owned()));
    }
    let (credentials, lacking) = common.security.of_operation(at.operation)?;
    let declared = parameters::collect(document, at.item, at.operation)?;
    let body = match version {
        Version::V2 => Body::of_parameters(&declared, common.members, at.operation)?,
        Version::V30 | Version::V31 => Body::declared(document, at.operation)?,
    };
    let mut request = Request::new(Bundler::new(document, version, Direction::Request, &common.budget));
    request.warnings.extend(lacking);
    if body.is_some_and(|body| body.is_argument()) {
        request.reserve_body();
    }
    // A fragment tells operations of one URL apart; it is no part of the URL (RFC 3986, section 3.5).
    let template = at.path.split('#').next().unwrap_or_default();
    add_parameters(common, &declared, &credentials, template, &mut request)?;
    if let Some(body) = body {
        body.add(document, version, &mut request)?;
    } else if matches!(at.method, "post" | "put" | "patch") {
        request.body_type = Some("none");
    }
    let url = format!("{}{}", literal(&server), path(template, &mut request)?);
    let auth = authorise(&credentials, &mut request);

    let output = output_schema(common, at, &mut request.warnings);
    let executor = executor(&request, &url, at.method, auth);
    let presets: Map<String, Value> =
        request.secrets.iter().map(|(name, secret)| (name.clone(), json!({"secret": secret}))).collect();
    let mut warnings = std::mem::take(&mut request.warnings);
    let input =
        schema::correct(&request.input_schema()?, Role::Input).map_err(|error| format!("its arguments: {error}"))?;
    let input = with_notes(input, "arguments", &mut warnings);

    let mut definition = json!({
        "name": at.tool, "title": title(at.operation), "description": description(at),
        "category": document_title(common.members, 100), "version": document_version(common.members),
        "tags": at.tags.iter().take(MAX_TAGS).collect::<Vec<_>>(),
        "input_schema": input, "annotations": annotations(at.method), "executor": executor,
    });
    if !presets.is_empty() {
        definition["presets"] = Value::Object(presets);
    }
    if let Some(schema) = output {
        definition["output_schema"] = schema;
    }
    let definition = tool::read_definition(definition).map_err(|error| OperationError::Refused(error.to_string()))?;
    Ok((definition, warnings))
}

/// Returns the output schema. One that cannot be used is left out with a warning.
fn output_schema(common: &ImportContext<'_>, at: &OperationRef<'_>, warnings: &mut Vec<String>) -> Option<Value> {
    match responses::output_schema(common.document, common.version, at.operation, &common.budget) {
        Ok(output) => output.map(|output| with_notes(output, "results", warnings)),
        Err(reason) => {
            let reason = json::shorten(&reason, 300);
            warnings.push(format!("the tool has no output schema, because the document's cannot be used: {reason}"));
            None
        }
    }
}

/// Adds all parameters; skips optional parameters that cannot be sent.
fn add_parameters<'d>(
    common: &'d ImportContext<'d>,
    declared: &[Parameter<'d>],
    credentials: &[&Credential],
    path: &str,
    request: &mut Request<'d>,
) -> Result<(), String> {
    for parameter in declared.iter().filter(|parameter| parameter.location != ParameterLocation::Body) {
        let shown = json::shorten(parameter.name, 100);
        if parameter.location == ParameterLocation::Path && !path.contains(&format!("{{{}}}", parameter.name)) {
            request.warnings.push(format!("the parameter {shown} is skipped: it does not occur in the path"));
            continue;
        }
        match parameters::add(parameter, common.document, common.version, credentials, request) {
            Ok(()) => {}
            Err(reason) if parameter.is_required() => return Err(format!("its parameter {shown}: {reason}")),
            Err(reason) => request.warnings.push(format!("the parameter {shown} is skipped: {reason}")),
        }
    }
    Ok(())
}

/// Returns the path as a template. A placeholder without a declared parameter becomes a string argument.
fn path(path: &str, request: &mut Request<'_>) -> Result<String, String> {
    let (mut template, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("its path has a `{` without a `}`")?;
        if name.is_empty() || name.starts_with(['+', '#', '.', '/', ';', '?', '&']) || name.ends_with('*') {
            return Err(format!("its path has {{{}}}, which is not an OpenAPI parameter", json::shorten(name, 100)));
        }
        if !request.path.contains_key(name) {
            let argument = request.add(name, "path", json!({"type": "string"}), None, true);
            request.path.insert(name.to_owned(), format!("{{{argument}}}"));
            let message =
                format!("no parameter describes {{{}}} in the path: a string is assumed", json::shorten(name, 100));
            request.warnings.push(message);
        }
        template.push_str(&literal(before));
        template.push_str(request.path.get(name).map_or("", String::as_str));
        rest = behind;
    }
    template.push_str(&literal(rest));
    Ok(template)
}

/// Adds the credentials: headers, query parameters and cookies become presets; the others are returned for the
/// executor.
fn authorise(credentials: &[&Credential], request: &mut Request<'_>) -> Option<Value> {
    let mut auth = None;
    for Credential { kind, name, secret } in credentials.iter().copied() {
        let argument = match kind {
            CredentialKind::Bearer => {
                auth = Some(json!({"type": "bearer", "token": {"secret": secret}}));
                continue;
            }
            CredentialKind::Basic => {
                auth = Some(json!({"type": "basic", "username": name, "password": {"secret": secret}}));
                continue;
            }
            _ => request.add_secret(name, secret),
        };
        let templates = match kind {
            CredentialKind::Query => &mut request.query,
            CredentialKind::Cookie => &mut request.cookies,
            _ => &mut request.headers,
        };
        templates.insert(name.clone(), placeholder(&argument));
    }
    auth
}

fn executor(request: &Request<'_>, url: &str, method: &str, auth: Option<Value>) -> Value {
    let mut executor = json!({"type": "http", "url": url, "method": method.to_ascii_uppercase()});
    for (name, members) in [("query", &request.query), ("headers", &request.headers), ("cookies", &request.cookies)] {
        if !members.is_empty() {
            executor[name] = Value::Object(members.clone());
        }
    }
    let others = [("body", request.body.clone()), ("body_type", request.body_type.map(Into::into)), ("auth", auth)];
    for (name, value) in others {
        if let Some(value) = value {
            executor[name] = value;
        }
    }
    if !request.styles.is_empty() {
        executor["styles"] = json!(request.styles);
    }
    executor
}

/// Returns a schema, and adds what was corrected in it to the warnings.
fn with_notes(corrected: CorrectedSchema, what: &str, warnings: &mut Vec<String>) -> Value {
    warnings.extend(corrected.notes.into_iter().map(|note| format!("the schema of its {what} was corrected: {note}")));
    corrected.schema
}

/// Converts the properties of methods (RFC 9110, section 9.2) to MCP annotations.
fn annotations(method: &str) -> Value {
    let read_only = matches!(method, "get" | "head" | "options");
    let idempotent = read_only || matches!(method, "put" | "delete");
    json!({"read_only": read_only, "destructive": method == "delete", "idempotent": idempotent, "open_world": true})
}

fn title(operation: &Map<String, Value>) -> Option<String> {
    text(operation, "summary")
        .map(|summary| json::shorten(summary.lines().next().unwrap_or_default(), MAX_TITLE_LENGTH - 1))
}

/// Returns the description for the model; method and path if the document has none.
fn description(at: &OperationRef<'_>) -> String {
    let operation = at.operation;
    let (summary, description) = (text(operation, "summary"), text(operation, "description"));
    let mut parts: Vec<&str> = Vec::new();
    match (summary, description) {
        (Some(summary), Some(description)) if description.starts_with(summary.trim_end_matches('.')) => {
            parts.push(description)
        }
        (summary, description) => parts.extend(summary.into_iter().chain(description)),
    }
    let mut description = match parts.is_empty() {
        true => format!("{} {}", at.method.to_ascii_uppercase(), json::shorten(at.path, 200)),
        false => json::shorten(&parts.join("\n\n"), MAX_DESCRIPTION_LENGTH),
    };
    if is_true(operation, "deprecated") {
        description.push_str("\n\nDeprecated.");
    }
    description
}

fn document_version(document: &Map<String, Value>) -> Option<String> {
    match document.get("info").and_then(|info| info.get("version"))? {
        Value::String(version) => Some(json::shorten(version, 100)),
        Value::Number(version) => Some(version.to_string()),
        _ => None,
    }
}
