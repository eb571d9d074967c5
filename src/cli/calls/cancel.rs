//! The cancellation of calls.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::error::CliError;
use crate::cli::print;
use crate::cli::remote::Remote;

/// Arguments of `toolpost calls cancel`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("filter").required(true).multiple(true).args(["ids", "session", "batch", "name"]))]
pub struct CancelArgs {
    /// Ids of the calls
    #[arg(value_name = "ID", conflicts_with_all = ["session", "batch", "name"])]
    ids: Vec<Uuid>,
    /// Cancel only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Cancel only calls of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<Uuid>,
    /// Cancel only calls of this tool
    #[arg(long, value_name = "TOOL")]
    name: Option<String>,
}

/// Cancels the calls and prints their number. A named call must exist; it keeps its result if it has ended.
pub async fn run(remote: &Remote, CancelArgs { ids, session, batch, name }: &CancelArgs) -> Result<(), CliError> {
    for id in ids {
        let call = remote.post(&["tool-calls", &id.to_string(), "cancel"], &json!({})).await?;
        let status = print::one_line(call["status"].as_str().unwrap_or_default(), 20);
        print::result(&format!("{id} {status}"))?;
    }
    if !ids.is_empty() {
        return Ok(());
    }
    let filters = [
        ("session", session.clone().map(Value::from)),
        ("batch_id", batch.map(|id| id.to_string().into())),
        ("name", name.clone().map(Value::from)),
    ];
    let body: Value = filters.into_iter().filter_map(|(member, value)| Some((member.to_owned(), value?))).collect();
    let answer = remote.post(&["tool-calls", "cancel"], &body).await?;
    print::result(&format!("cancelled {}", answer["cancelled"]))
}
