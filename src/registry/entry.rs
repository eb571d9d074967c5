//! Entries: compiled tools with definition, validators and policy stack.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Builtins;
use super::check::{self, Fault};
use super::fetched::FetchedDefinition;
use super::lowered::LoweredForms;
use super::presets;
use crate::domain::tool::{DefinitionError, UpstreamMetadata};
use crate::domain::{ExecutorSpec, NameSeparator, Paused, Session, Source, Tenant, Time, ToolDefinition};
use crate::executor::http::{HttpClient, HttpExecutor};
use crate::executor::mcp::{McpExecutor, Servers};
use crate::executor::process::{ProcessExecutor, Processes};
use crate::executor::{Available, Executor, ExternalExecutor, Instances, Pool, SystemTool, ToolRole};
use crate::policy::{self, Stack, StackLayer};
use crate::schema::lower::{Lowered, Target, Unlowerable};
use crate::schema::{self, Compiled, Role};
use crate::tool::{BuiltinTool, Validate};

/// The source, the revision and the times of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// The source of the definition.
    pub source: Source,
    /// Incremented by every change.
    pub revision: i64,
    /// The time of the first declaration.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

/// A compiled tool that can be called.
pub struct Entry {
    /// The definition as declared.
    pub declared: ToolDefinition,
    /// The definition with defaults filled in, the fetched document applied and hidden presets removed.
    pub definition: ToolDefinition,
    /// Source, revision and times.
    pub made: Provenance,
    /// The name, shared with calls.
    pub name: Arc<str>,
    /// The display name, shared with calls.
    pub title: Arc<str>,
    /// The validator of arguments.
    pub input: Compiled,
    /// The validator of results.
    pub output: Option<Compiled>,
    /// The tool's own check of arguments, which runs after schema validation.
    pub validate: Option<Validate>,
    /// The same check for a tool with presets: it runs after they are injected.
    pub validate_with_presets: Option<Validate>,
    /// The executor with its policy layers.
    pub stack: Stack,
    /// The pool of instances of a tool that a factory creates.
    pub instances: Option<Arc<dyn Pool>>,
    /// Decides which sessions have the tool; `None` means all.
    pub is_available: Option<Available>,
    /// The document that `definition_url` returned.
    pub fetched: FetchedDefinition,
    /// The role of a tool that operates on other tools or on its session.
    pub role: Option<ToolRole>,
    /// Whether calls are rejected because the upstream server changed the tool and the change is not accepted yet.
    pub is_quarantined: bool,
    lowered: LoweredForms,
    etag: OnceLock<String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entry").field("name", &self.name).field("made", &self.made).finish_non_exhaustive()
    }
}

/// A tool as returned by `GET /tools/{name}`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Tool)]
pub struct ToolView<'a> {
    #[serde(flatten)]
    definition: &'a ToolDefinition,
    /// Metadata from the upstream MCP server; only for tools of upstream servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a UpstreamMetadata>,
    /// The source of the definition.
    source: Source,
    /// Incremented by every change.
    revision: i64,
    /// Whether the tool can be called.
    active: bool,
    /// Why the tool is paused; `null` if it is not paused.
    #[schema(value_type = Option<Object>)]
    paused: Option<Paused>,
    /// Why the last response of `definition_url` is not in use; absent if there was no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_error: Option<&'a DefinitionError>,
    /// The time of the first declaration.
    created_at: Time,
    /// The time of the last change.
    updated_at: Time,
    /// Differences between the definition in the request and the stored one; absent if both are equal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

impl ToolView<'_> {
    /// Sets the differences between the request and the stored definition.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Sets whether the caller can call the tool.
    #[must_use]
    pub fn with_active(self, active: bool) -> Self {
        Self { active, ..self }
    }
}

