//! Registers and removes tools of a running service.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::validate;
use crate::cli::error::CliError;
use crate::cli::remote::Remote;
use crate::cli::{Exit, print};
use crate::registry::files;

/// Arguments of `toolpost tools add`.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Definition files, with one definition or an array each
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Replace registered tools of the same names
    #[arg(long)]
    replace: bool,
    /// Print JSON: the registered tools, as returned by `POST /tools`
    #[arg(long)]
    json: bool,
}

/// Registers all definitions of the files, in their order, up to the first that the service rejects.
pub async fn add(service: &Remote, AddArgs { files, replace, json }: &AddArgs) -> Result<Exit, CliError> {
    let mut definitions = Vec::new();
    for file in files {
        definitions.extend(read(file)?.into_iter().map(|definition| (file, definition)));
    }
    let mut added = Vec::new();
    for (file, definition) in definitions {
        let name = definition["name"].as_str().unwrap_or_default().to_owned();
        let response = match *replace && !name.is_empty() {
            true => service.put(&["tools", &name], &definition).await,
            false => service.post(&["tools"], &definition).await,
        };
        let tool =
            response.map_err(|error| error.within(&format!("{}: {}", file.display(), print::one_line(&name, 128))))?;
        if !json {
            print::result(&line(&tool))?;
        }
        added.push(tool);
    }
    if *json {
        print::json(&added)?;
    }
    Ok(Exit::Success)
}

/// Removes tools, in their order, up to the first that the service refuses.
pub async fn remove(service: &Remote, names: &[String]) -> Result<(), CliError> {
    for name in names {
        service.delete(&["tools", name]).await?;
        print::result(&format!("removed {}", print::one_line(name, 128)))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<Value>, CliError> {
    let bytes = validate::read(file)?;
    files::values(file, &bytes).map_err(|message| CliError::usage(format!("{}: {message}", file.display())))
}

/// Returns the line of a registered tool, with the differences between its file and the stored definition.
fn line(tool: &Value) -> String {
    let name = print::one_line(tool["name"].as_str().unwrap_or_default(), 128);
    let mut lines = vec![format!("added {name}, revision {}", tool["revision"])];
    let warnings = tool["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    lines.extend(
        warnings.iter().filter_map(Value::as_str).map(|warning| format!("  {}", print::one_line(warning, 500))),
    );
    lines.join("\n")
}
