//! Tool definitions in the formats of model vendors, and what each format cannot express.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::{Naming, ToolDefinition, Vendor, json};
use crate::schema::lower::{Loss, Target};

pub mod anthropic;
pub mod gemini;
pub mod mcp;
pub mod openai;
pub mod parameters;
pub mod prompt;

/// The format of a list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ToolFormat)]
pub enum Format {
    /// Toolpost's own format.
    Native,
    /// `tools` of OpenAI's Chat Completions and of compatible servers.
    #[serde(rename = "openai")]
    #[value(name = "openai")]
    OpenAi,
    /// `tools` of OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    #[value(name = "openai-responses")]
    OpenAiResponses,
    /// `tools` of OpenAI's Chat Completions with `strict`: the model can only generate what the schema allows.
    #[serde(rename = "openai-strict")]
    #[value(name = "openai-strict")]
    OpenAiStrict,
    /// `tools` of Anthropic's Messages.
    Anthropic,
    /// `tools` of Google's `generateContent`.
    Gemini,
    /// `tools` of the Model Context Protocol's `tools/list`.
    Mcp,
    /// Markdown for a model's prompt.
    Prompt,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Native,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::OpenAiStrict,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
        Self::Prompt,
    ];

    /// Returns the target to which schemas are lowered; `None` if schemas stay unchanged.
    #[must_use]
    pub fn target(self) -> Option<Target> {
        match self {
            Self::OpenAi | Self::OpenAiResponses => Some(Target::OpenAi),
            Self::OpenAiStrict => Some(Target::OpenAiStrict),
            Self::Anthropic => Some(Target::Anthropic),
            Self::Gemini => Some(Target::Gemini),
            Self::Native | Self::Mcp | Self::Prompt => None,
        }
    }

    /// Returns the naming of tools in this format.
    #[must_use]
    pub fn naming(self) -> Naming {
        match self {
            Self::OpenAi | Self::OpenAiStrict => Naming::Vendor(Vendor::OpenAi),
            Self::OpenAiResponses => Naming::Vendor(Vendor::OpenAiResponses),
            Self::Anthropic => Naming::Vendor(Vendor::Anthropic),
            Self::Gemini => Naming::Vendor(Vendor::Gemini),
            Self::Mcp => Naming::Mcp,
            Self::Native | Self::Prompt => Naming::Own,
        }
    }
}

/// A tool definition as a model receives it.
#[derive(Debug, Clone, Copy)]
pub struct PresentedTool<'a> {
    /// The name that the vendor accepts.
    pub name: &'a str,
    /// The definition of the tool.
    pub definition: &'a ToolDefinition,
    /// The lowered schema of the arguments.
    pub schema: &'a Value,
}

/// A part of a definition that the format cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Loss)]
pub struct DefinitionLoss {
    /// JSON Pointer (RFC 6901) into the definition: `/input_schema/properties/n/default`.
    pub pointer: String,
    /// The affected JSON Schema keyword or member of the definition.
    pub keyword: String,
    /// Description of the loss.
    pub message: String,
    /// `true` if a model may now send arguments that the tool rejects.
    pub widens: bool,
}

impl From<&Loss> for DefinitionLoss {
    fn from(loss: &Loss) -> Self {
        Self {
            pointer: format!("/input_schema{}", loss.pointer),
            keyword: loss.keyword.clone(),
            message: loss.message.clone(),
            widens: loss.widens,
        }
    }
}

/// Converts a definition to a format, and returns the losses of the format itself, without those of lowering the
/// schema. Native lists and prompts are created elsewhere; here they are like MCP.
#[must_use]
pub fn definition(format: Format, presented: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    match format {
        Format::OpenAi => openai::chat(presented),
        Format::OpenAiStrict => openai::strict(presented),
        Format::OpenAiResponses => openai::responses(presented),
        Format::Anthropic => (anthropic::tool(presented), Vec::new()),
        Format::Gemini => (gemini::declaration(presented), Vec::new()),
        Format::Native | Format::Mcp | Format::Prompt => mcp::tool(presented),
    }
}

/// Wraps definitions for the `tools` of a request.
#[must_use]
pub fn tools(format: Format, definitions: Vec<Value>) -> Vec<Value> {
    match format {
        Format::Gemini if !definitions.is_empty() => vec![json!({ "functionDeclarations": definitions })],
        _ => definitions,
    }
}

/// Returns the description for the model, or the title if the description is empty.
fn description(definition: &ToolDefinition) -> &str {
    let description = definition.description.as_str();
    if description.trim().is_empty() { definition.display_name() } else { description }
}

/// Truncates the description to the given number of characters.
fn bounded(definition: &ToolDefinition, most: usize) -> (String, Vec<DefinitionLoss>) {
    let whole = description(definition);
    let shown = json::shorten(whole, most);
    if shown == whole {
        return (shown, Vec::new());
    }
    let loss = DefinitionLoss {
        pointer: "/description".to_owned(),
        keyword: "description".to_owned(),
        message: format!("truncated to {} characters, because longer descriptions are rejected", most - 1),
        widens: false,
    };
    (json::shorten(whole, most - 1), vec![loss])
}

#[cfg(test)]
mod tests;
