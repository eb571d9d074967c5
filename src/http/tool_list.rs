//! `GET /tools`: lists or searches tools, in the format of the caller's model.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::http::HeaderMap;
use serde::Deserialize;
use utoipa::ToSchema;

use super::responses::InvalidQuery;
use super::{Api, AppState, HttpResult, Params, extract, groups, reply};
use crate::access::Access;
use crate::domain::stats::ToolStats;
use crate::formats::definitions::{Format, prompt};
use crate::registry::definitions::{self, DefinitionList, ListOptions, NativeItem, NativeList, ScoredTool};
use crate::registry::entry::etag_of;
use crate::registry::snapshot::RenderedTools;
use crate::registry::{Snapshot, ToolRecord, View};

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Largest `limit`.
const MAX_TOOLS: usize = 10_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// The format of the response; `native` by default.
    format: Option<Format>,
    /// Searches names, titles, descriptions, tags and parameter names. Returns only matches, best first.
    q: Option<String>,
    /// Maximum number of tools.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// With a vendor's format: lists what each tool's definition has lost in the conversion.
    #[serde(default)]
    losses: bool,
    /// With `prompt`: adds a note to tools that often fail or are slow.
    #[serde(default)]
    stats: bool,
    /// With `native`: includes tools that cannot be called now. They are never included for models.
    #[serde(default)]
    include_inactive: bool,
    /// With `openai-strict`: leaves out tools that cannot be strict, instead of offering them without `strict`.
    #[serde(default)]
    strict_only: bool,
    /// Lists the tools of this session. By default, session restrictions do not apply.
    session: Option<String>,
    /// Only tools of these groups, separated by commas.
    groups: Option<String>,
}

impl ListParams {
    fn format(&self) -> Format {
        self.format.unwrap_or(Format::Native)
    }

    /// Returns the search; `None` if it is blank.
    fn query(&self) -> Option<&str> {
        self.q.as_deref().filter(|query| !query.trim().is_empty())
    }

    fn losses(&self) -> bool {
        // These formats lose nothing.
        self.losses && !matches!(self.format(), Format::Native | Format::Prompt)
    }

    fn groups(&self) -> impl Iterator<Item = &str> {
        let names = self.groups.as_deref().unwrap_or_default().split(',');
        names.map(str::trim).filter(|name| !name.is_empty())
    }

    fn include_inactive(&self) -> bool {
        self.include_inactive && self.format() == Format::Native
    }

    /// Returns `true` if the list is complete and the same for all callers, so that it can be cached.
    fn is_shared(&self) -> bool {
        let is_partial =
            self.limit.is_some() || self.query().is_some() || self.session.is_some() || self.groups().next().is_some();
        !is_partial && !self.strict_only() && !self.stats() && !self.include_inactive()
    }

    fn strict_only(&self) -> bool {
        self.strict_only && self.format() == Format::OpenAiStrict
    }

    fn stats(&self) -> bool {
        self.stats && self.format() == Format::Prompt
    }
}

/// The JSON responses of `GET /tools`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "used only by the OpenAPI document")]
enum ToolListAnswer {
    Native(NativeList),
    Vendor(DefinitionList),
}

/// Lists the tools by name, or searches them.
///
/// With a vendor's `format`, `tools` is ready for use in that vendor's request. Schemas are lowered to the vendor's
/// subset, invalid names are replaced by aliases, and tools that cannot be converted are listed in `left_out`. With
/// `mcp`, it is the result of `tools/list` at `/mcp`, where `server.tool` is `server__tool`. Calls that use these names
/// and schemas are converted back if they are sent as the vendor's own message.
#[utoipa::path(get, path = "/tools", operation_id = "list_tools", tag = "tools", params(ListParams, ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the caller's version")),
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    responses((status = 200, description = "The tools. The `ETag` changes with any of them. For `prompt`, a Markdown text, empty without tools",
            content((ToolListAnswer = "application/json"), (String = "text/markdown")), headers(("ETag" = String))),
        (status = 304, description = "`If-None-Match` lists the current version"),
        (status = 404, description = "Unknown session or group"),
        (status = 503, description = "The database is unavailable (with `stats` or `session`)"), InvalidQuery))]
