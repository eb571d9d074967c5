//! `toolpost import`: imports tools from API documents into this database, a running service or a file.

use crate::app::App;
use crate::import::document::{self, Bounds};
use crate::import::{Credential, ImportError, ImportPlan, Options as Wanted, Report};
use crate::registry::imports::{ImportMode, register};
use clap::builder::NonEmptyStringValueParser;

use super::error::CliError;
use super::options::Options;
use super::{Exit, print};

mod service;
mod show;
mod source;

/// Arguments of `toolpost import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a tool from each operation of an OpenAPI document (2.0, 3.0 or 3.1)
    Openapi(Box<Openapi>),
}

#[derive(Debug, clap::Args)]
struct Openapi {
    /// Document in JSON or YAML: a file, an http:// or https:// URL, or - for standard input
    #[arg(value_name = "FILE-OR-URL", value_parser = NonEmptyStringValueParser::new())]
    source: String,
    /// Send requests to this URL instead of the server in the document
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// Authorize requests with this credential, repeatable: bearer:SECRET, basic:USER:SECRET, header:NAME:SECRET,
    /// query:NAME:SECRET or cookie:NAME:SECRET, where SECRET is the name of a secret (X is TOOLPOST_SECRET_X)
    #[arg(long, value_name = "CREDENTIAL")]
    auth: Vec<Credential>,
    /// Import only this tag, operationId, path or "GET /path"; repeatable
    #[arg(long, value_name = "TAG-OR-OPERATION", value_parser = NonEmptyStringValueParser::new())]
    only: Vec<String>,
    /// Begin the names of the tools with this prefix
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// Replace registered tools of the same names
    #[arg(long)]
    replace: bool,
    /// Only report what would be done
    #[arg(long)]
    dry_run: bool,
    /// Write the definitions to a file for --tools instead of registering them; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "replace"])]
    out: Option<String>,
    /// Register with a running service instead of its database, with TOOLPOST_API_KEY as the key
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    to: Option<String>,
    /// Print JSON, as returned by `POST /imports/openapi`
    #[arg(long)]
    json: bool,
}

pub async fn run(Args { command }: Args, options: &Options) -> Result<Exit, CliError> {
    let Command::Openapi(args) = command;
    let document = source::read(&args.source).await?;
    let report = match &args.to {
        Some(service) => service::import(service, &args, document).await?,
        None => here(&args, document, options).await?,
    };
    // Standard output contains only the definitions.
    if args.out.as_deref() == Some("-") {
        print::note(&show::text(&report, &args));
    } else if args.json {
        print::json(&report)?;
    } else {
        print::result(&show::text(&report, &args))?;
    }
    Ok(if report.refused.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Imports without a service: into the database, or into a file, which needs no database.
async fn here(args: &Openapi, document: source::Document, options: &Options) -> Result<Report, CliError> {
    let wanted = Wanted {
        server: args.server.clone(),
        credentials: args.auth.clone(),
        only: args.only.clone(),
        prefix: args.prefix.clone(),
        document_url: document.url,
    };
    let name = &args.source;
    let document = document::read(&document.bytes, Bounds::OWN).map_err(|error| refused(&error, name))?;
    let imported = document.import(&wanted).map_err(|error| refused(&error, name))?;
    let settings = if args.out.is_some() { options.bare_settings()? } else { options.quiet_settings()? };
    let database = settings.database_url();
    let app = super::start_command_line(settings).await?;
    let imported = app.engine.registry().check_imported(app.store.tenant(), imported);
    let report = match &args.out {
        Some(file) => write(file, imported, args.dry_run),
        None => stored(&app, imported, args, &database).await,
    };
    app.stop().await;
    report
}

async fn stored(app: &App, imported: ImportPlan, args: &Openapi, database: &str) -> Result<Report, CliError> {
    let how = ImportMode { replace: args.replace, dry_run: args.dry_run };
    let report = register(app.engine.registry(), &app.store, imported, how).await;
    report.map_err(|error| CliError::store(&error, database))
}

/// Writes the definitions as a file of the tools folder. It contains only the names of secrets.
fn write(file: &str, imported: ImportPlan, dry_run: bool) -> Result<Report, CliError> {
    let ImportPlan { title, offered, refused, warnings } = imported;
    let created = offered.iter().map(|tool| tool.definition.name.clone()).collect();
    if !dry_run {
        let kept: Result<Vec<serde_json::Value>, _> = offered
            .iter()
            .map(|tool| tool.definition.to_stored().and_then(|text| serde_json::from_str(&text)))
            .collect();
        let text = kept.and_then(|kept| serde_json::to_string_pretty(&kept));
        let text = text.map_err(|error| CliError::unavailable(format!("cannot write the definitions: {error}")))?;
        if file == "-" {
            print::result(&text)?;
        } else {
            std::fs::write(file, text + "\n").map_err(|error| {
                CliError::usage(format!("cannot write {file}: {error}"))
                    .hint("Name a file in an existing folder; `toolpost serve --tools DIR` reads *.json files.")
            })?;
        }
    }
    Ok(Report { title, created, refused, warnings, ..Report::default() })
}

/// Converts an error of the document or of an option.
fn refused(error: &ImportError, source: &str) -> CliError {
    match error.option {
        Some(option) => CliError::usage(format!("--{option}: {error}")),
        None if error.pointer.is_empty() => CliError::usage(format!("{source}: {error}")),
        None => CliError::usage(format!("{source}: {}: {error}", error.pointer)),
    }
}
