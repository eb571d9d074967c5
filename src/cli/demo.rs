//! `toolpost demo`: a service with a handful of tools and a stream of calls, to try the product and its console.

use std::net::SocketAddr;

use clap::builder::NonEmptyStringValueParser;
use tokio_util::sync::CancellationToken;

use super::error::CliError;
use super::options::{self, Options};
use super::{Exit, print, serve};
use crate::app::App;
use crate::config::Config;
use crate::domain::policy::{PolicyDefinition, PolicyEffect};

mod calls;
mod tools;

/// Arguments of `toolpost demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Listen on this address; port 0 selects a free port [default: 127.0.0.1:8080] [env: TOOLPOST_LISTEN]
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    listen: Option<String>,
    /// Make so many calls per second, on average
    #[arg(long, value_name = "NUMBER", default_value_t = 2.0, value_parser = per_second)]
    rate: f64,
}

/// Maximum number of calls per second.
const MAX_RATE: f64 = 1000.0;

fn per_second(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=MAX_RATE).contains(rate));
    rate.ok_or_else(|| format!("expected a number from 0 to {MAX_RATE}"))
}

/// Returns a policy for which calls wait in the approvals of the console.
fn large_refunds() -> PolicyDefinition {
    PolicyDefinition {
        name: "large-refunds".to_owned(),
        when: "tool.name == 'refund_payment' && args.cents > 50000".to_owned(),
        effect: PolicyEffect::Approve,
        priority: 0,
        reason: Some("Refunds above 500.00 need a person.".to_owned()),
        enabled: true,
    }
}

/// Runs the service until a signal. It listens on this machine only, and its database is in memory.
pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let mut config = options.bare_settings()?;
    options::set_listen(&mut config, args.listen);
    config.policies = vec![large_refunds()];
    let calls = |address: SocketAddr, stop: CancellationToken| {
        print::note(&format!("The console is at http://{address}/console. All data is gone when the demo ends."));
        tokio::spawn(stop.run_until_cancelled_owned(calls::make(address, args.rate)));
    };
    let build = |config: Config| tools::add(App::builder(config));
    Box::pin(serve::until_signal(config, build, calls)).await
}
