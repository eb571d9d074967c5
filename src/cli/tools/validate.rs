//! `toolpost tools validate`: checks definition files by the rules of registration.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::app::App;
use crate::domain::decode::DecodeError;
use crate::domain::tool::Readable;
use crate::domain::{ToolDefinition, json};
use crate::registry::check::Fault;
use crate::registry::{Registry, files};
use serde::Serialize;
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::options::Options;
use crate::cli::{Exit, print, with_app};

/// The result of one file.
#[derive(Debug, Serialize)]
struct FileCheck {
    file: String,
    valid: bool,
    tools: Vec<String>,
    errors: Vec<FaultReport>,
}

/// One fault of a file.
#[derive(Debug, Serialize)]
struct FaultReport {
    /// The name of the tool, if it can be read.
    tool: Option<String>,
    /// A pointer into the definition (RFC 6901).
    pointer: Option<String>,
    message: String,
}

pub async fn run(files: &[PathBuf], json: bool, options: &Options) -> Result<Exit, CliError> {
    let read: Vec<(&PathBuf, Vec<u8>)> =
        files.iter().map(|file| read(file).map(|bytes| (file, bytes))).collect::<Result<_, _>>()?;
    // The checks need the built-in tools, but no stored data.
    let check_all = async |app: &App| {
        let mut declared = HashMap::new();
        let checked = read.iter().map(|(file, bytes)| check(file, bytes, app.engine.registry(), &mut declared));
        Ok(checked.collect::<Vec<FileCheck>>())
    };
    let checked = with_app(options.bare_settings()?, check_all).await?;
    if json {
        print::json(&checked)?;
    } else {
        print::result(&checked.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if checked.iter().all(|file| file.valid) { Exit::Success } else { Exit::Failure })
}

/// Reads a definition file.
pub fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(file).map_err(|error| {
        let error = CliError::usage(format!("cannot read {}: {error}", file.display()));
        if file.is_dir() { error.hint(format!("Name its files: {0}/*.json {0}/*.toml", file.display())) } else { error }
    })
}

/// Checks one file. `declared` maps names to files, because names must be unique within a folder.
fn check(file: &Path, bytes: &[u8], registry: &Registry, declared: &mut HashMap<String, PathBuf>) -> FileCheck {
    let mut checked =
        FileCheck { file: file.display().to_string(), valid: false, tools: Vec::new(), errors: Vec::new() };
    match files::values(file, bytes) {
        Ok(values) => {
            let is_one = values.len() == 1;
            for (index, value) in values.into_iter().enumerate() {
                let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
                let unnamed =
                    |message: String| if is_one { message } else { format!("definition {}: {message}", index + 1) };
                let readable = Readable::new(value);
                checked.errors.extend(readable.errors.iter().map(|DecodeError { pointer, message }| {
                    let message = if name.is_some() { message.clone() } else { unnamed(message.clone()) };
                    FaultReport { tool: name.clone(), pointer: Some(pointer.clone()), message }
                }));
                let Some(definition) = readable.definition.clone() else { continue };
                let found = faults(definition.clone(), file, registry).into_iter();
                let is_its_own =
                    |found: &FaultReport| !found.pointer.as_deref().is_some_and(|at| readable.is_left_out(at));
                let found: Vec<FaultReport> = found.filter(is_its_own).collect();
                if readable.is_left_out("/name") {
                    checked.errors.extend(found.into_iter().map(|found| FaultReport { tool: None, ..found }));
                    continue;
                }
                checked.tools.push(definition.name.clone());
                let declares = readable.errors.is_empty();
                if declares && let Some(other) = declared.insert(definition.name.clone(), file.to_owned()) {
                    let message = if other == file {
                        "is declared twice".to_owned()
                    } else {
                        format!("is already declared in {}", other.display())
                    };
                    let tool = Some(definition.name.clone());
                    checked.errors.push(FaultReport { tool, pointer: Some("/name".into()), message });
                }
                checked.errors.extend(found);
            }
        }
        Err(message) => checked.errors.push(FaultReport { tool: None, pointer: None, message }),
    }
    checked.valid = checked.errors.is_empty();
    checked
}

fn faults(mut definition: ToolDefinition, file: &Path, registry: &Registry) -> Vec<FaultReport> {
    let name = definition.name.clone();
    let mut faults = files::scripts::resolve(&mut definition, file).err().unwrap_or_default();
    let others = registry.try_definition(&definition).err().unwrap_or_default();
    // A path that could not be resolved is reported once.
    let is_new = |fault: &Fault| !faults.iter().any(|known| known.pointer == fault.pointer);
    let others: Vec<Fault> = others.into_iter().filter(is_new).collect();
    faults.extend(others);
    let found = |(pointer, message)| FaultReport { tool: Some(name.clone()), pointer: Some(pointer), message };
    faults.into_iter().map(|fault| found((fault.pointer, fault.message))).collect()
}

fn text(FileCheck { file, valid, tools, errors }: &FileCheck) -> String {
    if *valid {
        return format!("{file}: ok ({})", tools.join(", "));
    }
    let mut lines = vec![format!("{file}: not valid")];
    lines.extend(errors.iter().map(|FaultReport { tool, pointer, message }| {
        let tool = tool.as_ref().map_or_else(String::new, |tool| format!("{tool} "));
        let pointer = pointer.as_ref().map_or_else(String::new, |pointer| format!("{}: ", json::pointer_text(pointer)));
        format!("  {tool}{pointer}{message}")
    }));
    lines.join("\n")
}