impl Entry {
    /// Returns the public representation of the tool, marked as active.
    #[must_use]
    pub fn view(&self, paused: Option<Paused>) -> ToolView<'_> {
        ToolView {
            definition: &self.definition,
            upstream: self.definition.upstream.as_deref(),
            source: self.made.source,
            revision: self.made.revision,
            active: true,
            paused,
            definition_error: self.fetched.error.as_ref(),
            created_at: self.made.created_at,
            updated_at: self.made.updated_at,
            warnings: Vec::new(),
        }
    }

    /// Returns the tenant that registered the tool, which is the tenant of its callers; `None` for a tool of the server, which
    /// all tenants share.
    #[must_use]
    pub fn owner<'a>(&self, caller: &'a Tenant) -> Option<&'a Tenant> {
        (self.made.source == Source::Api).then_some(caller)
    }

    /// Returns `true` if the tool's own condition accepts this session. A condition that panics counts as `false`.
    #[must_use]
    pub fn is_available_to(&self, session: &Session) -> bool {
        let Some(is_available) = &self.is_available else { return true };
        catch_unwind(AssertUnwindSafe(|| is_available(session))).unwrap_or_else(|_| {
            tracing::error!(tool = %self.name, "the availability check of a tool panicked; the tool is unavailable");
            false
        })
    }

    /// Sets whether the tool is quarantined.
    #[must_use]
    pub(super) fn with_quarantine(self, is_quarantined: bool) -> Self {
        Self { is_quarantined, ..self }
    }

    /// Returns `true` if the tool is not quarantined and is in no group or in an active group.
    pub(super) fn is_switched_on(&self, is_active: impl Fn(&str) -> bool) -> bool {
        let groups = &self.definition.groups;
        !self.is_quarantined && (groups.is_empty() || groups.iter().any(|group| is_active(group)))
    }

    /// Returns the argument schema lowered for this target; it is computed once.
    ///
    /// # Errors
    /// Returns an error if the target cannot express the schema.
    pub fn lowered(&self, target: Target) -> Result<&Lowered, &Unlowerable> {
        self.lowered.of(&self.definition.input_schema, target)
    }

    /// Makes [`Self::lowered`] fail for this target.
    #[cfg(test)]
    pub(super) fn refuse_to_lower(&self, target: Target, error: Unlowerable) {
        self.lowered.refuse(target, error);
    }

    /// Returns `true` if the work is done outside this process: the call holds no slot and continues after a restart.
    #[must_use]
    pub fn works_outside(&self) -> bool {
        self.definition.is_external() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// Returns `true` if a call that may have run can run again.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        // The session of a task has the id of its call, so creating it twice creates one session.
        self.definition.is_repeatable() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// Returns a strong entity tag (RFC 9110, section 8.8.3), which is the same on every node and after a restart.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| self.tag(None))
    }

    /// Returns the entity tag of the current representation, which differs if the tool is paused or inactive.
    #[must_use]
    pub fn etag_now(&self, paused: Option<Paused>, active: bool) -> Cow<'_, str> {
        let tag: Cow<'_, str> = if paused.is_some() { self.tag(paused).into() } else { self.etag().into() };
        if active { tag } else { etag_of(format!("inactive {tag}").as_bytes()).into() }
    }

    fn tag(&self, paused: Option<Paused>) -> String {
        etag_of(&serde_json::to_vec(&self.view(paused)).unwrap_or_default())
    }
}

/// Returns a strong entity tag for these bytes.
#[must_use]
pub fn etag_of(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let digest = Sha256::digest(bytes);
    let mut etag = String::from("\"");
    for byte in &digest[..12] {
        let _ = write!(etag, "{byte:02x}");
    }
    etag.push('"');
    etag
}

/// A builder of entries that holds the built-in tools, the HTTP client and the policy layers of all tools.
pub struct EntryBuilder {
    builtins: Builtins,
    client: HttpClient,
    wraps: Vec<StackLayer>,
    instances: Instances,
    processes: Processes,
    servers: Servers,
    name_separator: NameSeparator,
}

impl EntryBuilder {
    /// Creates a builder with these built-in tools; a later tool replaces an earlier tool of the same name.
    #[must_use]
    pub fn new(builtins: Vec<BuiltinTool>, client: HttpClient, wraps: Vec<StackLayer>) -> Self {
        let builtins = builtins.into_iter().map(|tool| (tool.definition.name.clone(), tool)).collect();
        Self {
            builtins,
            client,
            wraps,
            instances: Instances::default(),
            processes: Processes::default(),
            servers: Servers::default(),
            name_separator: NameSeparator::default(),
        }
    }

    /// Sets how programs run. The default runs none.
    #[must_use]
    pub fn processes(self, processes: Processes) -> Self {
        Self { processes, ..self }
    }

    /// Sets the upstream MCP servers. The default is an empty set.
    #[must_use]
    pub fn servers(self, servers: Servers) -> Self {
        Self { servers, ..self }
    }

    /// Sets the replacement for the dots of tool names over MCP. The default is `__`.
    #[must_use]
    pub fn name_separator(self, name_separator: NameSeparator) -> Self {
        Self { name_separator, ..self }
    }

    /// Returns the separator set by [`EntryBuilder::name_separator`].
    pub(super) fn separator(&self) -> &NameSeparator {
        &self.name_separator
    }

    pub(super) fn builtins(&self) -> impl Iterator<Item = &BuiltinTool> {
        self.builtins.values()
    }

