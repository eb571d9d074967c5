//! `toolpost openapi`: the API's description, needing neither settings nor a database.

use super::error::CliError;
use super::{Exit, print};

pub fn run() -> Result<Exit, CliError> {
    print::json(&toolpost::http::openapi())?;
    Ok(Exit::Success)
}
