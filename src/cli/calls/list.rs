//! The list of calls.

use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;
use uuid::Uuid;

use crate::cli::error::CliError;
use crate::cli::moment::moment;
use crate::cli::print;
use crate::cli::remote::{CallView, Query, Remote};
use crate::domain::Time;

/// Maximum length of the last column, in characters.
const LONGEST: usize = 60;

/// Arguments of `toolpost calls list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// List only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// List only calls of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<Uuid>,
    /// List only calls of this tool
    #[arg(long, value_name = "TOOL")]
    name: Option<String>,
    /// List only calls in this status: WAIT, DOING, SUCCESS or ERROR
    #[arg(long, ignore_case = true, value_parser = ["WAIT", "DOING", "SUCCESS", "ERROR"], hide_possible_values = true)]
    status: Option<String>,
    /// List only calls that failed with this code, such as TOOL_TIMEOUT
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    code: Option<String>,
    /// List only calls in this phase: arguments, queued, approval, running, retrying, external or done
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    phase: Option<String>,
    /// List only calls that this call made
    #[arg(long, value_name = "ID")]
    parent: Option<Uuid>,
    /// List only calls accepted since this time: RFC 3339, a day, or an age such as 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// List only calls accepted before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    /// List only ended calls that ran at least this number of milliseconds
    #[arg(long, value_name = "MS")]
    min_duration_ms: Option<u64>,
    /// List only calls with all these words in their arguments or output
    #[arg(long, value_name = "WORDS")]
    query: Option<String>,
    /// List at most this number of calls
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Continue after the previous page, with the cursor that it printed
    #[arg(long)]
    cursor: Option<Uuid>,
    /// Print JSON, as returned by `GET /tool-calls`
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    fn query(&self) -> Query {
        Query::default()
            .with("session", self.session.as_deref())
            .with("batch_id", self.batch)
            .with("name", self.name.as_deref())
            .with("status", self.status.as_ref().map(|status| status.to_ascii_uppercase()))
            .with("code", self.code.as_deref())
            .with("phase", self.phase.as_deref())
            .with("parent", self.parent)
            .with("since", self.since)
            .with("until", self.until)
            .with("min_duration_ms", self.min_duration_ms)
            .with("q", self.query.as_deref())
            .with("limit", Some(self.limit))
            .with("cursor", self.cursor)
    }
}

/// Prints one page of calls.
pub async fn run(remote: &Remote, args: &ListArgs) -> Result<(), CliError> {
    let mut page = remote.get(&["tool-calls"], &args.query()).await?;
    if args.json {
        return print::json(&page);
    }
    let calls: Vec<CallView> = remote.member(&mut page, "tool_calls")?;
    let header = ["ID", "ACCEPTED", "TOOL", "STATUS", "MS", "OUTPUT"];
    print::result(&print::table(&header, calls.iter().map(row), usize::MAX))?;
    if let Value::String(cursor) = &page["next_cursor"] {
        print::note(&format!("more calls: --cursor {}", print::one_line(cursor, LONGEST)));
    }
    Ok(())
}

fn row(call: &CallView) -> Vec<String> {
    let code = call.error.as_ref().map(|error| print::one_line(&error.code, LONGEST));
    // Before its end, a call is described by its arguments.
    let text = call.output.clone().unwrap_or_else(|| call.arguments.to_string());
    vec![
        call.id.to_string(),
        call.created_at.to_string(),
        print::one_line(&call.name, 32),
        code.map_or_else(|| call.status.as_str().to_owned(), |code| format!("{} {code}", call.status.as_str())),
        call.started_at.and(call.duration_ms).map_or_else(String::new, |millis| millis.to_string()),
        print::one_line(&text, LONGEST),
    ]
}
