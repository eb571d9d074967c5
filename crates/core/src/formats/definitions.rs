//! Tool definitions in the formats of model vendors, and what each format cannot express.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::domain::{Naming, ToolDefinition, Vendor, json};
use crate::schema::lower::{Loss, Target};

pub mod mcp;
pub mod parameters;
pub mod prompt;

/// Maximum length of a description for OpenAI, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The format of a list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ToolFormat)]
pub enum Format {
    /// Toolpost's own format.
    Native,
    /// `tools` of OpenAI's Chat Completions and of compatible servers.
    #[serde(rename = "openai")]
    OpenAi,
    /// `tools` of OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// `tools` of OpenAI's Chat Completions with `strict`: the model can only generate what the schema allows. A tool whose
    /// schema cannot be strict is offered without, with the reason in `not_strict`.
    #[serde(rename = "openai-strict")]
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
    /// All formats, in the order of their discriminants.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Native,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::OpenAiStrict,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
        Self::Prompt,
    ];
    /// Number of formats.
    pub const COUNT: usize = Self::Prompt as usize + 1;

    /// Returns the name of the format, which is also its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiStrict => "openai-strict",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

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
    /// Whether the schema allows `strict`; matters for [`Format::OpenAiStrict`] only.
    pub is_strict: bool,
}

/// Converts a definition to a format, and returns the losses of the format itself, without those of lowering the
/// schema. Native lists and prompts are created elsewhere; here they are like MCP.
#[must_use]
pub fn definition(format: Format, presented: &PresentedTool<'_>) -> (Value, Vec<Loss>) {
    let PresentedTool { name, definition, schema, is_strict } = *presented;
    match format {
        Format::OpenAi | Format::OpenAiStrict => {
            let (description, losses) = bounded(definition);
            let mut function = json!({ "name": name, "description": description, "parameters": schema });
            if format == Format::OpenAiStrict {
                function["strict"] = is_strict.into();
            }
            (json!({ "type": "function", "function": function }), losses)
        }
        Format::OpenAiResponses => {
            let (description, losses) = bounded(definition);
            // Responses are strict by default.
            let tool = json!({
                "type": "function", "name": name, "description": description, "parameters": schema, "strict": false,
            });
            (tool, losses)
        }
        Format::Anthropic => {
            (json!({ "name": name, "description": description(definition), "input_schema": schema }), Vec::new())
        }
        Format::Gemini => {
            let mut declaration = json!({ "name": name, "description": description(definition) });
            let properties = schema.get("properties").and_then(Value::as_object);
            // Gemini rejects an object without properties, so a tool without arguments has no `parameters`.
            if properties.is_some_and(|properties| !properties.is_empty()) {
                declaration["parameters"] = schema.clone();
            }
            (declaration, Vec::new())
        }
        Format::Native | Format::Mcp | Format::Prompt => mcp::tool(presented),
    }
}

/// Returns `true` for the text of a definition in [`Format::OpenAiStrict`] without `strict`.
#[must_use]
pub fn is_declared_not_strict(format: Format, text: &[u8]) -> bool {
    format == Format::OpenAiStrict && text.ends_with(br#""strict":false}}"#)
}

/// Wraps serialized definitions for the `tools` of a request.
#[must_use]
pub fn tools(format: Format, definitions: Vec<Box<RawValue>>) -> Vec<Box<RawValue>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Tool {
        function_declarations: Vec<Box<RawValue>>,
    }
    if format != Format::Gemini || definitions.is_empty() {
        return definitions;
    }
    // Serialization of serialized values cannot fail.
    to_raw_value(&Tool { function_declarations: definitions }).into_iter().collect()
}

/// Returns the text before and after the definitions in `tools` of a request, if there are any; see [`tools`].
#[must_use]
pub fn wrapper(format: Format) -> (&'static str, &'static str) {
    if format == Format::Gemini { (r#"{"functionDeclarations":["#, "]}") } else { ("", "") }
}

/// Returns the description for the model, or the title if the description is empty.
fn description(definition: &ToolDefinition) -> &str {
    let description = definition.description.as_str();
    if description.trim().is_empty() { definition.display_name() } else { description }
}

/// Truncates the description to [`MAX_DESCRIPTION_CHARS`].
fn bounded(definition: &ToolDefinition) -> (String, Vec<Loss>) {
    const MAX_CHARS: usize = MAX_DESCRIPTION_CHARS - 1;
    let whole = description(definition);
    if whole.chars().count() <= MAX_DESCRIPTION_CHARS {
        return (whole.to_owned(), Vec::new());
    }
    let loss = Loss {
        pointer: "/description".to_owned(),
        keyword: "description".to_owned(),
        message: format!("truncated to {MAX_CHARS} characters, because longer descriptions are rejected"),
        widens: false,
    };
    (json::shorten(whole, MAX_CHARS), vec![loss])
}

#[cfg(test)]
mod tests;
