//! `toolpost policies`: lists policies, and tells what a policy would have decided about stored calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use super::error::CliError;
use super::moment::moment;
use super::options::Options;
use super::tenant::TenantArg;
use super::{Exit, print};
use crate::access::Access;
use crate::app::App;
use crate::domain::policy::PolicyDefinition;
use crate::domain::{Clock, Time, decode};
use crate::policies::{BacktestResult, backtest, with_policy};
use crate::policies::{Policy, PolicySource, sort};
use crate::store::calls::CallFilter;

/// Maximum length of a condition in the table, in characters.
const LONGEST: usize = 80;

/// Arguments of `toolpost policies`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    tenant: TenantArg,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the policies, in the order in which they are evaluated
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell what policies would have decided about stored calls; nothing changes
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// JSON file with a policy, which is added to those in force or replaces the one of its name; or with an array of
    /// policies, which replace all
    file: PathBuf,
    /// Evaluate calls accepted at or after this time: RFC 3339, a day in UTC such as 2026-01-31, or an age such as 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Time,
    /// Evaluate only calls accepted before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    /// Evaluate only calls of this tool
    #[arg(long, value_name = "TOOL", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Evaluate at most this number of calls, newest first
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print JSON, as returned by `POST /policies/test`
    #[arg(long)]
    json: bool,
}

pub async fn run(Args { command, tenant }: Args, options: &Options) -> Result<Exit, CliError> {
    super::with_app(options.quiet_settings()?, async |app| {
        let access = tenant.access(app).await?;
        match &command {
            Command::List { json } => list(app, &access, *json),
            Command::Test(args) => test(app, &access, args).await,
        }
    })
    .await?;
    Ok(Exit::Success)
}

fn list(app: &App, access: &Access, json: bool) -> Result<(), CliError> {
    let policies = app.engine.policies().for_tenant(access.tenant());
    if json {
        return print::json(&policies.iter().map(|policy| &**policy).collect::<Vec<_>>());
    }
    let rows = policies.iter().map(|policy| {
        let PolicyDefinition { name, when, effect, priority, enabled, .. } = &policy.definition;
        let source = if policy.source == PolicySource::Config { "settings" } else { "api" };
        let enabled = if *enabled { "yes" } else { "no" };
        let when = print::one_line(when, LONGEST);
        [name.clone(), print::word(effect), priority.to_string(), enabled.to_owned(), source.to_owned(), when]
    });
    print::result(&print::table(&["NAME", "EFFECT", "PRIORITY", "ENABLED", "SOURCE", "WHEN"], rows, usize::MAX))
}

async fn test(app: &App, access: &Access, args: &TestArgs) -> Result<(), CliError> {
    let TestArgs { file, since, until, name, limit, json } = args;
    let policies = read(file, &app.engine.policies().for_tenant(access.tenant()))?;
    let calls = CallFilter { name: name.clone(), since: Some(*since), until: *until, ..CallFilter::default() };
    let result = backtest(access, (policies.into(), app.engine.policies().bounds()), calls, *limit).await;
    let result = result.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
    if *json { print::json(&result) } else { print::result(&text(&result)) }
}

/// Reads the policies to try from a file.
fn read(file: &Path, in_force: &[Arc<Policy>]) -> Result<Vec<Arc<Policy>>, CliError> {
    let named = |message: String| CliError::usage(format!("{}: {message}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
    let compile = |pointer: String, value: Value| {
        let definition = decode::read::<PolicyDefinition>(value);
        let definition = definition.map_err(|error| named(format!("{pointer}{}: {}", error.pointer, error.message)))?;
        definition.check().map_err(|(member, message)| named(format!("{pointer}{member}: {message}")))?;
        let policy = Policy::compile(definition, PolicySource::Api, Clock::system().now());
        policy.map(Arc::new).map_err(|error| named(format!("{pointer}/when: {error}")))
    };
    match value {
        Value::Array(values) => {
            let values = values.into_iter().enumerate();
            let compiled = values.map(|(index, value)| compile(format!("/{index}"), value));
            let mut policies = compiled.collect::<Result<Vec<_>, _>>()?;
            sort(&mut policies);
            Ok(policies)
        }
        value => Ok(with_policy(in_force, compile(String::new(), value)?)),
    }
}

fn text(result: &BacktestResult) -> String {
    let counts = [
        ("evaluated", result.evaluated),
        ("allowed", result.allowed),
        ("denied", result.denied),
        ("approval", result.approval),
        ("failed", result.failed),
        ("changed", result.changed),
    ];
    let counts = print::facts(&counts.map(|(name, count)| (name, count.to_string())));
    if result.examples.is_empty() {
        return counts;
    }
    let rows = result.examples.iter().map(|example| {
        let (before, after) = (print::word(&example.before), print::word(&example.after));
        [example.id.to_string(), print::one_line(&example.name, 32), before, after]
    });
    format!("{counts}\n\n{}", print::table(&["ID", "TOOL", "BEFORE", "AFTER"], rows, usize::MAX))
}
