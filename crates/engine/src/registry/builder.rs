//! The compiler of tools: definitions to entries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::check::{self, Fault};
use super::compiled::CompiledMemory;
use super::entry::{Entry, LoweredSchemas, Provenance};
use super::fetched::FetchedDefinition;
use super::presets;
use super::validators::Validators;
use toolpost_core::domain::{ExecutorSpec, NameSeparator, Source, ToolDefinition};
use toolpost_core::schema::{self, CompiledSchema, Role, SchemaError};
use toolpost_tool::executor::http::{HttpClient, HttpExecutor};
use toolpost_tool::executor::mcp::{McpExecutor, Servers};
use toolpost_tool::executor::process::{ProcessExecutor, Processes};
use toolpost_tool::executor::{Available, Executor, ExternalExecutor, Instances, ToolRole};
use toolpost_tool::policy::{self, StackLayer};
use toolpost_tool::tool::BuiltinTool;

/// A builder of entries that holds the built-in tools, the HTTP client and the policy layers of all tools.
pub struct EntryBuilder {
    /// The built-in tools by name.
    pub builtins: BTreeMap<String, BuiltinTool>,
    /// The HTTP client that tools share.
    pub client: HttpClient,
    /// The policy layers of all tools.
    pub layers: Vec<StackLayer>,
    /// The instances of all tools that factories create.
    pub instances: Instances,
    /// The runner of programs. The default runs none.
    pub processes: Processes,
    /// The upstream MCP servers. The default is an empty set.
    pub servers: Servers,
    /// The replacement for the dots of tool names over MCP. The default is `__`.
    pub name_separator: NameSeparator,
    /// The memory of compiled tools and rendered lists. The default has no limit.
    pub(super) memory: Arc<CompiledMemory>,
    /// The compiled schemas in use.
    validators: Validators,
}

/// The properties of a tool that its lists and look-ups need.
pub struct ToolFacts {
    /// The public form of the definition.
    pub definition: ToolDefinition,
    /// The document that was used.
    pub fetched: FetchedDefinition,
    /// The role of a tool that operates on other tools or on its session.
    pub role: Option<ToolRole>,
    /// Decides which sessions have the tool; `None` means all.
    pub is_available: Option<Available>,
}

impl EntryBuilder {
    /// Creates a builder with these built-in tools; a later tool replaces an earlier tool of the same name.
    #[must_use]
    pub fn new(builtins: Vec<BuiltinTool>, client: HttpClient, layers: Vec<StackLayer>) -> Self {
        Self {
            builtins: builtins.into_iter().map(|tool| (tool.definition.name.clone(), tool)).collect(),
            client,
            layers,
            instances: Instances::default(),
            processes: Processes::default(),
            servers: Servers::default(),
            name_separator: NameSeparator::default(),
            memory: Arc::new(CompiledMemory::new(0)),
            validators: Validators::default(),
        }
    }

    /// Limits the memory of compiled tools and rendered lists to this number of bytes; 0 means no limit.
    #[must_use]
    pub fn with_compiled_bytes(self, bytes: usize) -> Self {
        Self { memory: Arc::new(CompiledMemory::new(bytes)), ..self }
    }

    /// Checks a definition together with the document that its `definition_url` returned, as [`Self::make`] does, but
    /// keeps nothing compiled.
    ///
    /// # Errors
    /// Returns all faults of the combined definition.
    pub fn check(
        &self,
        declared: &ToolDefinition,
        source: Source,
        fetched: FetchedDefinition,
    ) -> Result<ToolFacts, Vec<Fault>> {
        let Outline { mut definition, executor, mut faults, .. } = self.outline(declared, source, &fetched);
        let has_presets = presets::check_and_hide(&mut definition, &mut faults);
        if !has_presets || faults.is_empty() {
            check_schema(&definition.input_schema, Role::Input, "/input_schema", &mut faults);
        }
        if let Some(schema) = &definition.output_schema {
            check_schema(schema, Role::Output, "/output_schema", &mut faults);
        }
        match executor {
            Some(executor) if faults.is_empty() && !definition.input_schema.is_null() => {
                Ok(ToolFacts { role: executor.role(), is_available: executor.is_available(), definition, fetched })
            }
            _ => Err(faults),
        }
    }

    /// Compiles a definition together with the document that its `definition_url` returned.
    ///
    /// # Errors
    /// Returns all faults of the combined definition.
    pub fn make(
        &self,
        declared: &ToolDefinition,
        made: Provenance,
        fetched: FetchedDefinition,
    ) -> Result<Entry, Vec<Fault>> {
        let Outline { mut definition, builtin, executor, mut faults } = self.outline(declared, made.source, &fetched);
        let validate = builtin.and_then(|builtin| builtin.validate.clone());
        let has_presets = presets::check_and_hide(&mut definition, &mut faults);
        let (validate, validate_with_presets) = if has_presets { (None, validate) } else { (validate, None) };
        // The check of the presets has reported the faults of the full schema already.
        let is_compiled = !has_presets || faults.is_empty();
        let compile = |schema, role, pointer, faults: &mut Vec<Fault>| self.compile(schema, role, pointer, faults);
        let input = is_compiled.then(|| compile(&definition.input_schema, Role::Input, "/input_schema", &mut faults));
        let output = definition.output_schema.as_ref();
        let output = output.and_then(|schema| compile(schema, Role::Output, "/output_schema", &mut faults));
        match (input.flatten(), executor) {
            (Some(input), Some(executor)) if faults.is_empty() => Ok(Entry {
                name: definition.name.as_str().into(),
                title: definition.display_name().into(),
                role: executor.role(),
                instances: executor.pool(),
                lowered: LoweredSchemas::default(),
                is_renamed: OnceLock::new(),
                stack: policy::stack(&definition, executor, &self.layers),
                validate,
                validate_with_presets,
                definition: Arc::new(definition),
                etag: Box::default(),
                made,
                input,
                output,
            }),
            _ => Err(faults),
        }
    }

