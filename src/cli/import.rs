//! `toolpost import`: imports tools from API documents into this database, a running service or a file.

use std::time::Duration;

use crate::domain::json;
use crate::import::document::{self, Bounds};
use crate::import::{Credential, ImportError, ImportPlan, Options as Wanted, Report};
use crate::registry::imports::{ImportMode, register};
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use super::error::CliError;
use super::options::{self, Options};
use super::{Exit, print};

mod source;

use source::Document;

/// Timeout of a request to a service.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum length of the response of a service, in bytes.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;
/// Maximum length of the name of an operation in the output, in characters.
const LONGEST_OPERATION: usize = 60;
/// Maximum length of a reason in the output, in characters.
const LONGEST_REASON: usize = 200;

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
        Some(service) => by_service(service, &args, document).await?,
        None => here(&args, document, options).await?,
    };
    // Standard output contains only the definitions.
    if args.out.as_deref() == Some("-") {
        print::note(&text(&report, &args));
    } else if args.json {
        print::json(&report)?;
    } else {
        print::result(&text(&report, &args))?;
    }
    Ok(if report.refused.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Imports without a service: into the database, or into a file, which needs no database.
async fn here(args: &Openapi, document: Document, options: &Options) -> Result<Report, CliError> {
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
    super::with_app(settings, async |app| {
        let imported = app.engine.registry().check_imported(app.store.tenant(), imported);
        if let Some(file) = &args.out {
            return write(file, imported, args.dry_run);
        }
        let how = ImportMode { replace: args.replace, dry_run: args.dry_run };
        let report = register(app.engine.registry(), &app.store, imported, how).await;
        report.map_err(|error| CliError::store(&error, &database))
    })
    .await
}

/// Imports through a running service.
async fn by_service(service: &str, args: &Openapi, document: Document) -> Result<Report, CliError> {
    let text = String::from_utf8(document.bytes)
        .map_err(|_| CliError::usage(format!("{}: the document is not valid UTF-8", args.source)))?;
    let auth: Vec<String> = args.auth.iter().map(ToString::to_string).collect();
    let body = serde_json::json!({
        "document": text, "url": document.url.as_ref().map(url::Url::as_str), "server": args.server, "auth": auth, "only": args.only,
        "prefix": args.prefix, "replace": args.replace, "dry_run": args.dry_run,
    });
    let url = format!("{}/imports/openapi", service.trim_end_matches('/'));
    let mut request = source::client(TIMEOUT)?.post(&url).json(&body);
    if let Some(key) = options::variable("TOOLPOST_API_KEY") {
        request = request.bearer_auth(key);
    }
    let unreachable = |error: reqwest::Error| {
        CliError::unavailable(format!("cannot reach the service: {}", source::causes(&error)))
            .hint("Set --to to the address that `toolpost serve` prints, or omit it to use the database.")
    };
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let bytes = source::body(response, MAX_RESPONSE).await.map_err(unreachable)?;
    let bytes = bytes.ok_or_else(|| CliError::unavailable(format!("{url} returned more than {MAX_RESPONSE} bytes")))?;
    if status.is_success() {
        let not_a_report = |_| CliError::unavailable(format!("{url} did not return a valid import report"));
        return serde_json::from_slice(&bytes).map_err(not_a_report);
    }
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or_default();
    let what = json::shorten(&format!("the service returned HTTP {status}: {detail}"), 2000);
    Err(match status.as_u16() {
        413 => CliError::usage(what).hint("Omit --to to use the database, or write a file with --out."),
        400..500 => CliError::usage(what),
        _ => CliError::unavailable(what),
    })
}

/// Writes the definitions as a file of the tools folder. It contains only the names of secrets.
fn write(file: &str, imported: ImportPlan, dry_run: bool) -> Result<Report, CliError> {
    let ImportPlan { title, offered, refused, warnings } = imported;
    let created = offered.iter().map(|tool| tool.definition.name.clone()).collect();
    if !dry_run {
        let kept: Result<Vec<Value>, _> = offered
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

/// Formats a report as text.
fn text(report: &Report, args: &Openapi) -> String {
    let mut rows = Vec::new();
    let mut counted = Vec::new();
    let mut count = |number: usize, what: &str| counted.extend((number > 0).then(|| format!("{number} {what}")));
    for (names, what) in
        [(&report.created, "created"), (&report.replaced, "replaced"), (&report.unchanged, "unchanged")]
    {
        rows.extend(names.iter().map(|name| row(what, name, "")));
        count(names.len(), what);
    }
    rows.extend(report.refused.iter().map(|refused| row("refused", &refused.operation, &refused.reason)));
    count(report.refused.len(), "refused");
    rows.extend(
        report
            .warnings
            .iter()
            .map(|warned| row("warning", warned.operation.as_deref().unwrap_or("(document)"), &warned.message)),
    );
    let counted = if counted.is_empty() { "nothing to import".to_owned() } else { counted.join(", ") };
    let title = report.title.as_deref().map_or_else(String::new, |title| format!("{}: ", print::one_line(title, 80)));
    let trial = if args.dry_run { " (nothing was changed: --dry-run)" } else { "" };
    let summary = format!("{title}{counted}{trial}");
    if rows.is_empty() {
        summary
    } else {
        format!("{}\n{summary}", print::table(&["RESULT", "TOOL OR OPERATION", ""], rows, usize::MAX))
    }
}

fn row(what: &str, name: &str, why: &str) -> Vec<String> {
    vec![what.to_owned(), print::one_line(name, LONGEST_OPERATION), print::one_line(why, LONGEST_REASON)]
}
