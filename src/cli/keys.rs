//! `toolpost keys`: manages API keys and shows the signing secret.

use crate::app;
use crate::store::Store;
use serde::Serialize;

use super::error::CliError;
use super::options::Options;
use super::{Exit, print};

mod callers;

pub use callers::tenant;

/// Arguments of `toolpost keys`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an API key and print it once, on the last line; a running service accepts it within a second
    Create(callers::Create),
    /// List API keys
    List(callers::List),
    /// Revoke an API key; services reject it within 5 seconds
    Revoke(callers::Revoke),
    /// Show the secret that signs outgoing requests (Standard Webhooks), for their receivers; it is generated if none
    /// exists [env: TOOLPOST_SIGNING_SECRET]
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
    crate::telemetry::start(&config.log);
    let database = config.database_url();
    let secret = match app::given_signing_secret(&config) {
        Ok(Some(secret)) => Ok(secret),
        Err(error) => Err(error),
        // The store is enough: no tools are loaded, and nothing runs.
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