    /// Returns the public form of a valid definition: with its defaults and the fetched document, without hidden
    /// presets.
    #[must_use]
    pub fn public(&self, declared: &ToolDefinition, fetched: &FetchedDefinition) -> ToolDefinition {
        let (mut definition, _) = self.complete(declared, fetched);
        definition.title.get_or_insert_with(|| declared.name.clone());
        if !definition.presets.is_empty() {
            presets::hide(&mut definition);
        }
        definition
    }

    /// Returns `true` if the stack of a tool must be kept once it is built, because it may hold state.
    #[must_use]
    pub fn has_state(&self, entry: &Entry) -> bool {
        !self.layers.is_empty() || entry.instances.is_some()
    }

    /// Returns the definition with the fetched document and the schema of its built-in tool.
    fn complete<'a>(
        &'a self,
        declared: &ToolDefinition,
        fetched: &FetchedDefinition,
    ) -> (ToolDefinition, Option<&'a BuiltinTool>) {
        let mut definition = declared.clone();
        if let Some(overlay) = &fetched.overlay {
            overlay.apply(&mut definition);
        }
        let builtin = match &declared.executor {
            ExecutorSpec::Builtin { name } => self.builtins.get(name),
            _ => None,
        };
        if let Some(builtin) = builtin.filter(|_| definition.input_schema.is_null()) {
            definition.input_schema = builtin.definition.input_schema.clone();
        }
        (definition, builtin)
    }

    /// Completes a definition and checks everything except its presets and schemas.
    fn outline(&self, declared: &ToolDefinition, source: Source, fetched: &FetchedDefinition) -> Outline<'_> {
        let (mut definition, builtin) = self.complete(declared, fetched);
        let mut faults = check::definition(&definition);
        definition.title.get_or_insert_with(|| declared.name.clone());
        faults.extend(self.registration_fault(&declared.executor, source));
        if definition.input_schema.is_null() && builtin.is_none() {
            faults.push(missing_schema(declared));
        }
        let executor = self.executor(&definition, builtin, &mut faults);
        Outline { definition, builtin, executor, faults }
    }

    fn registration_fault(&self, executor: &ExecutorSpec, source: Source) -> Option<Fault> {
        let is_allowed = source != Source::Api || self.processes.registration;
        let message = "a program can be declared only in the server's tools folder, unless the operator allows \
                       registration over the API (`registration` in `[process]`)";
        (matches!(executor, ExecutorSpec::Process(_)) && !is_allowed).then(|| Fault::at("/executor/type", message))
    }

    /// Compiles a schema, or shares the compiled form of an equal one.
    fn compile(
        &self,
        schema: &Value,
        role: Role,
        pointer: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<Arc<CompiledSchema>> {
        if schema.is_null() {
            return None;
        }
        self.validators.compile(schema, role).map_err(|error| faults.push(of_schema(error, pointer))).ok()
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
            ExecutorSpec::Worker(spec) => {
                faults.extend(check::worker(spec));
                Some(Arc::new(ExternalExecutor))
            }
            ExecutorSpec::Mcp { server, tool } => {
                executor_or_faults(McpExecutor::new(self.servers.clone(), server, tool), faults)
            }
            ExecutorSpec::Http(spec) => {
                executor_or_faults(HttpExecutor::new(spec, &known(definition), self.client.clone()), faults)
            }
            ExecutorSpec::Process(spec) => {
                executor_or_faults(ProcessExecutor::new(spec, &known(definition), self.processes.clone()), faults)
            }
        }
    }
}

fn missing_schema(declared: &ToolDefinition) -> Fault {
    let until = if declared.definition_url.is_some() { " until its `definition_url` has returned one" } else { "" };
    Fault::at("/input_schema", format!("is required{until}: a JSON Schema with `\"type\":\"object\"`"))
}

/// Returns the executor, or adds the faults of the `executor` object.
fn executor_or_faults(
    created: Result<impl Executor, Vec<(String, String)>>,
    faults: &mut Vec<Fault>,
) -> Option<Arc<dyn Executor>> {
    match created {
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

fn check_schema(schema: &Value, role: Role, pointer: &str, faults: &mut Vec<Fault>) {
    if schema.is_null() {
        return;
    }
    faults.extend(schema::check(schema, role).err().map(|error| of_schema(error, pointer)));
}

fn of_schema(error: SchemaError, pointer: &str) -> Fault {
    Fault::at(format!("{pointer}{}", error.pointer), error.message)
}

/// A completed definition with the faults found so far.
struct Outline<'a> {
    definition: ToolDefinition,
    builtin: Option<&'a BuiltinTool>,
    executor: Option<Arc<dyn Executor>>,
    faults: Vec<Fault>,
}
