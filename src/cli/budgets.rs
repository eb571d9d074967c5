//! `toolpost budgets`: shows budgets and their use, also while the service runs.

use clap::Subcommand;

use super::error::CliError;
use super::options::Options;
use super::tenant::TenantArg;
use super::{Exit, print};
use crate::access::Access;
use crate::app::App;
use crate::domain::budget::BudgetMatch;
use crate::http::BudgetView;

/// Maximum length of the conditions in the table, in characters.
const LONGEST: usize = 60;

/// Arguments of `toolpost budgets`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    tenant: TenantArg,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the budgets with their use, by name
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one budget as JSON, as returned by `GET /budgets/{name}`
    Show {
        /// Name of the budget
        name: String,
    },
}

pub async fn run(Args { command, tenant }: Args, options: &Options) -> Result<Exit, CliError> {
    super::with_app(options.quiet_settings()?, async |app| {
        let budgets = read(app, &tenant.access(app).await?).await?;
        match &command {
            Command::List { json: true } => print::json(&budgets),
            Command::List { json: false } => print::result(&table(&budgets)),
            Command::Show { name } => {
                let found = budgets.iter().find(|budget| budget.definition.name == *name);
                print::json(found.ok_or_else(|| {
                    CliError::usage(format!("unknown budget \"{name}\""))
                        .hint("List them with `toolpost budgets list`.")
                })?)
            }
        }
    })
    .await?;
    Ok(Exit::Success)
}

async fn read(app: &App, access: &Access) -> Result<Vec<BudgetView>, CliError> {
    let mut budgets = Vec::new();
    for budget in app.engine.budgets().for_tenant(access.tenant()).iter() {
        let usage = app.engine.budgets().usage(budget).await;
        let usage = usage.map_err(|error| CliError::store(&error, &app.config.database_url()))?;
        budgets.push(BudgetView::new(budget, usage));
    }
    Ok(budgets)
}

fn table(budgets: &[BudgetView]) -> String {
    let rows = budgets.iter().map(|budget| {
        let definition = &budget.definition;
        let resets_at = budget.resets_at.map_or_else(String::new, |time| time.to_string());
        let [used, reserved, limit] = budget.nearer_use();
        let hours = definition.window_ms as f64 / 3_600_000.0;
        let (unit, window) = (print::word(&budget.unit), format!("{hours} h"));
        [definition.name.clone(), conditions(&definition.matches), resets_at, unit, window, used, reserved, limit]
    });
    print::table(&["NAME", "MATCH", "RESETS", "UNIT", "WINDOW", "USED", "RESERVED", "LIMIT"], rows, 4)
}

fn conditions(BudgetMatch { tools, sessions, keys }: &BudgetMatch) -> String {
    let lists = [("tools", tools), ("sessions", sessions), ("keys", keys)];
    let named = lists.iter().filter(|(_, list)| !list.is_empty());
    let named: Vec<_> = named.map(|(name, list)| format!("{name}: {}", list.join(", "))).collect();
    if named.is_empty() { "all calls".to_owned() } else { print::one_line(&named.join("; "), LONGEST) }
}
