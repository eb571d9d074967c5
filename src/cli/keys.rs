//! `toolpost keys`: who may call, and what outgoing requests are signed with.

use serde::Serialize;
use toolpost::app;
use toolpost::store::Store;

use super::error::CliError;
use super::options::Options;
use super::{Exit, print};

mod callers;

pub use callers::tenant;

/// Which key.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a key that callers show, and print it once, on the last line; a running service knows it within a second
    Create(callers::Create),
    /// List the keys of callers
    List(callers::List),
    /// Revoke a key: 5 s later no service takes it any more
    Revoke(callers::Revoke),
    /// Show what outgoing requests are signed with (Standard Webhooks), for whoever has to check them; it is made if
    /// there is none [env: TOOLPOST_SIGNING_SECRET]
    SigningSecret {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct SigningSecretOutput<'a> {
    signing_secret: &'a str,
}

pub async fn run(Args { command }: Args, options: &Options) -> Result<Exit, CliError> {
    let json = match command {
        Command::Create(args) => return callers::create(args, options).await,
        Command::List(args) => return callers::list(args, options).await,
        Command::Revoke(args) => return callers::revoke(args, options).await,
        Command::SigningSecret { json } => json,
    };
    let config = options.quiet_settings()?;
    toolpost::telemetry::start(&config.log);
    let database = config.database_url();
    let secret = match app::given_signing_secret(&config) {
        Ok(Some(secret)) => Ok(secret),
        Err(error) => Err(error),
        // Only the store is needed: no tools are read, and nothing runs.
        Ok(None) => {
            async {
                let store = Store::open(&database).await?;
                let secret = app::kept_signing_secret(&store).await;
                store.close().await;
                secret
            }
            .await
        }
    };
    let secret = secret.map_err(|error| CliError::start(error, &database))?;
    if json {
        print::json_line(&SigningSecretOutput { signing_secret: &secret })?
    } else {
        print::result(&secret)?
    }
    Ok(Exit::Success)
}
