//! `toolpost openapi`: prints the API description, without settings or a database.

use super::error::CliError;
use super::{Exit, print};

pub fn run() -> Result<Exit, CliError> {
    print::json(&crate::http::openapi())?;
    Ok(Exit::Success)
}
