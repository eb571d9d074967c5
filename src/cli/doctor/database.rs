//! Checks of the database: its existence, its migrations and whether it is writable.

use crate::config::Config;
use crate::domain::Time;
use crate::store::StoreError;
use crate::store::db::without_password;
use crate::store::inspect::{DatabaseInfo, Inspection, examine};

use super::Finding;

/// The checks of the database, its current time and whether API keys exist.
pub struct Database {
    /// The findings, each with the name of its check.
    pub findings: Vec<(&'static str, Finding)>,
    pub now: Option<Time>,
    /// Whether an API key was ever created; `None` if unknown.
    pub has_keys: Option<bool>,
}

/// Runs the checks.
pub async fn check(config: &Config) -> Database {
    let url = config.database_url();
    match examine(&url).await {
        Ok(Inspection::Present(found)) => {
            Database { now: found.now, has_keys: Some(found.has_keys), findings: of_found(&found) }
        }
        Ok(Inspection::Missing { file, fault: None }) => {
            let found = format!("{} does not exist yet; the first start creates it", file.display());
            Database { findings: vec![("database", Finding::ok(found))], now: None, has_keys: Some(false) }
        }
        Ok(Inspection::Missing { file, fault: Some(fault) }) => {
            let found = format!("cannot create {}: {fault}", file.display());
            let advice = "Allow this user to write there, or set another database with --database-url.";
            Database { findings: vec![("database", Finding::fail(found, advice))], now: None, has_keys: Some(false) }
        }
        Err(error) => {
            let advice = match error {
                StoreError::Url { .. } => "Write the URL in one of these forms.".to_owned(),
                StoreError::PostgresUrl { .. } => "Fix this part of the URL.".to_owned(),
                _ => format!("Check that {} is running and reachable and accepts this user.", without_password(&url)),
            };
            Database {
                findings: vec![("database", Finding::fail(error.to_string(), advice))],
                now: None,
                has_keys: None,
            }
        }
    }
}

fn of_found(found: &DatabaseInfo) -> Vec<(&'static str, Finding)> {
    let DatabaseInfo { product, location, applied, pending, newer, changed, unwritable, is_served, .. } = found;
    let served = if *is_served { "; a service is using it" } else { "" };
    let migrations = match (*newer, *changed) {
        (0, 0) if *pending == 0 => Finding::ok(format!("all {applied} are applied")),
        (0, 0) if *applied == 0 => Finding::ok(format!("the first start applies all {pending}")),
        (0, 0) => Finding::warn(
            format!("{applied} are applied; the next start applies {pending} more"),
            "Create a backup first.",
        ),
        (0, _) => Finding::fail(
            format!("{changed} differ from those of this program"),
            "Another build created this database: use that build, or another database.",
        ),
        _ => Finding::fail(
            format!("{newer} belong to a newer version than this program"),
            "Use the newer program; a database cannot be downgraded.",
        ),
    };
    let writing = match unwritable {
        None => Finding::ok("tables and rows are writable"),
        Some(reason) => Finding::fail(
            format!("the database is not writable: {reason}"),
            "Allow this user to create tables and to write (for an SQLite file, also in its folder), and check that \
                the disk is not full.",
        ),
    };
    let database = Finding::ok(format!("{product}, {location}{served}"));
    vec![("database", database), ("migrations", migrations), ("writing", writing)]
}
