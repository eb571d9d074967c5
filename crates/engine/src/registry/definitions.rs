//! The tools of a snapshot in the formats of models, and the cache of the lists that are requested most.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::listed::ListedTool;
use super::rendered::{ListWriter, RenderedTools};
use super::{Snapshot, ToolRecord};
use toolpost_core::formats::definitions::{self, Format, PresentedTool, prompt};
use toolpost_core::schema::lower::{Loss, LoweredSchema, Unlowerable};

/// The response of `GET /tools` in the service's own format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolList)]
pub struct NativeList {
    /// The tools by name; for a search, best first.
    pub tools: Vec<NativeItem>,
    /// The number of tools without the limit.
    pub total: usize,
}

/// A tool in a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ListedTool)]
pub struct NativeItem {
    /// The tool.
    #[serde(flatten)]
    pub tool: ListedTool,
    /// How well the tool matches the query; present only in a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The response of `GET /tools` in a vendor's format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct DefinitionList {
    /// The value for `tools` in a request to the vendor.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Box<RawValue>>,
    /// The number of tools that the format can express, without the limit.
    pub total: usize,
    /// The tools that the format cannot express.
    pub left_out: Vec<LeftOut>,
    /// With `openai-strict`, the tools of the list that are offered without `strict`, with the reasons; absent if there
    /// are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub not_strict: Vec<LeftOut>,
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
    /// Whether tools that cannot be strict are left out of `openai-strict`.
    pub strict_only: bool,
}

/// The begin of a list as JSON.
const TOOLS: &str = r#"{"tools":["#;

const WHOLE_WITH_LOSSES: ListOptions =
    ListOptions { limit: usize::MAX, losses: true, scores: false, strict_only: false };

/// A tool of a list, with its score in a search.
pub type ScoredTool = (Arc<ToolRecord>, Option<f64>);

impl Snapshot {
    /// Returns all tools rendered in this format, optionally with losses. The native list ignores pauses. The list is
    /// kept while it is in use.
    #[must_use]
    pub fn rendered(&self, format: Format, losses: bool) -> Arc<RenderedTools> {
        self.rendered.get_or_render(format, losses, |before| self.render(format, losses, before))
    }

    /// Returns the rendered list, if it is kept.
    #[must_use]
    pub fn kept(&self, format: Format, losses: bool) -> Option<Arc<RenderedTools>> {
        self.rendered.get(format, losses)
    }

    fn render(&self, format: Format, losses: bool, before: Option<&RenderedTools>) -> RenderedTools {
        if losses {
            let all: Vec<ScoredTool> = self.list().iter().map(|tool| (tool.clone(), None)).collect();
            return RenderedTools::new(json(&self.definitions(format, &all, WHOLE_WITH_LOSSES)));
        }
        let known = before.map(RenderedTools::texts).unwrap_or_default();
        let known = |tool: &Arc<ToolRecord>| known.get(&Arc::as_ptr(tool)).copied();
        match format {
            Format::Native => self.render_native(known),
            Format::Prompt => self.render_prompt(known),
            _ => self.render_for_vendor(format, known),
        }
    }

