//! The tools of a snapshot in the formats of models, and the cache of the lists that are requested most.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::entry::ToolView;
use super::snapshot::Rendered;
use super::{Entry, Snapshot};
use crate::formats::definitions::{self, Format, PresentedTool, prompt};
use crate::schema::lower::Loss;

/// The response of `GET /tools` in the service's own format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolList)]
pub struct NativeList<'a> {
    /// The tools by name; for a search, best first.
    pub tools: Vec<NativeItem<'a>>,
    /// The number of tools without the limit.
    pub total: usize,
}

/// A tool in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ListedTool)]
pub struct NativeItem<'a> {
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolView<'a>,
    /// How well the tool matches the query; present only in a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The response of `GET /tools` in a vendor's format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DefinitionList {
    /// The value for `tools` in a request to the vendor.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// The number of tools that the format can express, without the limit.
    pub total: usize,
    /// The tools that the format cannot express.
    pub left_out: Vec<LeftOut>,
    /// What was lost from each definition; only tools with losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<Vec<ToolLosses>>,
    /// For a search, the score of each tool, in the order of the tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<Score>>,
}

/// A tool that the vendor's format cannot express.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LeftOut {
    /// The name of the tool.
    name: String,
    /// A pointer to the cause in the definition (RFC 6901).
    pointer: String,
    /// The reason as text.
    reason: String,
}

/// The losses of one tool.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ToolLosses {
    /// The name of the tool.
    name: String,
    /// The parts of the definition that were lost.
    losses: Vec<Loss>,
}

/// The score of a tool in a search.
#[derive(Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Score {
    /// The name of the tool in the vendor's format.
    name: String,
    /// The score; higher is better.
    score: f64,
}

/// Options of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListOptions {
    /// Maximum number of tools.
    pub limit: usize,
    /// Whether the list contains losses.
    pub losses: bool,
    /// Whether the list contains the scores of a search.
    pub scores: bool,
}

/// A tool of a list, with its score in a search.
pub type ScoredEntry = (Arc<Entry>, Option<f64>);

impl Snapshot {
    /// Renders all tools in this format once, optionally with losses. The native list ignores pauses.
    #[must_use]
    pub fn rendered(&self, format: Format, losses: bool) -> &Rendered {
        self.rendered_lists[format as usize][usize::from(losses)].get_or_init(|| {
            let body = match format {
                Format::Native => {
                    let tools: Vec<NativeItem<'_>> = self
                        .list()
                        .iter()
                        .map(|entry| NativeItem { tool: entry.view(None, true), score: None })
                        .collect();
                    let body = json(&NativeList { total: tools.len(), tools });
                    return Rendered { body, etag: self.etag().to_owned() };
                }
                Format::Prompt => {
                    let tools = self.list().iter().map(|entry| &entry.definition);
                    prompt::render(tools, &HashMap::new()).into()
                }
                _ => {
                    let all: Vec<ScoredEntry> = self.list().iter().map(|entry| (entry.clone(), None)).collect();
                    json(&self.definitions(format, &all, ListOptions { limit: usize::MAX, losses, scores: false }))
                }
            };
            Rendered::new(body)
        })
    }

    /// Returns the rendered list, if it is cached already.
    #[must_use]
    pub fn kept(&self, format: Format, losses: bool) -> Option<&Rendered> {
        self.rendered_lists[format as usize][usize::from(losses)].get()
    }

    /// Converts these tools to a vendor's format.
    #[must_use]
    pub fn definitions(&self, format: Format, listed: &[ScoredEntry], options: ListOptions) -> DefinitionList {
        let ListOptions { limit, losses, scores: has_scores } = options;
        let (mut tools, mut left_out, mut lost, mut scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut total = 0;
        for (entry, score) in listed {
            let tool = match self.presented(format, entry) {
                Ok(tool) => tool,
                Err(reason) => {
                    left_out.push(reason);
                    continue;
                }
            };
            total += 1;
            if total > limit {
                continue;
            }
            let (definition, own_losses) = definitions::definition(format, &tool);
            tools.push(definition);
            scores.extend(score.map(|score| Score { name: tool.name.to_owned(), score }));
            if losses {
                let lowered = format.target().and_then(|target| entry.lowered(target).ok());
                let of_definition =
                    |loss: &Loss| Loss { pointer: format!("/input_schema{}", loss.pointer), ..loss.clone() };
                let all = lowered.iter().flat_map(|lowered| lowered.losses.iter().map(of_definition));
                let all: Vec<Loss> = all.chain(own_losses).collect();
                if !all.is_empty() {
                    lost.push(ToolLosses { name: entry.name.to_string(), losses: all });
                }
            }
        }
        DefinitionList {
            tools: definitions::tools(format, tools),
            total,
            left_out,
            losses: losses.then_some(lost),
            scores: has_scores.then_some(scores),
        }
    }

    fn presented<'a>(&'a self, format: Format, entry: &'a Entry) -> Result<PresentedTool<'a>, LeftOut> {
        let left_out = |pointer: String, reason: &str| LeftOut {
            name: entry.name.to_string(),
            pointer,
            reason: reason.to_owned(),
        };
        let schema = match format.target().map(|target| entry.lowered(target)) {
            None => &entry.definition.input_schema,
            Some(Ok(lowered)) => &lowered.schema,
            Some(Err(error)) => return Err(left_out(format!("/input_schema{}", error.pointer), &error.message)),
        };
        let name = self.name_for(entry, format.naming());
        let name = name.ok_or_else(|| left_out("/name".to_owned(), "all its aliases are names of other tools"))?;
        Ok(PresentedTool { name, definition: &entry.definition, schema })
    }
}

/// Serializes a value as compact JSON.
#[must_use]
pub fn json(value: &impl Serialize) -> Bytes {
    // Serialization cannot fail, because all keys are strings and all numbers came from JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}
