//! `toolpost import`: tools out of documents of others, into this database, a running service, or a file.

use clap::builder::NonEmptyStringValueParser;
use toolpost::app::App;
use toolpost::import::document::{self, Bounds};
use toolpost::import::{Credential, ImportError, ImportPlan, Options as Wanted, Report};
use toolpost::registry::imports::{ImportMode, register};

use super::error::CliError;
use super::options::Options;
use super::{Exit, print};

mod service;
mod show;
mod source;

/// What to import.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make each operation of an OpenAPI document (2.0, 3.0 or 3.1) a tool that asks its server
    Openapi(Box<Openapi>),
}

#[derive(Debug, clap::Args)]
struct Openapi {
    /// The document, JSON or YAML: a file, an http:// or https:// URL, or - for standard input
    #[arg(value_name = "FILE-OR-URL", value_parser = NonEmptyStringValueParser::new())]
    source: String,
    /// Where requests go, instead of where the document says
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// What requests are authorised with, repeatable: bearer:SECRET, basic:USER:SECRET, header:NAME:SECRET,
    /// query:NAME:SECRET or cookie:NAME:SECRET, where SECRET is the name of a secret (X is TOOLPOST_SECRET_X)
    #[arg(long, value_name = "CREDENTIAL")]
    auth: Vec<Credential>,
    /// Only these, repeatable: a tag, an operationId, a path, or "GET /path"
    #[arg(long, value_name = "TAG-OR-OPERATION", value_parser = NonEmptyStringValueParser::new())]
    only: Vec<String>,
    /// What the names of the tools begin with
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// Replace registered tools of the same names
    #[arg(long)]
    replace: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Write the definitions into a file for --tools, instead of registering them; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "replace"])]
    out: Option<String>,
    /// Register with a running service instead of its database; TOOLPOST_API_KEY is sent as its key
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    to: Option<String>,
    /// Print JSON, as `POST /imports/openapi` answers it
    #[arg(long)]
    json: bool,
}

pub async fn run(Args { command }: Args, options: &Options) -> Result<Exit, CliError> {
    let Command::Openapi(asked) = command;
    let document = source::read(&asked.source).await?;
    let report = match &asked.to {
        Some(service) => service::import(service, &asked, document).await?,
        None => here(&asked, document, options).await?,
    };
    // The definitions have standard output for themselves.
    if asked.out.as_deref() == Some("-") {
        print::note(&show::text(&report, &asked));
    } else if asked.json {
        print::json(&report)?;
    } else {
        print::result(&show::text(&report, &asked))?;
    }
    Ok(if report.refused.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Imports without a service: into the database, or a file, which needs the rules only.
async fn here(asked: &Openapi, document: source::Document, options: &Options) -> Result<Report, CliError> {
    let wanted = Wanted {
        server: asked.server.clone(),
        credentials: asked.auth.clone(),
        only: asked.only.clone(),
        prefix: asked.prefix.clone(),
        document_url: document.url,
    };
    let name = &asked.source;
    let document = document::read(&document.bytes, Bounds::OWN).map_err(|error| refused(&error, name))?;
    let imported = document.import(&wanted).map_err(|error| refused(&error, name))?;
    let settings = if asked.out.is_some() { options.bare_settings()? } else { options.quiet_settings()? };
    let database = settings.database_url();
    let app = super::start_beside(settings).await?;
    let imported = app.engine.registry().check_imported(app.store.tenant(), imported);
    let report = match &asked.out {
        Some(file) => write(file, imported, asked.dry_run),
        None => stored(&app, imported, asked, &database).await,
    };
    app.stop().await;
    report
}

async fn stored(app: &App, imported: ImportPlan, asked: &Openapi, database: &str) -> Result<Report, CliError> {
    let how = ImportMode { replace: asked.replace, dry_run: asked.dry_run };
    let report = register(app.engine.registry(), &app.store, imported, how).await;
    report.map_err(|error| CliError::store(&error, database))
}

/// Writes the definitions as a file of the tools folder. Secrets are named in it, so nothing of it is hidden.
fn write(file: &str, imported: ImportPlan, dry_run: bool) -> Result<Report, CliError> {
    let ImportPlan { title, offered, refused, warnings } = imported;
    let created = offered.iter().map(|tool| tool.definition.name.clone()).collect();
    if !dry_run {
        let kept: Result<Vec<serde_json::Value>, _> = offered
            .iter()
            .map(|tool| tool.definition.to_stored().and_then(|text| serde_json::from_str(&text)))
            .collect();
        let text = kept.and_then(|kept| serde_json::to_string_pretty(&kept));
        let text = text.map_err(|error| CliError::unusable(format!("the definitions cannot be written: {error}")))?;
        if file == "-" {
            print::result(&text)?;
        } else {
            std::fs::write(file, text + "\n").map_err(|error| {
                CliError::usage(format!("{file} cannot be written: {error}"))
                    .hint("Name a file in a folder that there is; `toolpost serve --tools DIR` reads *.json files.")
            })?;
        }
    }
    Ok(Report { title, created, refused, warnings, ..Report::default() })
}

/// A document, or an option, that nothing can be made of.
fn refused(error: &ImportError, source: &str) -> CliError {
    match error.option {
        Some(option) => CliError::usage(format!("--{option}: {error}")),
        None if error.pointer.is_empty() => CliError::usage(format!("{source}: {error}")),
        None => CliError::usage(format!("{source}: {}: {error}", error.pointer)),
    }
}
