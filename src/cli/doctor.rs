//! `toolpost doctor`: checks everything that a service needs, without changing it, and suggests fixes.

use crate::config::Config;
use serde::Serialize;

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
struct Check {
    name: &'static str,
    status: Verdict,
    /// The finding.
    found: String,
    /// How to fix it; `null` if nothing needs to change.
    advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Verdict::Ok, found: found.into(), advice: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Verdict::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Verdict::Fail, found: found.into(), advice: Some(advice.into()) }
    }

    /// Formats the check for people: the finding on one line, the advice on the next.
    fn text(&self) -> String {
        let status = match self.status {
            Verdict::Ok => "OK",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
        };
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("\n{:24}→ {advice}", ""));
        format!("{status:<6}{:<18}{}{advice}", self.name, self.found)
    }
}

#[derive(Serialize)]
struct Report<'a> {
    /// Whether a service can start and work.
    ok: bool,
    version: &'static str,
    checks: &'a [Check],
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let checks = match options.quiet_settings() {
        Ok(mut config) => {
            if let Some(listen) = args.listen.or_else(|| options::variable(&options::environment, "TOOLPOST_LISTEN")) {
                config.server.listen = listen;
            }
            config.auth.insecure_no_auth |= args.insecure_no_auth;
            crate::telemetry::start(&config.log);
            all(&config).await
        }
        Err(error) => {
            let advice =
                "Fix the file of --config (TOOLPOST_CONFIG) or the named variable, then run this command again.";
            vec![Check::fail("settings", error.message(), advice)]
        }
    };
    let is_well = checks.iter().all(|check| check.status != Verdict::Fail);
    if args.json {
        print::json(&Report { ok: is_well, version: env!("CARGO_PKG_VERSION"), checks: &checks })?;
    } else {
        print::result(&checks.iter().map(Check::text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if is_well { Exit::Success } else { Exit::Failure })
}

/// Runs all checks, in the order of a start.
async fn all(config: &Config) -> Vec<Check> {
    let mut checks = vec![Check::ok("settings", "are valid")];
    let database = database::check(config).await;
    checks.extend(database.checks);
    checks.push(secrets::egress(config));
    checks.push(secrets::signing_secret(config));
    checks.push(secrets::encryption_keys(config));
    checks.extend(secrets::secrets_file(config));
    checks.extend(tools::check(config).await);
    checks.push(tools::workspace(config));
    checks.push(machine::listen(config, database.has_keys).await);
    checks.push(machine::open_files());
    checks.push(machine::clock(database.now));
    checks.extend(machine::traces(config).await);
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_on_its_own_line() {
        assert_eq!(Check::ok("clock", "right").text(), "OK    clock             right");
        let text = Check::fail("database", "unavailable", "Start it.").text();
        assert_eq!(text, "FAIL  database          unavailable\n                        → Start it.");
    }
}