    /// Returns the instances of all tools that factories create.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        &self.instances
    }

    /// Returns the HTTP client that tools share.
    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }

    /// Compiles a definition.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn make(&self, declared: ToolDefinition, made: Provenance) -> Result<Entry, Vec<Fault>> {
        self.make_with(declared, made, FetchedDefinition::default())
    }

    /// Compiles a definition together with the document that its `definition_url` returned.
    ///
    /// # Errors
    /// Returns all faults of the combined definition.
    pub fn make_with(
        &self,
        declared: ToolDefinition,
        made: Provenance,
        fetched: FetchedDefinition,
    ) -> Result<Entry, Vec<Fault>> {
        let mut definition = declared.clone();
        if let Some(overlay) = &fetched.overlay {
            overlay.apply(&mut definition);
        }
        let mut faults = check::definition(&definition);
        definition.title.get_or_insert_with(|| declared.name.clone());
        let builtin = match &declared.executor {
            ExecutorSpec::Builtin { name } => self.builtins.get(name),
            _ => None,
        };
        if matches!(declared.executor, ExecutorSpec::Process(_))
            && made.source == Source::Api
            && !self.processes.registration
        {
            let message = "a program can be declared only in the server's tools folder, unless the operator allows \
                           registration over the API (`registration` in `[process]`)";
            faults.push(Fault::at("/executor/type", message));
        }
        if definition.input_schema.is_null() {
            match builtin {
                Some(builtin) => definition.input_schema = builtin.definition.input_schema.clone(),
                None => {
                    let until = match declared.definition_url {
                        Some(_) => " until its `definition_url` has returned one",
                        None => "",
                    };
                    let message = format!("is required{until}: a JSON Schema with `\"type\":\"object\"`");
                    faults.push(Fault::at("/input_schema", message));
                }
            }
        }
        let executor = self.executor(&definition, builtin, &mut faults);
        if !definition.presets.is_empty() {
            presets::check(&definition, &mut faults);
            presets::hide(&mut definition);
        }
        let input = match faults.is_empty() {
            true => compile(&definition.input_schema, Role::Input, "/input_schema", &mut faults),
            // The check of the presets has reported the faults of the full schema already.
            false if !definition.presets.is_empty() => None,
            false => compile(&definition.input_schema, Role::Input, "/input_schema", &mut faults),
        };
        let output = definition
            .output_schema
            .as_ref()
            .and_then(|schema| compile(schema, Role::Output, "/output_schema", &mut faults));
        let validate = builtin.and_then(|builtin| builtin.validate.clone());
        let (validate, validate_with_presets) =
            if definition.presets.is_empty() { (validate, None) } else { (None, validate) };
        match (input, executor) {
            (Some(input), Some(executor)) if faults.is_empty() => Ok(Entry {
                name: definition.name.as_str().into(),
                title: definition.display_name().into(),
                role: executor.role(),
                instances: executor.pool(),
                is_available: executor.is_available(),
                is_quarantined: false,
                lowered: LoweredForms::default(),
                stack: policy::stack(&definition, executor, &self.wraps),
                validate,
                validate_with_presets,
                declared,
                definition,
                fetched,
                made,
                input,
                output,
                etag: OnceLock::new(),
            }),
            _ => Err(faults),
        }
    }

    fn executor(
        &self,
        definition: &ToolDefinition,
        builtin: Option<&BuiltinTool>,
        faults: &mut Vec<Fault>,
    ) -> Option<Arc<dyn Executor>> {
        match &definition.executor {
            ExecutorSpec::Builtin { name } => {
                if builtin.is_none() {
                    let nearest = schema::nearest(name, self.builtins.keys().map(String::as_str));
                    let hint = nearest.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
                    let message = format!("unknown built-in tool \"{name}\"{hint}");
                    faults.push(Fault::at("/executor/name", message));
                }
                let own = |executor: &Arc<dyn Executor>| executor.for_entry(&self.instances);
                builtin.map(|builtin| own(&builtin.executor).unwrap_or_else(|| builtin.executor.clone()))
            }
            ExecutorSpec::External {} => Some(Arc::new(ExternalExecutor)),
            ExecutorSpec::Mcp { server, tool } => {
                of_parts(McpExecutor::new(self.servers.clone(), server, tool), faults)
            }
            ExecutorSpec::Http(spec) => {
                of_parts(HttpExecutor::new(spec, &known(definition), self.client.clone()), faults)
            }
            ExecutorSpec::Process(spec) => {
                of_parts(ProcessExecutor::new(spec, &known(definition), self.processes.clone()), faults)
            }
        }
    }
}

/// Returns the executor, or adds the faults of the `executor` object.
fn of_parts(made: Result<impl Executor, Vec<(String, String)>>, faults: &mut Vec<Fault>) -> Option<Arc<dyn Executor>> {
    match made {
        Ok(executor) => Some(Arc::new(executor)),
        Err(wrong) => {
            let at = |(pointer, message)| Fault::at(format!("/executor{pointer}"), message);
            faults.extend(wrong.into_iter().map(at));
            None
        }
    }
}

/// Returns the schema with every argument that a placeholder may name, including presets that the schema lacks.
fn known(definition: &ToolDefinition) -> Cow<'_, Value> {
    let schema = &definition.input_schema;
    let is_known = |name: &String| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    if definition.presets.keys().all(is_known) || !schema.is_object() {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    for name in definition.presets.keys() {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.entry(name.as_str()).or_insert(Value::Bool(true));
        }
    }
    Cow::Owned(schema)
}

fn compile(schema: &Value, role: Role, place: &str, faults: &mut Vec<Fault>) -> Option<Compiled> {
    if schema.is_null() {
        return None;
    }
    match schema::compile(schema, role) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            faults.push(Fault::at(format!("{place}{}", error.pointer), error.message));
            None
        }
    }
}
