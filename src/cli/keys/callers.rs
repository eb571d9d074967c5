//! `toolpost keys create|list|revoke`: manages API keys directly in the database.

use crate::auth::create::NewKey;
use crate::domain::{Clock, IdGenerator, Scope, Tenant, Time};
use crate::store::keys::StoredKey;
use crate::store::{StoreError, Stores};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::error::CliError;
use crate::cli::options::Options;
use crate::cli::{Exit, print};

/// Number of keys that are read at once.
const PAGE: u32 = 500;

/// Arguments of `toolpost keys create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Grant this scope: call, read, tools, or admin, which includes all; repeatable
    #[arg(long = "scope", required = true, value_name = "SCOPE", value_delimiter = ',', value_parser = scope)]
    scopes: Vec<Scope>,
    /// Create the key for this tenant; tenants are isolated from each other
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = tenant)]
    tenant: Tenant,
    /// Allow only tools whose names match this glob; repeatable
    #[arg(long = "tool", value_name = "GLOB")]
    tools: Vec<String>,
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

/// Arguments of `toolpost keys list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// List only keys of this tenant
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    tenant: Option<Tenant>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `toolpost keys revoke`.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// Id of the key as shown by `toolpost keys list`
    id: Uuid,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::named(text).ok_or_else(|| "must be one of call, read, tools and admin".to_owned())
}

/// Parses a tenant argument.
pub fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::named(text).ok_or_else(|| "must have 1 to 128 characters and no control characters".to_owned())
}

/// A key in the JSON output.
#[derive(Serialize)]
struct KeyOutput<'a> {
    id: Uuid,
    name: &'a str,
    prefix: &'a str,
    tenant: &'a str,
    scopes: Vec<Scope>,
    tools: &'a [String],
    rate: Option<u32>,
    concurrency: Option<u32>,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    last_used_at: Option<Time>,
}

impl<'a> From<&'a StoredKey> for KeyOutput<'a> {
    fn from(key: &'a StoredKey) -> Self {
        Self {
            id: key.id,
            name: &key.name,
            prefix: &key.prefix,
            tenant: key.tenant.as_str(),
            scopes: key.scopes.iter().collect(),
            tools: &key.tools,
            rate: key.rate,
            concurrency: key.concurrency,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

pub async fn create(args: Create, options: &Options) -> Result<Exit, CliError> {
    let Create { scopes, tenant, tools, expires, name, rate, concurrency } = args;
    let scopes = scopes.into_iter().collect();
    let new = NewKey { tenant, name, scopes, tools, expires, rate, concurrency };
    let (stored, key) =
        new.create_key(IdGenerator::random().next(), Clock::system().now()).map_err(|fault| match fault {
            Some((place, message)) => CliError::usage(format!("{}: {message}", flag_of(&place))),
            None => CliError::unavailable("the operating system provides no random bytes"),
        })?;
    on_store(options, async |stores| stores.insert_key(&stored).await).await?;
    let scopes = stored.scopes.to_text();
    print::note(&format!(
        "created key {} of tenant \"{}\" with scopes {scopes}; it will not be shown again",
        stored.id,
        stored.tenant.as_str()
    ));
    print::result(&key)?;
    Ok(Exit::Success)
}

/// Returns the flag for the pointer of a fault.
fn flag_of(place: &str) -> String {
    let place = place.trim_start_matches('/');
    match place.split('/').next().unwrap_or_default() {
        "tools" => "--tool".to_owned(),
        "scopes" => "--scope".to_owned(),
        other => format!("--{other}"),
    }
}

pub async fn list(List { tenant, json }: List, options: &Options) -> Result<Exit, CliError> {
    let keys = on_store(options, async |stores| {
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
        print::json(&keys.iter().map(KeyOutput::from).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    let now = Clock::system().now();
    let rows = keys.iter().map(|key| {
        let tools = if key.tools.is_empty() { "*".to_owned() } else { key.tools.join(" ") };
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        vec![
            key.id.to_string(),
            format!("{}…", key.prefix),
            print::one_line(key.tenant.as_str(), 32),
            key.scopes.to_text(),
            print::one_line(&tools, 32),
            state(key, now),
            used,
            print::one_line(&key.name, 32),
        ]
    });
    let header = ["ID", "KEY", "TENANT", "SCOPES", "TOOLS", "STATE", "LAST USE", "NAME"];
    print::result(&print::table(&header, rows, usize::MAX))?;
    Ok(Exit::Success)
}

fn state(key: &StoredKey, now: Time) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now => "expired".to_owned(),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "good".to_owned(),
    }
}

pub async fn revoke(Revoke { id }: Revoke, options: &Options) -> Result<Exit, CliError> {
    let now = Clock::system().now();
    let is_there = on_store(options, async |stores| stores.revoke_key(None, id, now).await).await?;
    if !is_there {
        return Err(CliError::usage(format!("unknown key {id}")).hint("List the keys with `toolpost keys list`."));
    }
    Ok(Exit::Success)
}

/// Runs a query on the store alone: no tools are loaded, and nothing runs.
async fn on_store<T>(
    options: &Options,
    work: impl AsyncFnOnce(&Stores) -> Result<T, StoreError>,
) -> Result<T, CliError> {
    let config = options.quiet_settings()?;
    crate::telemetry::start(&config.log);
    let database = config.database_url();
    let done = async {
        let stores = Stores::open(&database).await?;
        let done = work(&stores).await;
        stores.close().await;
        done
    };
    done.await.map_err(|error| CliError::store(&error, &database))
}