    fn render_native<'a>(&self, known: impl Fn(&Arc<ToolRecord>) -> Option<&'a [u8]>) -> RenderedTools {
        let total = self.list().len();
        let empty = json(&NativeList { tools: Vec::new(), total });
        let (opening, closing) = empty.split_at(TOOLS.len());
        let mut list = ListWriter::new(opening, ",");
        for tool in self.list() {
            match known(tool) {
                Some(text) => list.add(tool, text),
                None => list.add(tool, &json(&NativeItem { tool: tool.view(None, true), score: None })),
            }
        }
        list.end(closing, Some(self.etag().to_owned()))
    }

    fn render_prompt<'a>(&self, known: impl Fn(&Arc<ToolRecord>) -> Option<&'a [u8]>) -> RenderedTools {
        let mut list = ListWriter::new(prompt::opening(self.list().len()), "\n");
        for tool in self.list() {
            match known(tool) {
                Some(text) => list.add(tool, text),
                None => list.add(tool, prompt::described(&tool.definition()).as_bytes()),
            }
        }
        list.end(b"", None)
    }

    fn render_for_vendor<'a>(
        &self,
        format: Format,
        known: impl Fn(&Arc<ToolRecord>) -> Option<&'a [u8]>,
    ) -> RenderedTools {
        let (wrapper, wrapper_end) = definitions::wrapper(format);
        let mut list = ListWriter::new([TOOLS, wrapper].concat(), ",");
        let (mut left_out, mut not_strict) = (Vec::new(), Vec::new());
        for tool in self.list() {
            // The reason why a tool is not strict is not kept with its text.
            if let Some(text) = known(tool).filter(|text| !definitions::is_declared_not_strict(format, text)) {
                list.add(tool, text);
                continue;
            }
            match self.presented(format, tool, false) {
                Ok(presented) => {
                    list.add(tool, presented.text.get().as_bytes());
                    not_strict.extend(presented.not_strict);
                }
                Err(reason) => left_out.push(reason),
            }
        }
        let total = list.len();
        if total == 0 {
            list = ListWriter::new(TOOLS, ",");
        }
        let wrapper_end = if total == 0 { "" } else { wrapper_end };
        let empty =
            json(&DefinitionList { tools: Vec::new(), total, left_out, not_strict, losses: None, scores: None });
        list.end(&[wrapper_end.as_bytes(), &empty[TOOLS.len()..]].concat(), None)
    }

    /// Converts these tools to a vendor's format.
    #[must_use]
    pub fn definitions(&self, format: Format, listed: &[ScoredTool], options: ListOptions) -> DefinitionList {
        let ListOptions { limit, losses, scores: has_scores, strict_only } = options;
        let (mut tools, mut left_out, mut lost, mut scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut not_strict, mut total) = (Vec::new(), 0);
        for (record, score) in listed {
            // A tool with an error is not a part of the total.
            let presented = match total < limit {
                true => self.presented(format, record, strict_only).map(Some),
                false => self.can_present(format, record, strict_only).map(|()| None),
            };
            let presented = match presented {
                Ok(presented) => presented,
                Err(reason) => {
                    left_out.push(reason);
                    continue;
                }
            };
            total += 1;
            let Some(Presentation { text, losses: own_losses, not_strict: reason }) = presented else { continue };
            tools.push(text);
            not_strict.extend(reason);
            let name = self.name_for(record, format.naming()).unwrap_or_default();
            scores.extend(score.map(|score| Score { name: name.to_owned(), score }));
            if losses && !own_losses.is_empty() {
                lost.push(ToolLosses { name: record.name.to_string(), losses: own_losses });
            }
        }
        DefinitionList {
            tools: definitions::tools(format, tools),
            total,
            left_out,
            not_strict,
            losses: losses.then_some(lost),
            scores: has_scores.then_some(scores),
        }
    }

    /// Returns the lowered schema of a tool for a format. A tool that cannot be strict is lowered without `strict`, with the
    /// reason, unless `strict_only` is set.
    fn lowered_for(&self, format: Format, record: &Arc<ToolRecord>, strict_only: bool) -> Result<LoweredFor, LeftOut> {
        let definition = record.definition();
        let left_out = |error: Unlowerable| LeftOut {
            name: record.name.to_string(),
            pointer: format!("/input_schema{}", error.pointer),
            reason: error.message,
        };
        let lowered = |format: Format| {
            let lowered = format.target().map(|target| record.lowered(target, &definition)).transpose();
            lowered.map_err(left_out)
        };
        match lowered(format) {
            Err(reason) if format == Format::OpenAiStrict && !strict_only => {
                Ok((lowered(Format::OpenAi)?, Some(reason)))
            }
            lowered => Ok((lowered?, None)),
        }
    }

    fn vendor_name<'s>(&'s self, format: Format, record: &'s ToolRecord) -> Result<&'s str, LeftOut> {
        self.name_for(record, format.naming()).ok_or_else(|| LeftOut {
            name: record.name.to_string(),
            pointer: "/name".to_owned(),
            reason: "all its aliases are names of other tools".to_owned(),
        })
    }

    /// Checks whether a tool can be converted to a vendor's format.
    fn can_present(&self, format: Format, record: &Arc<ToolRecord>, strict_only: bool) -> Result<(), LeftOut> {
        self.lowered_for(format, record, strict_only)?;
        self.vendor_name(format, record).map(drop)
    }

    /// Converts a tool to a vendor's format.
    fn presented(&self, format: Format, record: &Arc<ToolRecord>, strict_only: bool) -> Result<Presentation, LeftOut> {
        let definition = record.definition();
        let (lowered, not_strict) = self.lowered_for(format, record, strict_only)?;
        let name = self.vendor_name(format, record)?;
        let schema = lowered.as_ref().map_or(&definition.input_schema, |lowered| &lowered.schema);
        let presented = PresentedTool { name, definition: &definition, schema, is_strict: not_strict.is_none() };
        let (shown, own) = definitions::definition(format, &presented);
        let of_definition = |loss: &Loss| Loss { pointer: format!("/input_schema{}", loss.pointer), ..loss.clone() };
        let losses = lowered.iter().flat_map(|lowered| lowered.losses.iter().map(of_definition)).chain(own);
        // Serialized at once, because a parsed definition takes many times the memory of its text.
        Ok(Presentation { text: raw(&shown), losses: losses.collect(), not_strict })
    }
}

/// The lowered schema of a tool, and the reason why it is not strict.
type LoweredFor = (Option<LoweredSchema>, Option<LeftOut>);

/// A definition in a vendor's format.
struct Presentation {
    text: Box<RawValue>,
    losses: Vec<Loss>,
    /// The reason why it is offered without `strict`.
    not_strict: Option<LeftOut>,
}

/// Serializes a value.
fn raw(value: &Value) -> Box<RawValue> {
    // Serialization of a value cannot fail.
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

/// Serializes a value as compact JSON.
#[must_use]
pub fn json(value: &impl Serialize) -> Bytes {
    // Serialization cannot fail, because all keys are strings and all numbers came from JSON.
    serde_json::to_vec(value).unwrap_or_default().into()
}
