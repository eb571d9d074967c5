//! One tool, ready: its definition, compiled validators and policy stack.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Builtins;
use super::check::{self, Fault};
use super::lowered::LoweredForms;
use super::presets;
use crate::domain::{ExecutorSpec, Paused, Source, Time, ToolDefinition};
use crate::executor::http::{HttpClient, HttpExecutor};
use crate::executor::{Executor, ExternalExecutor, Stands};
use crate::policy::{self, Stack, Wrap};
use crate::schema::lower::{Lowered, Target, Unlowerable};
use crate::schema::{self, Compiled, Role};
use crate::tool::{BuiltinTool, Validate};

/// Where a tool comes from and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
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
    pub made: Made,
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
    pub validate_equipped: Option<Validate>,
    /// Runs it.
    pub stack: Stack,
    /// What it stands for, if it is there for the sake of the others.
    pub stands: Option<Stands>,
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
    /// Where it comes from.
    source: Source,
    /// Counted up by every change.
    revision: i64,
    /// Whether it can be called.
    active: bool,
    /// Why it is paused; `null` while it is not.
    #[schema(value_type = Option<Object>)]
    paused: Option<Paused>,
    /// When it was first declared.
    created_at: Time,
    /// When it was last changed.
    updated_at: Time,
}

impl Entry {
    /// As it is shown.
    #[must_use]
    pub fn view(&self, paused: Option<Paused>) -> ToolView<'_> {
        ToolView {
            definition: &self.definition,
            source: self.made.source,
            revision: self.made.revision,
            active: true,
            paused,
            created_at: self.made.created_at,
            updated_at: self.made.updated_at,
        }
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

    /// A strong entity tag (RFC 9110, section 8.8.3), the same on every node and after a restart.
    #[must_use]
    pub fn etag(&self) -> &str {
        self.etag.get_or_init(|| etag_of(&serde_json::to_vec(&self.view(None)).unwrap_or_default()))
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
pub struct Workshop {
    builtins: Builtins,
    client: HttpClient,
    wraps: Vec<Wrap>,
}

impl Workshop {
    /// With these built-ins; a later one of the same name replaces an earlier one.
    #[must_use]
    pub fn new(builtins: Vec<BuiltinTool>, client: HttpClient, wraps: Vec<Wrap>) -> Self {
        let builtins = builtins.into_iter().map(|tool| (tool.definition.name.clone(), tool)).collect();
        Self { builtins, client, wraps }
    }

    pub(super) fn builtins(&self) -> impl Iterator<Item = &BuiltinTool> {
        self.builtins.values()
    }

    /// Compiles a definition.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn make(&self, declared: ToolDefinition, made: Made) -> Result<Entry, Vec<Fault>> {
        let mut faults = check::definition(&declared);
        let mut definition = declared.clone();
        definition.title.get_or_insert_with(|| declared.name.clone());
        let builtin = match &declared.executor {
            ExecutorSpec::Builtin { name } => self.builtins.get(name),
            ExecutorSpec::Http(_) | ExecutorSpec::External {} => None,
        };
        if definition.input_schema.is_null() {
            match builtin {
                Some(builtin) => definition.input_schema = builtin.definition.input_schema.clone(),
                None => {
                    faults.push(Fault::at("/input_schema", "is required: a JSON Schema with `\"type\":\"object\"`"))
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
                stands: executor.stands(),
                lowered: LoweredForms::default(),
                stack: policy::stack(&definition, executor, &self.wraps),
                validate,
                validate_equipped,
                declared,
                definition,
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
                builtin.map(|builtin| builtin.executor.clone())
            }
            ExecutorSpec::External {} => Some(Arc::new(ExternalExecutor)),
            ExecutorSpec::Http(spec) => match HttpExecutor::new(spec, &known(definition), self.client.clone()) {
                Ok(executor) => Some(Arc::new(executor)),
                Err(wrong) => {
                    faults.extend(
                        wrong.into_iter().map(|(pointer, message)| Fault::at(format!("/executor{pointer}"), message)),
                    );
                    None
                }
            },
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
