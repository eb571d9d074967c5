//! `toolpost tools`: lists, shows and validates tools; adds, removes and tries tools of a running service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::access::Access;
use crate::app::App;
use crate::domain::{ExecutorSpec, ToolDefinition};
use crate::formats::definitions::Format;
use crate::registry::definitions::{NativeItem, NativeList};
use crate::registry::{Snapshot, ToolRecord, View};
use crate::schema;

use super::error::CliError;
use super::options::Options;
use super::remote::ServerArgs;
use super::tenant::TenantArg;
use super::{Exit, print};

mod change;
mod remote;
mod show;
mod validate;

use show::DescribedTool;

/// Maximum length of a description or executor in a list, in characters.
const SHORT: usize = 60;

/// Arguments of `toolpost tools`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    server: ServerArgs,
}

/// Reads `--format`, which has the formats of `GET /tools`.
fn format_parser() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|format| PossibleValue::new(format.name()).help(help_of(format)));
    let read = |name: String| Format::named(&name).ok_or("it is not a format");
    PossibleValuesParser::from(values).try_map(read)
}

/// Returns the help about a format.
fn help_of(format: Format) -> &'static str {
    match format {
        Format::Native => "Toolpost's own format",
        Format::OpenAi => "`tools` of OpenAI's Chat Completions and of compatible servers",
        Format::OpenAiResponses => "`tools` of OpenAI's Responses",
        Format::OpenAiStrict => {
            "`tools` of OpenAI's Chat Completions with `strict`: the model can only generate what the schema allows. A tool \
             whose schema cannot be strict is offered without, with the reason in `not_strict`"
        }
        Format::Anthropic => "`tools` of Anthropic's Messages",
        Format::Gemini => "`tools` of Google's `generateContent`",
        Format::Mcp => "`tools` of the Model Context Protocol's `tools/list`",
        Format::Prompt => "Markdown for a model's prompt",
    }
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the tools; inactive tools are marked, and omitted by --json and --format
    List {
        #[command(flatten)]
        tenant: TenantArg,
        /// Print JSON, as returned by `GET /tools`
        #[arg(long)]
        json: bool,
        /// Print the response of `GET /tools?format=…`: definitions for a vendor's request, or a prompt
        #[arg(long, conflicts_with = "json", value_parser = format_parser())]
        format: Option<Format>,
    },
    /// Show one tool
    Show {
        /// Name of the tool
        name: String,
        #[command(flatten)]
        tenant: TenantArg,
        /// Print the definition as JSON, as returned by `GET /tools/NAME`
        #[arg(long)]
        json: bool,
    },
    /// Register the tools of definition files, *.json and *.toml, with a running service
    Add(change::AddArgs),
    /// Remove registered tools from a running service; a file or built-in tool of the same name returns
    Remove {
        /// Names of the tools
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Validate arguments as a call of a running service would: nothing runs, nothing is counted
    Try {
        /// Name of the tool
        name: String,
        /// Arguments of the tool, a JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        /// Print JSON, as returned by `POST /tools/NAME/validate`
        #[arg(long)]
        json: bool,
    },
    /// Validate definition files, *.json and *.toml, as registration does, without a database
    Validate {
        /// Definition files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(Args { command, server }: Args, options: &Options) -> Result<Exit, CliError> {
    match command {
        Command::List { tenant, json, format } => match server.remote()? {
            Some(service) => {
                tenant.expect_default()?;
                remote::list(&service, json, format).await?;
            }
            None => {
                with_access(options, &tenant, |access| match format {
                    Some(format) => {
                        print::result(&String::from_utf8_lossy(&access.snapshot().rendered(format, false).body))
                    }
                    None => list(&access.snapshot(), json),
                })
                .await?;
            }
        },
        Command::Show { name, tenant, json } => match server.remote()? {
            Some(service) => {
                tenant.expect_default()?;
                remote::show(&service, &name, json).await?;
            }
            None => with_access(options, &tenant, |access| show_stored(access, &name, json)).await?,
        },
        Command::Add(args) => return change::add(&server.required("tools add")?, &args).await,
        Command::Remove { names } => change::remove(&server.required("tools remove")?, &names).await?,
        Command::Try { name, arguments, json } => {
            return remote::try_arguments(&server.required("tools try")?, &name, &arguments, json).await;
        }
        Command::Validate { files, json } => return validate::run(&files, json, options).await,
    }
    Ok(Exit::Success)
}

fn show_stored(access: &Access, name: &str, json: bool) -> Result<(), CliError> {
    let entry = find(access, name)?;
    let active = View::from(&**access.snapshot()).is_available(&entry);
    if json {
        return print::json(&entry.view(None, active));
    }
    let definition = entry.definition();
    let made = &entry.made;
    let described = DescribedTool {
        definition: &definition,
        source: made.source.as_str(),
        revision: made.revision,
        updated_at: made.updated_at,
    };
    print::result(&show::text(&described))
}

/// Runs a command on a tenant's tools, including those of upstream servers, for which it waits a limited time.
async fn with_access(
    options: &Options,
    tenant: &TenantArg,
    work: impl FnOnce(&Access) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let run = async |app: &App| {
        app.upstreams.start();
        app.upstreams.wait_first_attempt(Duration::from_millis(app.config.mcp_servers.start_wait_ms)).await;
        work(&tenant.access(app).await?)
    };
    super::with_app(options.quiet_settings()?, run).await
}

/// Returns the tool of this name, or an error with the nearest name.
pub fn find(access: &Access, name: &str) -> Result<Arc<ToolRecord>, CliError> {
    let snapshot = access.snapshot();
    snapshot.get(name).cloned().ok_or_else(|| {
        let nearest = schema::nearest(name, snapshot.all().iter().map(|entry| &*entry.name));
        let meant = nearest.map_or_else(String::new, |near| format!("Did you mean \"{near}\"? "));
        CliError::usage(format!("unknown tool \"{name}\""))
            .hint(format!("{meant}List the tools of this database and --tools folder with `toolpost tools list`."))
    })
}

fn list(snapshot: &Snapshot, json: bool) -> Result<(), CliError> {
    if json {
        let tools = snapshot.list().iter().map(|tool| NativeItem { tool: tool.view(None, true), score: None });
        let tools: Vec<NativeItem> = tools.collect();
        return print::json(&NativeList { total: tools.len(), tools });
    }
    let rows = snapshot.all().iter().map(|entry| {
        let definition = entry.definition();
        let (executor, active) = (executor(&definition), View::from(snapshot).is_available(entry));
        row(&entry.name, active, entry.made.source.as_str(), &executor, &definition.description)
    });
    print_table(rows)
}

fn print_table(rows: impl Iterator<Item = Vec<String>>) -> Result<(), CliError> {
    print::result(&print::table(&["NAME", "SOURCE", "EXECUTOR", "DESCRIPTION"], rows, usize::MAX))
}

fn row(name: &str, active: bool, source: &str, executor: &str, description: &str) -> Vec<String> {
    let mark = if active { "" } else { " (inactive)" };
    let (executor, description) = (print::one_line(executor, SHORT), print::one_line(description, SHORT));
    vec![format!("{}{mark}", print::one_line(name, 128)), print::one_line(source, SHORT), executor, description]
}

fn executor(definition: &ToolDefinition) -> String {
    match &definition.executor {
        ExecutorSpec::Builtin { name } => format!("builtin {name}"),
        ExecutorSpec::Http(spec) => format!("http {} {}", spec.method, spec.url),
        ExecutorSpec::Process(spec) => format!("process {}", spec.argv.join(" ")),
        ExecutorSpec::Mcp { server, tool } => format!("mcp {server} {tool}"),
        ExecutorSpec::External {} => "external".to_owned(),
        ExecutorSpec::Worker(spec) => format!("worker {}", spec.queue),
    }
}
