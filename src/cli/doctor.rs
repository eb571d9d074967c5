//! `toolpost doctor`: checks everything that a service needs, without changing it, and suggests fixes.

use crate::config::Config;
use serde::Serialize;
use serde_json::json;

use super::error::CliError;
use super::options::{self, Options};
use super::{Exit, print};

mod database;
mod machine;
mod secrets;
mod tools;

/// Arguments of `toolpost doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check this listen address, as for `serve` [env: TOOLPOST_LISTEN]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Check with authentication disabled, as for `serve`
    #[arg(long)]
    insecure_no_auth: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verdict {
    /// Nothing needs to change.
    Ok,
    /// The service works, but the setup can be improved.
    Warn,
    /// The service would not start or not work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    status: Verdict,
    found: String,
    /// How to fix it; `null` if nothing needs to change.
    advice: Option<String>,
}

impl Finding {
    fn ok(found: impl Into<String>) -> Self {
        Self { status: Verdict::Ok, found: found.into(), advice: None }
    }

    fn warn(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Verdict::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Verdict::Fail, found: found.into(), advice: Some(advice.into()) }
    }
}

/// A check with its result.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

impl Check {
    /// Formats the check for people: the finding on one line, the advice on the next.
    fn text(&self) -> String {
        let Self { name, finding: Finding { status, found, advice } } = self;
        let status = format!("{status:?}").to_uppercase();
        let advice = advice.as_ref().map_or_else(String::new, |advice| format!("\n{:24}→ {advice}", ""));
        format!("{status:<6}{name:<18}{found}{advice}")
    }
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let checks = match options.quiet_settings() {
        Ok(mut config) => {
            options::set_listen(&mut config, args.listen);
            config.auth.insecure_no_auth |= args.insecure_no_auth;
            config.log.start();
            all(&config).await
        }
        Err(error) => {
            let advice =
                "Fix the file of --config (TOOLPOST_CONFIG) or the named variable, then run this command again.";
            vec![Check { name: "settings", finding: Finding::fail(error.message, advice) }]
        }
    };
    let is_well = checks.iter().all(|check| check.finding.status != Verdict::Fail);
    if args.json {
        print::json(&json!({ "ok": is_well, "version": env!("CARGO_PKG_VERSION"), "checks": checks }))?;
    } else {
        print::result(&checks.iter().map(Check::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if is_well { Exit::Success } else { Exit::Failure })
}

/// Runs all checks, in the order of a start.
async fn all(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |name, finding| checks.push(Check { name, finding });
    add("settings", Finding::ok("are valid"));
    let database = database::check(config).await;
    database.findings.into_iter().for_each(|(name, finding)| add(name, finding));
    add("egress", secrets::egress(config));
    add("signing secret", secrets::signing_secret(config));
    add("encryption keys", secrets::encryption_keys(config));
    secrets::secrets_file(config).into_iter().for_each(|finding| add("secrets file", finding));
    tools::check(config).await.into_iter().for_each(|(name, finding)| add(name, finding));
    add("workspace", tools::workspace(config));
    add("listen address", machine::listen(config, database.has_keys).await);
    add("open files", machine::open_files());
    add("clock", machine::clock(database.now));
    machine::traces(config).await.into_iter().for_each(|finding| add("traces", finding));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_on_its_own_line() {
        let text = |name, finding| Check { name, finding }.text();
        assert_eq!(text("clock", Finding::ok("right")), "OK    clock             right");
        let text = text("database", Finding::fail("unavailable", "Start it."));
        assert_eq!(text, "FAIL  database          unavailable\n                        → Start it.");
    }
}
