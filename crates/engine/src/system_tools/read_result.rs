//! `read_result`: returns parts of a truncated result.

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use toolpost_core::domain::{Call, json as text};
use toolpost_store::store::{Store, StoreError, Stores};
use toolpost_tool::tool::{DefinitionBuilder, Run, Tool, ToolError};

mod excerpt;

use excerpt::ExcerptRequest;

/// The name of the tool.
pub const NAME: &str = "read_result";
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 256 * 1024;

/// The tool `read_result` with the store that has the results.
#[derive(Debug, Clone)]
pub struct ReadResult(pub Stores);

/// Reads a result that was too long to be shown in full, one part at a time: the notice in the truncated result gives
/// the arguments. With a pattern it returns the matching lines with their numbers. Only calls of this conversation can
/// be read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The id in the notice.
    #[schemars(length(min = 1, max = 512))]
    pub call_id: String,
    /// The number of the first line to read, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub offset: usize,
    /// Maximum number of lines, or with a pattern of matching lines. By default as many as can be shown.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<usize>,
    /// Only for a line that is too long to be shown in full: the first character to read, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub column: usize,
    /// A regular expression, like "(?i)error|warning": only matching lines are returned. No look-around, no
    /// back-references.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1000))]
    pub pattern: Option<String>,
}

fn one() -> usize {
    1
}

impl ReadResult {
    /// Returns the call if the reading call may access it: same session, and a tool that its API key allows.
    async fn call(&self, requested_id: &str, run: &Run) -> Result<Call, ToolError> {
        let nothing = || {
            let requested_id = text::shorten(requested_id, 100);
            let scope = if run.session().is_some() { "in this session" } else { "outside of sessions" };
            ToolError::new(format!(
                "call \"{requested_id}\" was not found {scope}; call_id is the id in the notice of a shortened result, as in \
                 {{\"call_id\":\"0197a2c4-…\"}}, not the id of your own tool call"
            ))
        };
        let id: Uuid = requested_id.trim().parse().map_err(|_| nothing())?;
        let store = self.0.for_tenant(run.tenant());
        let found = match run.session() {
            None => store.call(id).await.map(|call| call.filter(|call| call.session.is_none())),
            Some(session) => call_of(&store, session, id).await,
        };
        let found = found.map_err(|error| {
            tracing::error!(%error, "a result cannot be read again");
            ToolError::new("the database is unavailable; retry later")
        })?;
        let is_allowed = |call: &Call| run.allowed().is_none_or(|allowed| allowed.has(&call.name));
        found.filter(is_allowed).ok_or_else(nothing)
    }
}

/// Finds a call of a session. Calls of a deleted session with the same id do not belong to the current session.
async fn call_of(store: &Store, session: &str, id: Uuid) -> Result<Option<Call>, StoreError> {
    let Some(session) = store.session(session).await? else { return Ok(None) };
    let behind = id.as_u128().checked_add(1).map(Uuid::from_u128);
    let newest = store.session_calls(&session, behind, 1).await?;
    Ok(newest.into_iter().find(|call| call.id == id))
}

impl Tool for ReadResult {
    const NAME: &'static str = NAME;
    type Args = ReadArgs;
    type Output = String;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Read a result")
            .category(super::CATEGORY)
            .example(json!({"call_id": "0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f", "offset": 2001}), "…the next lines…")
            .example(
                json!({"call_id": "0197a2c4-7e1b-7c55-9d3a-2f6b8c1d4e5f", "pattern": "(?i)error"}),
                "2417: ERROR no ink\n[1 matching line; the result has 12,345 lines]",
            )
            .read_only()
            .closed_world()
    }

    async fn call(&self, args: ReadArgs, run: Run) -> Result<String, ToolError> {
        let compile = |pattern: &str| RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
        let pattern = args.pattern.as_deref().map(compile).transpose();
        let pattern = pattern.map_err(|error| format!("the pattern is not a valid regular expression: {error}"))?;
        let call = self.call(&args.call_id, &run).await?;
        let Some(outcome) = call.outcome.clone() else {
            return Err(ToolError::new("the call has not ended yet, so it has no result to read"));
        };
        let excerpt = ExcerptRequest {
            id: call.id,
            offset: args.offset.max(1),
            column: args.column.max(1),
            limit: args.limit.unwrap_or(usize::MAX).max(1),
            bounds: run.output_bounds(),
        };
        // A result may have several megabytes.
        run.blocking(move |run| {
            let whole = outcome.whole_output();
            match pattern {
                Some(pattern) => excerpt.matching(&whole, &pattern, || run.is_cancelled()),
                None => excerpt.lines(&whole),
            }
        })
        .await
    }
}
