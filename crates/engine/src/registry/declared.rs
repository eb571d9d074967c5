//! Declared definitions as JSON text, the form in which the registry keeps them.

use std::sync::Arc;

use serde::de::Deserialize as _;

use toolpost_core::domain::ToolDefinition;
use toolpost_core::domain::preset::Presets;
use toolpost_core::domain::tool::UpstreamMetadata;

/// A definition as declared. A parsed one takes about ten times its text.
#[derive(Clone, PartialEq)]
pub(super) struct DeclaredDefinition {
    name: Arc<str>,
    text: Arc<str>,
    /// Members that have no stored form.
    more: Option<Box<UnstoredMembers>>,
}

#[derive(Clone, Default, PartialEq)]
struct UnstoredMembers {
    upstream: Option<Arc<UpstreamMetadata>>,
    /// Presets stored over the API, which take precedence.
    presets: Presets,
}

/// Shows the name only, because the text contains the values of presets.
impl std::fmt::Debug for DeclaredDefinition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Declared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DeclaredDefinition {
    /// Keeps a definition without the values of stored presets.
    ///
    /// # Errors
    /// Returns an error if the definition cannot be serialized.
    pub fn of(definition: &ToolDefinition) -> Result<Self, serde_json::Error> {
        let upstream = definition.upstream.clone();
        let more = upstream.map(|upstream| UnstoredMembers { upstream: Some(upstream), presets: Presets::new() });
        let (name, text) = (definition.name.as_str().into(), definition.to_stored()?.into());
        Ok(Self { name, text, more: more.map(Box::new) })
    }

    /// Keeps the text of a stored definition.
    pub fn stored(name: Arc<str>, text: &str) -> Self {
        Self { name, text: text.into(), more: None }
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Adds presets to the definition.
    pub fn with_presets(&self, presets: Presets) -> Self {
        let mut with = self.clone();
        with.more.get_or_insert_default().presets.extend(presets);
        with
    }

    /// Returns the length of the text in bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Parses the definition.
    ///
    /// # Errors
    /// Returns an error if the text is not a definition.
    pub fn read(&self) -> Result<ToolDefinition, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(&self.text);
        // The text was written by this process or checked before.
        reader.disable_recursion_limit();
        let mut definition = ToolDefinition::deserialize(&mut reader)?;
        if let Some(more) = &self.more {
            definition.upstream.clone_from(&more.upstream);
            definition.presets.extend(more.presets.clone());
        }
        Ok(definition)
    }

    /// Returns `true` if both declare the same definition.
    pub fn is(&self, other: &Self) -> bool {
        // Members of schemas can have another order, which changes the text but not the definition.
        self == other || matches!((self.read(), other.read()), (Ok(one), Ok(other)) if one == other)
    }
}
