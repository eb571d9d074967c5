//! One tool, ready: its definition, compiled validators and policy stack.

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

/// Where a tool comes from and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// Its source.
    pub source: Source,
    /// Counted up by every change.
    pub revision: i64,
    /// When it was first declared.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// A tool that can be called.
pub struct Entry {
    /// As declared.
    pub declared: ToolDefinition,
    /// As declared, with what was left out filled in.
    pub definition: ToolDefinition,
    /// Where it comes from.
    pub made: Provenance,
    /// The name, to be shared by calls.
    pub name: Arc<str>,
    /// The display name, to be shared by calls.
    pub title: Arc<str>,
    /// Checks arguments.
    pub input: Compiled,
    /// Checks results.
    pub output: Option<Compiled>,
    /// The tool's own check of arguments, after the schema's.
    pub validate: Option<Validate>,
    /// The same, where it has to wait for the presets.
    pub validate_with_presets: Option<Validate>,
    /// Runs it.
    pub stack: Stack,
    /// The instances that it keeps, if it is made by a factory.
    pub instances: Option<Arc<dyn Pool>>,
    /// Which sessions have it; `None`: all.
    pub is_available: Option<Available>,
    /// What came from its `definition_url`.
    pub fetched: FetchedDefinition,
    /// What it stands for, if it is there for the sake of the others.
    pub role: Option<ToolRole>,
    /// Nobody can call it for now: its upstream server has changed it, and that was not accepted yet.
    pub is_quarantined: bool,
    lowered: LoweredForms,
    etag: OnceLock<String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entry").field("name", &self.name).field("made", &self.made).finish_non_exhaustive()
    }
}

/// A tool as `GET /tools/{name}` shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Tool)]
pub struct ToolView<'a> {
    #[serde(flatten)]
    definition: &'a ToolDefinition,
    /// What its upstream MCP server says of it beside the definition; only of such tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a UpstreamMetadata>,
    /// Where it comes from.
    source: Source,
    /// Counted up by every change.
    revision: i64,
    /// Whether it can be called.
    active: bool,
    /// Why it is paused; `null` while it is not.
    #[schema(value_type = Option<Object>)]
    paused: Option<Paused>,
    /// Why the last answer of its `definition_url` is not in use; absent where there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_error: Option<&'a DefinitionError>,
    /// When it was first declared.
    created_at: Time,
    /// When it was last changed.
    updated_at: Time,
    /// Of the request that has just declared it: what is not as it was given. Absent where there is nothing to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

impl ToolView<'_> {
    /// Adds what is not as the request gave it.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Whether it can be called by whoever is shown it.
    #[must_use]
    pub fn with_active(self, active: bool) -> Self {
        Self { active, ..self }
    }
}

impl Entry {
    /// As it is shown to those who can call it.
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

    /// Whether a session has it, as far as the tool itself has a say. A tool that cannot tell is not there.
    #[must_use]
    pub fn is_available_to(&self, session: &Session) -> bool {
        let Some(is_available) = &self.is_available else { return true };
        catch_unwind(AssertUnwindSafe(|| is_available(session))).unwrap_or_else(|_| {
            tracing::error!(tool = %self.name, "whether a tool is available could not be found out: it panicked");
            false
        })
    }

    /// The same, to be called or not.
    #[must_use]
    pub(super) fn withheld(self, is_withheld: bool) -> Self {
        Self { is_quarantined: is_withheld, ..self }
    }

    /// Returns `true` if nothing outside of the session keeps it from being called: it is in no group or in an active one,
    /// and it is not withheld.
    pub(super) fn is_switched_on(&self, is_active: impl Fn(&str) -> bool) -> bool {
        let groups = &self.definition.groups;
        !self.is_quarantined && (groups.is_empty() || groups.iter().any(|group| is_active(group)))
    }

    /// Its arguments as this target can say them; found out once.
    ///
    /// # Errors
    /// If it cannot.
    pub fn lowered(&self, target: Target) -> Result<&Lowered, &Unlowerable> {
        self.lowered.of(&self.definition.input_schema, target)
    }

