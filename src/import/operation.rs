//! One operation as the definition of a tool.

use std::cell::Cell;

use serde_json::{Map, Value, json};
use url::Url;

use super::arguments::{Request, placeholder};
use super::body::Body;
use super::credentials::Credential;
use super::parameters::{self, Parameter, Place, literal};
use super::reference::{is_true, text};
use super::responses;
use super::schema::{Bundler, Direction};
use super::security::Security;
use super::servers::{self, ServerUrlError};
use super::version::Version;
use crate::domain::{ToolDefinition, json, tool};
use crate::schema::{self, Role};

/// Longest description for a model, in characters.
const LONGEST_DESCRIPTION: usize = 4000;
/// Longest title, in characters.
const LONGEST_TITLE: usize = 200;
/// Most tags, and the longest.
const MOST_TAGS: usize = 20;
/// Most patterns that are taken out of one schema.
const MOST_PATTERNS: usize = 20;

/// What all operations of a document have in common.
pub struct ImportContext<'d> {
    /// The document.
    pub document: &'d Value,
    /// Its members.
    pub members: &'d Map<String, Value>,
    /// Its version.
    pub version: Version,
    /// The server of the options.
    pub server: Option<String>,
    /// Where the document is from.
    pub from: Option<&'d Url>,
    /// What is authorised with what.
    pub security: Security<'d>,
    /// What all definitions may still cost.
    pub budget: Cell<usize>,
}

/// An operation where it stands.
#[derive(Debug, Clone)]
pub struct OperationRef<'d> {
    /// `/pets/{id}`.
    pub path: &'d str,
    /// `get`.
    pub method: &'d str,
    /// What stands around it.
    pub item: &'d Map<String, Value>,
    /// The operation.
    pub operation: &'d Map<String, Value>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The name of its tool.
    pub tool: String,
}

/// Why an operation is no tool.
#[derive(Debug)]
pub enum OperationError {
    /// Nothing of the document can be one: it names no server.
    NoServer(String),
    /// This one cannot.
    Refused(String),
}

