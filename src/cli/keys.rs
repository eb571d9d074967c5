//! `toolpost keys`: manages API keys directly in the database, and shows the signing secret.

use crate::app;
use crate::auth::create::NewKey;
use crate::config::Config;
use crate::domain::{Clock, IdGenerator, Scope, Tenant, Time};
use crate::store::Store;
use crate::store::keys::StoredKey;
use serde_json::json;
use uuid::Uuid;

use super::error::CliError;
use super::options::Options;
use super::{Exit, print, query};

/// Number of keys that are read at once.
const PAGE: u32 = 500;

/// Arguments of `toolpost keys`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an API key and print it once, on the last line; a running service accepts it within a second
    Create(Create),
    /// List API keys
    List {
        /// List only keys of this tenant
        #[arg(long, value_name = "NAME", value_parser = tenant)]
        tenant: Option<Tenant>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke an API key; services reject it within 5 seconds
    Revoke {
        /// Id of the key as shown by `toolpost keys list`
        id: Uuid,
    },
    /// Show the secret that signs outgoing requests (Standard Webhooks), for their receivers; it is generated if none
    /// exists [env: TOOLPOST_SIGNING_SECRET]
    SigningSecret {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Grant this scope: call, read, tools, approve, work, or admin, which includes all; repeatable
    #[arg(long = "scope", required = true, value_name = "SCOPE", value_delimiter = ',', value_parser = scope)]
    scopes: Vec<Scope>,
    /// Create the key for this tenant; tenants are isolated from each other
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = tenant)]
    tenant: Tenant,
    /// Allow only tools whose names match this glob; repeatable
    #[arg(long = "tool", value_name = "GLOB")]
    tools: Vec<String>,
    /// Let a worker's key fetch calls only from queues whose names match this glob; repeatable
    #[arg(long = "queue", value_name = "GLOB")]
    queues: Vec<String>,
    /// Let the key expire after this time, such as 30d, 12h or 4w [default: never]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// Set a display name
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    name: String,
    /// Limit the requests per minute on each node
    #[arg(long, value_name = "NUMBER")]
    rate: Option<u32>,
    /// Limit the concurrent requests on each node
    #[arg(long, value_name = "NUMBER")]
    concurrency: Option<u32>,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::named(text).ok_or_else(|| "must be one of call, read, tools, approve, work and admin".to_owned())
}

/// Parses a tenant argument.
pub fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::named(text).ok_or_else(|| "must have 1 to 128 characters and no control characters".to_owned())
}

pub async fn run(Args { command }: Args, options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    match command {
        Command::Create(args) => create(args, &config).await?,
        Command::List { tenant, json } => list(tenant, json, &config).await?,
        Command::Revoke { id } => revoke(id, &config).await?,
        Command::SigningSecret { json } => signing_secret(json, &config).await?,
    }
    Ok(Exit::Success)
}

async fn create(args: Create, config: &Config) -> Result<(), CliError> {
    let Create { scopes, tenant, tools, queues, expires, name, rate, concurrency } = args;
    let scopes = scopes.into_iter().collect();
    let new = NewKey { tenant, name, scopes, tools, queues, expires, rate, concurrency };
    let (stored, key) =
        new.create_key(IdGenerator::random().next(), Clock::system().now()).map_err(|fault| match fault {
            Some((pointer, message)) => CliError::usage(format!("{}: {message}", flag_of(&pointer))),
            None => CliError::unavailable("the operating system provides no random bytes"),
        })?;
    query(config, async |stores| stores.insert_key(&stored).await).await?;
    let scopes = stored.scopes.to_text();
    print::note(&format!(
        "created key {} of tenant \"{}\" with scopes {scopes}; it will not be shown again",
        stored.id,
        stored.tenant.as_str()
    ));
    print::result(&key)
}

/// Returns the flag for the pointer of a fault.
fn flag_of(pointer: &str) -> String {
    let pointer = pointer.trim_start_matches('/');
    match pointer.split('/').next().unwrap_or_default() {
        "tools" => "--tool".to_owned(),
        "queues" => "--queue".to_owned(),
        "scopes" => "--scope".to_owned(),
        other => format!("--{other}"),
    }
}

async fn list(tenant: Option<Tenant>, json: bool, config: &Config) -> Result<(), CliError> {
    let keys = query(config, async |stores| {
        let mut all: Vec<StoredKey> = Vec::new();
        loop {
            let page = stores.keys(tenant.as_ref(), all.last().map(|key| key.id), PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    })
    .await?;
    if json {
        return print::json(&keys);
    }
    let now = Clock::system().now();
    let rows = keys.iter().map(|key| {
        let tools = if key.tools.is_empty() { "*".to_owned() } else { key.tools.join(" ") };
        vec![
            key.id.to_string(),
            format!("{}…", key.prefix),
            print::one_line(key.tenant.as_str(), 32),
            key.scopes.to_text(),
            print::one_line(&tools, 32),
            state(key, now),
            print::when(key.last_used_at),
            print::one_line(&key.name, 32),
        ]
    });
    let header = ["ID", "KEY", "TENANT", "SCOPES", "TOOLS", "STATE", "LAST USE", "NAME"];
    print::result(&print::table(&header, rows, usize::MAX))
}

fn state(key: &StoredKey, now: Time) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now => "expired".to_owned(),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "good".to_owned(),
    }
}

async fn revoke(id: Uuid, config: &Config) -> Result<(), CliError> {
    let now = Clock::system().now();
    if query(config, async |stores| stores.revoke_key(None, id, now).await).await? {
        return Ok(());
    }
    Err(CliError::usage(format!("unknown key {id}")).hint("List the keys with `toolpost keys list`."))
}

async fn signing_secret(json: bool, config: &Config) -> Result<(), CliError> {
    config.log.start();
    let database = config.database_url();
    let secret = async {
        if let Some(secret) = app::given_signing_secret(config)? {
            return Ok(secret);
        }
        // The store is enough: no tools are loaded, and nothing runs.
        let store = Store::open(&database).await?;
        let secret = app::kept_signing_secret(&store).await;
        store.close().await;
        secret
    };
    let secret = secret.await.map_err(|error| CliError::start(error, &database))?;
    if json { print::json_line(&json!({ "signing_secret": secret })) } else { print::result(&secret) }
}
