//! Tools as models are told of them: what goes into each vendor's request, and what of a tool that cannot say.

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

/// In which shape tools are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ToolFormat)]
pub enum Format {
    /// The service's own.
    Native,
    /// `tools` of OpenAI's Chat Completions, and of the many that speak like it.
    #[serde(rename = "openai")]
    #[value(name = "openai")]
    OpenAi,
    /// `tools` of OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    #[value(name = "openai-responses")]
    OpenAiResponses,
    /// `tools` of OpenAI's Chat Completions with `strict`: the model can only write what the schema allows.
    #[serde(rename = "openai-strict")]
    #[value(name = "openai-strict")]
    OpenAiStrict,
    /// `tools` of Anthropic's Messages.
    Anthropic,
    /// `tools` of Google's `generateContent`.
    Gemini,
    /// `tools` of the Model Context Protocol's `tools/list`.
    Mcp,
    /// Markdown for a model that is told of its tools in words.
    Prompt,
}

impl Format {
    /// Every format.
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

    /// What schemas are lowered to; `None` where they stay as they are.
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

    /// Under which names tools are shown.
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

/// One tool, to be told to a model.
#[derive(Debug, Clone, Copy)]
pub struct PresentedTool<'a> {
    /// The name under which the vendor knows it.
    pub name: &'a str,
    /// The tool.
    pub definition: &'a ToolDefinition,
    /// Its arguments as the vendor can say them.
    pub schema: &'a Value,
}

/// Something that a tool's definition says and the list does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Loss)]
pub struct DefinitionLoss {
    /// Where (RFC 6901), in the tool's definition: `/input_schema/properties/n/default`.
    pub pointer: String,
    /// What it is about: a keyword of JSON Schema, or a member of the definition.
    pub keyword: String,
    /// What was lost.
    pub message: String,
    /// Whether a model may now send what the tool refuses.
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

/// A tool in this format, and what the format itself loses of it; how its schema was lowered is not told again. Native
/// tools and prompts are made elsewhere: they look like those of MCP here.
#[must_use]
pub fn definition(format: Format, told: &PresentedTool<'_>) -> (Value, Vec<DefinitionLoss>) {
    match format {
        Format::OpenAi => openai::chat(told),
        Format::OpenAiStrict => openai::strict(told),
        Format::OpenAiResponses => openai::responses(told),
        Format::Anthropic => (anthropic::tool(told), Vec::new()),
        Format::Gemini => (gemini::declaration(told), Vec::new()),
        Format::Native | Format::Mcp | Format::Prompt => mcp::tool(told),
    }
}

/// What goes into the request as `tools`.
#[must_use]
pub fn tools(format: Format, definitions: Vec<Value>) -> Vec<Value> {
    match format {
        Format::Gemini if !definitions.is_empty() => vec![json!({ "functionDeclarations": definitions })],
        _ => definitions,
    }
}

/// What a model is told of the tool; its title, where there is nothing more.
fn description(definition: &ToolDefinition) -> &str {
    let description = definition.description.as_str();
    if description.trim().is_empty() { definition.display_name() } else { description }
}

/// The description in at most so many characters.
fn bounded(definition: &ToolDefinition, most: usize) -> (String, Vec<DefinitionLoss>) {
    let whole = description(definition);
    let shown = json::shorten(whole, most);
    if shown == whole {
        return (shown, Vec::new());
    }
    let loss = DefinitionLoss {
        pointer: "/description".to_owned(),
        keyword: "description".to_owned(),
        message: format!("only its first {} characters are told: more are refused", most - 1),
        widens: false,
    };
    (json::shorten(whole, most - 1), vec![loss])
}

#[cfg(test)]
mod tests;