impl From<String> for OperationError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// The definition of an operation's tool, and what is not as the document has it.
///
/// # Errors
/// Why there is none.
pub fn definition<'d>(
    common: &'d ImportContext<'d>,
    at: &OperationRef<'d>,
) -> Result<(ToolDefinition, Vec<String>), OperationError> {
    let ImportContext { document, version, .. } = *common;
    let server = match &common.server {
        Some(server) => server.clone(),
        None => {
            servers::of_operation(version, common.members, at.item, at.operation, common.from).map_err(|fault| {
                match fault {
                    ServerUrlError::Unnamed(message) => OperationError::NoServer(message),
                    ServerUrlError::Unusable(reason) => OperationError::Refused(reason),
                }
            })?
        }
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
    add_parameters(common, &declared, &credentials, at.path, &mut request)?;
    if let Some(body) = body {
        body.add(document, version, &mut request)?;
    } else if matches!(at.method, "post" | "put" | "patch") {
        request.body_type = Some("none");
    }
    let url = format!("{}{}", literal(&server), path(at.path, &mut request)?);
    let auth = authorise(&credentials, &mut request);

    let output = match responses::output_schema(document, version, at.operation, &common.budget) {
        Ok(schema) => schema,
        Err(reason) => {
            let reason = json::shorten(&reason, 300);
            request.warnings.push(format!("the tool has no output schema; of the document's, {reason}"));
            None
        }
    };
    let executor = executor(&request, &url, at.method, auth);
    let presets: Map<String, Value> =
        request.secrets.iter().map(|(name, secret)| (name.clone(), json!({"secret": secret}))).collect();
    let mut warnings = std::mem::take(&mut request.warnings);
    let input = request.input_schema()?;
    let input = checked(input, &mut warnings)?;

    let mut definition = json!({
        "name": at.tool, "title": title(at.operation), "description": description(at),
        "category": category(common.members), "version": document_version(common.members),
        "tags": at.tags.iter().take(MOST_TAGS).collect::<Vec<_>>(),
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

/// All parameters. One that cannot be sent and need not be is left out.
fn add_parameters<'d>(
    common: &'d ImportContext<'d>,
    declared: &[Parameter<'d>],
    credentials: &[&Credential],
    path: &str,
    request: &mut Request<'d>,
) -> Result<(), String> {
    for parameter in declared.iter().filter(|parameter| parameter.place != Place::Body) {
        let shown = json::shorten(parameter.name, 100);
        if parameter.place == Place::Path && !path.contains(&format!("{{{}}}", parameter.name)) {
            request.warnings.push(format!("the parameter {shown} is left out: the path has no place for it"));
            continue;
        }
        match parameters::add(parameter, common.document, common.version, credentials, request) {
            Ok(()) => {}
            Err(reason) if parameter.is_required() => return Err(format!("its parameter {shown}: {reason}")),
            Err(reason) => request.warnings.push(format!("the parameter {shown} is left out: {reason}")),
        }
    }
    Ok(())
}

/// The path as a template. A place that no parameter describes takes a string.
fn path(path: &str, request: &mut Request<'_>) -> Result<String, String> {
    let (mut template, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("its path has a `{` without a `}`")?;
        if name.is_empty() || name.starts_with(['+', '#', '.', '/', ';', '?', '&']) || name.ends_with('*') {
            return Err(format!("its path has {{{}}}, which is no parameter of OpenAPI", json::shorten(name, 100)));
        }
        if !request.path.contains_key(name) {
            let argument = request.add(name, "path", json!({"type": "string"}), None, true);
            request.path.insert(name.to_owned(), format!("{{{argument}}}"));
            let message =
                format!("no parameter describes {{{}}} of the path: it is a string", json::shorten(name, 100));
            request.warnings.push(message);
        }
        template.push_str(&literal(before));
        template.push_str(request.path.get(name).map_or("", String::as_str));
        rest = behind;
    }
    template.push_str(&literal(rest));
    Ok(template)
}

/// Credentials that are a header, a query parameter or a cookie are presets; the others are the executor's.
fn authorise(credentials: &[&Credential], request: &mut Request<'_>) -> Option<Value> {
    let mut auth = None;
    for credential in credentials {
        match credential {
            Credential::Bearer { secret } => auth = Some(json!({"type": "bearer", "token": {"secret": secret}})),
            Credential::Basic { username, secret } => {
                auth = Some(json!({"type": "basic", "username": username, "password": {"secret": secret}}));
            }
            Credential::Header { name, secret } => {
                let argument = request.add_secret(name, secret);
                request.headers.insert(name.clone(), placeholder(&argument));
            }
            Credential::Query { name, secret } => {
                let argument = request.add_secret(name, secret);
                request.query.insert(name.clone(), placeholder(&argument));
            }
            Credential::Cookie { name, secret } => {
                let argument = request.add_secret(name, secret);
                request.cookies.insert(name.clone(), placeholder(&argument));
            }
        }
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

/// A schema that compiles. A pattern that cannot be checked in linear time is left to the server.
fn checked(mut input: Value, warnings: &mut Vec<String>) -> Result<Value, String> {
    for _ in 0..=MOST_PATTERNS {
        let Err(error) = schema::compile(&input, Role::Input) else { return Ok(input) };
        let Some(parent) = error.pointer.strip_suffix("/pattern") else {
            return Err(format!("its arguments: {error}"));
        };
        let removed =
            input.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|schema| schema.shift_remove("pattern"));
        if removed.is_none() {
            return Err(format!("its arguments: {error}"));
        }
        warnings.push(format!("a pattern is left to the server: {}", json::shorten(&error.to_string(), 300)));
    }
    Err(format!("its arguments have more than {MOST_PATTERNS} patterns that cannot be checked"))
}

/// The protocol's words about methods (RFC 9110, section 9.2) in those of MCP.
fn annotations(method: &str) -> Value {
    let read_only = matches!(method, "get" | "head" | "options");
    let idempotent = read_only || matches!(method, "put" | "delete");
    json!({"read_only": read_only, "destructive": method == "delete", "idempotent": idempotent, "open_world": true})
}

fn title(operation: &Map<String, Value>) -> Option<String> {
    text(operation, "summary")
        .map(|summary| json::shorten(summary.lines().next().unwrap_or_default(), LONGEST_TITLE - 1))
}

/// What a model is told. Where the document says nothing, the request itself has to do.
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
    let mut told = match parts.is_empty() {
        true => format!("{} {}", at.method.to_ascii_uppercase(), json::shorten(at.path, 200)),
        false => json::shorten(&parts.join("\n\n"), LONGEST_DESCRIPTION),
    };
    if is_true(operation, "deprecated") {
        told.push_str("\n\nDeprecated.");
    }
    told
}

fn category(document: &Map<String, Value>) -> Option<String> {
    let info = document.get("info").and_then(Value::as_object)?;
    text(info, "title").map(|title| json::shorten(title, 100))
}

fn document_version(document: &Map<String, Value>) -> Option<String> {
    match document.get("info").and_then(|info| info.get("version"))? {
        Value::String(version) => Some(json::shorten(version, 100)),
        Value::Number(version) => Some(version.to_string()),
        _ => None,
    }
}
