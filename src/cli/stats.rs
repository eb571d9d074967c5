//! `toolpost stats`: shows call counts, failures and durations of tools.

use std::collections::BTreeMap;

use crate::app::App;
use crate::domain::stats::{ToolStats, UNKNOWN_TOOL};
use serde::{Deserialize, Serialize};

use super::error::CliError;
use super::options::Options;
use super::remote::{Query, Remote, ServerArgs};
use super::tenant::TenantArg;
use super::{Exit, print, tools};

/// Arguments of `toolpost stats`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this tool
    name: Option<String>,
    #[command(flatten)]
    tenant: TenantArg,
    /// Print JSON, as returned by `GET /stats`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// The statistics of all tools, including tools without calls.
#[derive(Debug, Serialize, Deserialize)]
struct AllStats {
    tools: Vec<ToolStats>,
    /// The shared statistics of all calls of unknown tools.
    unknown_tools: ToolStats,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    match args.server.remote()? {
        Some(remote) => show_of_service(&remote, &args).await?,
        None => super::with_app(options.quiet_settings()?, async |app| show(app, &args).await).await?,
    }
    Ok(Exit::Success)
}

async fn show_of_service(remote: &Remote, Args { name, tenant, json, .. }: &Args) -> Result<(), CliError> {
    tenant.expect_default()?;
    let path: &[&str] = match name {
        Some(name) => &["tools", name, "stats"],
        None => &["stats"],
    };
    let answer = remote.get(path, &Query::default()).await?;
    if *json {
        return print::json(&answer);
    }
    match name {
        Some(_) => print::result(&one(&remote.read(answer)?)),
        None => print::result(&table(&remote.read(answer)?)),
    }
}

async fn show(app: &App, Args { name, tenant, json, .. }: &Args) -> Result<(), CliError> {
    let database = app.config.database_url();
    let access = tenant.access(app).await?;
    let stored = access.store().stats(name.as_deref()).await.map_err(|error| CliError::store(&error, &database))?;
    if let Some(name) = name {
        let stats = match stored.into_iter().next() {
            // A deleted tool keeps its statistics.
            Some(stats) => stats,
            None => tools::find(&access, name).map(|_| ToolStats::never_called(name))?,
        };
        return if *json { print::json(&stats) } else { print::result(&one(&stats)) };
    }
    let all = all_stats(stored, access.snapshot().all().iter().map(|entry| &*entry.name));
    if *json { print::json(&all) } else { print::result(&table(&all)) }
}

fn all_stats<'a>(stored: Vec<ToolStats>, names: impl Iterator<Item = &'a str>) -> AllStats {
    let mut tools: BTreeMap<String, ToolStats> =
        names.map(|name| (name.to_owned(), ToolStats::never_called(name))).collect();
    tools.extend(stored.into_iter().map(|stats| (stats.tool_name.clone(), stats)));
    let unknown_tools = tools.remove(UNKNOWN_TOOL).unwrap_or_else(|| ToolStats::never_called(UNKNOWN_TOOL));
    AllStats { tools: tools.into_values().collect(), unknown_tools }
}

fn table(AllStats { tools, unknown_tools }: &AllStats) -> String {
    const HEADER: [&str; 10] =
        ["NAME", "LAST CALL", "RUNS", "GOOD", "BAD", "REJECTED", "AVG MS", "P50 MS", "P95 MS", "MAX MS"];
    let unknown = (unknown_tools.rejected_count > 0).then_some(("(unknown tools)", unknown_tools));
    let rows = tools.iter().map(|stats| (stats.tool_name.as_str(), stats)).chain(unknown).map(|(name, stats)| {
        let numbers = [
            stats.execution_count,
            stats.success_count,
            stats.failure_count,
            stats.rejected_count,
            stats.average_duration_ms,
            stats.p50_duration_ms,
            stats.p95_duration_ms,
            stats.max_duration_ms,
        ];
        let words = [name.to_owned(), print::when(stats.last_called_at)];
        words.into_iter().chain(numbers.map(|number| number.to_string())).collect::<Vec<String>>()
    });
    print::table(&HEADER, rows, 2)
}

fn one(stats: &ToolStats) -> String {
    let by_code = |codes: &BTreeMap<String, u64>| {
        let codes: Vec<String> = codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
        if codes.is_empty() { String::new() } else { format!("  ({})", codes.join(", ")) }
    };
    let rows = [
        ("tool", print::one_line(&stats.tool_name, 128)),
        ("last call", print::when(stats.last_called_at)),
        ("runs", stats.execution_count.to_string()),
        ("good", stats.success_count.to_string()),
        ("bad", format!("{}{}", stats.failure_count, by_code(&stats.failures_by_code))),
        ("from cache", stats.cache_hit_count.to_string()),
        ("rejected", format!("{}{}", stats.rejected_count, by_code(&stats.rejected_by_code))),
        (
            "duration",
            format!(
                "{} ms on average, {} to {} ms; p50 {}, p95 {}, p99 {} ms",
                stats.average_duration_ms,
                stats.min_duration_ms,
                stats.max_duration_ms,
                stats.p50_duration_ms,
                stats.p95_duration_ms,
                stats.p99_duration_ms
            ),
        ),
    ];
    print::facts(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_line_and_unknown_tools_share_one() {
        let count = |name: &str, rejected_count| ToolStats { rejected_count, ..ToolStats::never_called(name) };
        let all = all_stats(vec![count("", 7), count("gone", 2)], ["echo", "wait"].into_iter());
        let names: Vec<&str> = all.tools.iter().map(|stats| stats.tool_name.as_str()).collect();
        assert_eq!((names, all.unknown_tools.rejected_count), (vec!["echo", "gone", "wait"], 7));
        assert_eq!(table(&all).lines().count(), 5);
        assert!(!table(&all_stats(Vec::new(), ["echo"].into_iter())).contains("unknown"));
    }
}