    /// As if this target could not say its arguments.
    #[cfg(test)]
    pub(super) fn refuse_to_lower(&self, target: Target, error: Unlowerable) {
        self.lowered.refuse(target, error);
    }

    /// Whether its work is done outside of this process: it takes no place here, and goes on after a restart.
    #[must_use]
    pub fn works_outside(&self) -> bool {
        self.definition.is_external() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// Whether a call that may have run can be run again.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        // The session of a task has the id of its call: made twice, it is one.
        self.definition.is_repeatable() || self.role == Some(ToolRole::Session(SystemTool::NewTask))
    }

    /// A strong entity tag (RFC 9110, section 8.8.3), the same on every node and after a restart.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| self.tag(None))
    }

    /// The entity tag of the tool as it is shown now: one that rests, or that cannot be called, looks otherwise.
    #[must_use]
    pub fn etag_now(&self, paused: Option<Paused>, active: bool) -> Cow<'_, str> {
        let tag: Cow<'_, str> = if paused.is_some() { self.tag(paused).into() } else { self.etag().into() };
        if active { tag } else { etag_of(format!("inactive {tag}").as_bytes()).into() }
    }

    fn tag(&self, paused: Option<Paused>) -> String {
        etag_of(&serde_json::to_vec(&self.view(paused)).unwrap_or_default())
    }
}

/// A strong entity tag for these bytes.
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

/// Makes entries: knows the built-ins, the HTTP client and the layers around every tool.
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
    /// With these built-ins; a later one of the same name replaces an earlier one.
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

    /// How it runs programs; not at all unless given.
    #[must_use]
    pub fn processes(self, processes: Processes) -> Self {
        Self { processes, ..self }
    }

    /// Which upstream MCP servers there are; none unless given.
    #[must_use]
    pub fn servers(self, servers: Servers) -> Self {
        Self { servers, ..self }
    }

    /// What stands in place of the dots of names that are shown over MCP; `__` unless given.
    #[must_use]
    pub fn name_separator(self, name_separator: NameSeparator) -> Self {
        Self { name_separator, ..self }
    }

    /// See [`EntryBuilder::name_separator`].
    pub(super) fn separator(&self) -> &NameSeparator {
        &self.name_separator
    }

    pub(super) fn builtins(&self) -> impl Iterator<Item = &BuiltinTool> {
        self.builtins.values()
    }

    /// The instances of all tools that are made by factories.
    #[must_use]
    pub fn instances(&self) -> &Instances {
        &self.instances
    }

    /// What tools ask other servers with.
    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }

    /// Compiles a definition.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn make(&self, declared: ToolDefinition, made: Provenance) -> Result<Entry, Vec<Fault>> {
        self.make_with(declared, made, FetchedDefinition::default())
    }

    /// Compiles a definition with what came from its `definition_url`.
    ///
    /// # Errors
    /// Everything that is wrong with both together.
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
            let message = "a program can be declared in the server's tools folder only, unless the operator allows it \
                           over the API (`registration` in `[process]`)";
            faults.push(Fault::at("/executor/type", message));
        }
        if definition.input_schema.is_null() {
            match builtin {
                Some(builtin) => definition.input_schema = builtin.definition.input_schema.clone(),
                None => {
                    let until = match declared.definition_url {
                        Some(_) => " until its `definition_url` has answered one",
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
            // What is wrong with the whole schema is told already.
            false if !definition.presets.is_empty() => None,
            false => compile(&definition.input_schema, Role::Input, "/input_schema", &mut faults),
        };
        let output = definition
            .output_schema
            .as_ref()
            .and_then(|schema| compile(schema, Role::Output, "/output_schema", &mut faults));
        let validate = builtin.and_then(|builtin| builtin.validate.clone());
        let (validate, validate_equipped) =
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
                validate_with_presets: validate_equipped,
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
                    let message = format!("there is no built-in tool \"{name}\"{hint}");
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

/// An executor, or what is wrong within the `executor` object.
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

/// The schema with every argument that a placeholder may name: presets need not be in it.
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