pub(super) async fn list(
    Api { state, access }: Api,
    headers: HeaderMap,
    Params(params): Params<ListParams>,
) -> HttpResult {
    extract::limit(params.limit, MAX_TOOLS, MAX_TOOLS)?;
    let snapshot = access.snapshot().clone();
    let format = params.format();
    let media_type = if format == Format::Prompt { MARKDOWN } else { JSON };
    if params.is_shared() && access.allowed().is_none() {
        let is_paused = format == Format::Native && state.engine.pauses().any(access.tenant());
        if !is_paused {
            let rendered = cached_list(snapshot, format, params.losses()).await?;
            return Ok(reply::bytes(&headers, media_type, &rendered.etag, rendered.body.clone()));
        }
        // A paused tool changes the list, and therefore the entity tag.
        let all: Vec<ScoredTool> = snapshot.list().iter().map(|tool| (tool.clone(), None)).collect();
        let body = definitions::json(&native(&state, &access, View::from(&*snapshot), &all, usize::MAX));
        return Ok(reply::bytes(&headers, JSON, &etag_of(&body), body));
    }
    let session = groups::find_session(&access, params.session.as_deref()).await?;
    for name in params.groups() {
        groups::known_group(snapshot.groups(), name)?;
    }
    let stats = if params.stats() { stats(&access).await? } else { HashMap::new() };
    let made = tokio::task::spawn_blocking(move || {
        let view = access.view(&snapshot, session.as_ref());
        render_list(&state, &access, view, &params, &stats)
    });
    let RenderedTools { body, etag, .. } = made.await?;
    Ok(reply::bytes(&headers, media_type, &etag, body))
}

/// Returns the cached list, shared by all callers. Lowering many schemas is slow, so it runs on a blocking thread.
async fn cached_list(snapshot: Arc<Snapshot>, format: Format, losses: bool) -> HttpResult<Arc<RenderedTools>> {
    if let Some(rendered) = snapshot.kept(format, losses) {
        return Ok(rendered);
    }
    Ok(tokio::task::spawn_blocking(move || snapshot.rendered(format, losses)).await?)
}

/// Renders a list for this request only.
fn render_list(
    state: &AppState,
    access: &Access,
    view: View<'_>,
    params: &ListParams,
    stats: &HashMap<String, ToolStats>,
) -> RenderedTools {
    let listed = select_tools(view, params);
    let limit = params.limit.unwrap_or(usize::MAX);
    RenderedTools::new(match params.format() {
        Format::Native => definitions::json(&native(state, access, view, &listed, limit)),
        Format::Prompt => {
            let shown: Vec<&Arc<ToolRecord>> = listed.iter().take(limit).map(|(tool, _)| tool).collect();
            prompt::render(shown.iter().map(|tool| tool.definition()), stats).into()
        }
        format => {
            let (losses, scores, strict_only) = (params.losses(), params.query().is_some(), params.strict_only());
            let wanted = ListOptions { limit, losses, scores, strict_only };
            definitions::json(&view.snapshot().definitions(format, &listed, wanted))
        }
    })
}

/// Returns the tools that match the request, regardless of its format.
fn select_tools(view: View<'_>, params: &ListParams) -> Vec<ScoredTool> {
    let scored = |(entry, score)| (entry, Some(score));
    let mut listed: Vec<ScoredTool> = match (params.query(), params.include_inactive()) {
        (Some(query), true) => view.search_all(query).into_iter().map(scored).collect(),
        (Some(query), false) => view.search(query).into_iter().map(scored).collect(),
        (None, true) => view.all().into_iter().map(|entry| (entry, None)).collect(),
        (None, false) => view.list().into_iter().map(|entry| (entry, None)).collect(),
    };
    let groups: HashSet<&str> = params.groups().collect();
    if !groups.is_empty() {
        listed.retain(|(tool, _)| tool.groups.iter().any(|group| groups.contains(group.as_str())));
    }
    listed
}

fn native(state: &AppState, access: &Access, view: View<'_>, listed: &[ScoredTool], limit: usize) -> NativeList {
    let pauses = state.engine.pauses();
    let shown = listed.iter().take(limit);
    let items = shown.map(|(entry, score)| NativeItem {
        tool: entry.view(pauses.of(access.tenant(), &entry.name), view.is_available(entry)),
        score: *score,
    });
    NativeList { tools: items.collect(), total: listed.len() }
}

async fn stats(access: &Access) -> HttpResult<HashMap<String, ToolStats>> {
    let stored = access.store().stats(None).await?;
    Ok(stored.into_iter().map(|stats| (stats.tool_name.clone(), stats)).collect())
}
