//! The database: whether it is there, whose it is, what a start would make of it, and whether it can be written.

use toolpost::config::Config;
use toolpost::domain::Time;
use toolpost::store::StoreError;
use toolpost::store::db::without_password;
use toolpost::store::inspect::{DatabaseInfo, Inspection, examine};

use super::Check;

/// What was found, what the database takes for the time, and whether callers have keys.
pub struct Database {
    pub checks: Vec<Check>,
    pub now: Option<Time>,
    /// Whether there was ever an API key; `None` if that is not known.
    pub has_keys: Option<bool>,
}

/// Looks at it.
pub async fn check(config: &Config) -> Database {
    let url = config.database_url();
    match examine(&url).await {
        Ok(Inspection::Present(found)) => {
            Database { now: found.now, has_keys: Some(found.has_keys), checks: of_found(&found) }
        }
        Ok(Inspection::Missing { file, fault: None }) => {
            let found = format!("{} is not there yet; the first start makes it", file.display());
            Database { checks: vec![Check::ok("database", found)], now: None, has_keys: Some(false) }
        }
        Ok(Inspection::Missing { file, fault: Some(fault) }) => {
            let found = format!("{} cannot be made: {fault}", file.display());
            let advice = "Let this user write there, or name another with --database-url.";
            Database { checks: vec![Check::fail("database", found, advice)], now: None, has_keys: Some(false) }
        }
        Err(error) => {
            let advice = match error {
                StoreError::Url { .. } => "Write the URL as it is said here.".to_owned(),
                _ => format!("See that {} runs, can be reached, and lets this user in.", without_password(&url)),
            };
            Database { checks: vec![Check::fail("database", error.to_string(), advice)], now: None, has_keys: None }
        }
    }
}

fn of_found(found: &DatabaseInfo) -> Vec<Check> {
    let DatabaseInfo { product, place, applied, pending, newer, changed, unwritable, is_served, .. } = found;
    let served = if *is_served { "; a service uses it now" } else { "" };
    let mut checks = vec![Check::ok("database", format!("{product}, {place}{served}"))];
    checks.push(match (*newer, *changed) {
        (0, 0) if *pending == 0 => Check::ok("migrations", format!("all {applied} are made")),
        (0, 0) if *applied == 0 => Check::ok("migrations", format!("the first start makes all {pending}")),
        (0, 0) => Check::warn(
            "migrations",
            format!("{applied} are made; the next start makes {pending} more"),
            "Make a backup before.",
        ),
        (0, _) => Check::fail(
            "migrations",
            format!("{changed} are not those of this program"),
            "This database belongs to another build: use that one, or another database.",
        ),
        _ => Check::fail(
            "migrations",
            format!("{newer} are of a newer version than this program"),
            "Use the newer program; a database does not go back.",
        ),
    });
    checks.push(match unwritable {
        None => Check::ok("writing", "tables and rows can be written"),
        Some(reason) => Check::fail(
            "writing",
            format!("nothing can be written: {reason}"),
            "Let this user create tables and write: of an SQLite file also its folder, and see that the disk is not full.",
        ),
    });
    checks
}
