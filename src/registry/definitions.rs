//! The tools of a snapshot as models are told of them, and the lists that are kept because everybody asks for them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::entry::ToolView;
use super::rendered::Rendered;
use super::{Entry, Snapshot};
use crate::formats::definitions::{self, DefinitionLoss, Format, PresentedTool, prompt};

/// What `GET /tools` answers in the service's own format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolList)]
pub struct NativeList<'a> {
    /// The tools, by name; for a search, best first.
    pub tools: Vec<NativeItem<'a>>,
    /// How many there are, whatever the limit.
    pub total: usize,
}

/// A tool in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ListedTool)]
pub struct NativeItem<'a> {
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolView<'a>,
    /// How well it fits the search, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// What `GET /tools` answers in a vendor's format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DefinitionList {
    /// What goes into the vendor's request as `tools`.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Value>,
    /// How many tools could be told, whatever the limit.
    pub total: usize,
    /// Those that could not.
    pub left_out: Vec<LeftOut>,
    /// What was lost of each tool; only those that lost something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<Vec<ToolLosses>>,
    /// For a search: how well each tool fits, in the order of the tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<Score>>,
}

/// A tool that the vendor cannot be told of.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LeftOut {
    /// The tool.
    name: String,
    /// Where in its definition the reason is (RFC 6901).
    pointer: String,
    /// Why.
    reason: String,
}

/// What one tool lost.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ToolLosses {
    /// The tool.
    name: String,
    /// What.
    losses: Vec<DefinitionLoss>,
}

/// How well a tool fits a search.
#[derive(Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Score {
    /// The tool, as the vendor knows it.
    name: String,
    /// The higher, the better.
    score: f64,
}

/// What is wanted of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListOptions {
    /// How many tools at most.
    pub limit: usize,
    /// Whether losses are told.
    pub losses: bool,
    /// Whether it was searched for.
    pub scores: bool,
}

/// A tool of a list; in a search with its score.
pub type ScoredEntry = (Arc<Entry>, Option<f64>);

impl Snapshot {
    /// All tools in this format; `losses` tells what was lost. Pauses are not in it.
    #[must_use]
    pub fn rendered(&self, format: Format, losses: bool) -> &Rendered {
        self.kept.0[format as usize][usize::from(losses)].get_or_init(|| {
            let all = || self.list().iter().map(|entry| (entry.clone(), None)).collect::<Vec<ScoredEntry>>();
            match format {
                Format::Native => {
                    let tools: Vec<NativeItem<'_>> =
                        self.list().iter().map(|entry| NativeItem { tool: entry.view(None), score: None }).collect();
                    let body = json(&NativeList { total: tools.len(), tools });
                    Rendered { body, etag: self.etag().to_owned() }
                }
                Format::Prompt => {
                    let tools = self.list().iter().map(|entry| &entry.definition);
                    prompt::render(tools, &HashMap::new()).into_bytes().into()
                }
                _ => {
                    let wanted = ListOptions { limit: usize::MAX, losses, scores: false };
                    json(&self.definitions(format, &all(), wanted)).into()
                }
            }
        })
    }

    /// The same, if it was made already.
    #[must_use]
    pub fn kept(&self, format: Format, losses: bool) -> Option<&Rendered> {
        self.kept.0[format as usize][usize::from(losses)].get()
    }

    /// These tools in a vendor's format.
    #[must_use]
    pub fn definitions(&self, format: Format, listed: &[ScoredEntry], wanted: ListOptions) -> DefinitionList {
        let ListOptions { limit, losses, scores: has_scores } = wanted;
        let (mut tools, mut left_out, mut lost, mut scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut total = 0;
        for (entry, score) in listed {
            let told = match self.told(format, entry) {
                Ok(told) => told,
                Err(reason) => {
                    left_out.push(reason);
                    continue;
                }
            };
            total += 1;
            if total > limit {
                continue;
            }
            let (definition, own_losses) = definitions::definition(format, &told);
            tools.push(definition);
            scores.extend(score.map(|score| Score { name: told.name.to_owned(), score }));
            if losses {
                let lowered = format.target().and_then(|target| entry.lowered(target).ok());
                let all = lowered.iter().flat_map(|lowered| lowered.losses.iter().map(Into::into));
                let all: Vec<DefinitionLoss> = all.chain(own_losses).collect();
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

    fn told<'a>(&'a self, format: Format, entry: &'a Entry) -> Result<PresentedTool<'a>, LeftOut> {
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
        let name = name.ok_or_else(|| left_out("/name".to_owned(), "every alias for it is another tool's name"))?;
        Ok(PresentedTool { name, definition: &entry.definition, schema })
    }
}

/// Compact JSON.
#[must_use]
pub fn json(value: &impl Serialize) -> Bytes {
    // All keys are strings and all numbers came from JSON: nothing can fail to serialise.
    serde_json::to_vec(value).unwrap_or_default().into()
}
