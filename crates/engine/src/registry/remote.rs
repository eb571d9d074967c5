//! Fetching and checking of definitions with a URL.

use std::sync::Arc;
use std::time::Duration;

use super::Registry;
use super::builder::ToolFacts;
use super::check::{self, Fault};
use super::fetched::{DefinitionOverlay, FetchedDefinition};
use toolpost_core::domain::tool::{self, DefinitionError};
use toolpost_core::domain::{Source, Tenant, ToolDefinition};

/// Maximum length of a response, in bytes: enough for two schemas of the maximum size and texts.
const LARGEST_ANSWER: usize = 1024 * 1024;
/// Timeout of a request.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

impl Registry {
    /// Fetches the document at a URL.
    pub(super) async fn fetch(&self, url: &str) -> Result<DefinitionOverlay, String> {
        let parse = |bytes: &[u8]| tool::parse_definition(bytes, |_| 0);
        let (value, replaced) = self.builder.client.fetch_json(url, LARGEST_ANSWER, FETCH_TIMEOUT, parse).await?;
        for bound in replaced {
            tracing::debug!(url, bound = bound.to_string(), "a bound in a schema was replaced");
        }
        DefinitionOverlay::read(value)
    }

    /// Fetches the document of a definition, if it has a URL and is otherwise valid.
    pub async fn fetch_for(&self, definition: &ToolDefinition) -> FetchedDefinition {
        let Some(url) = definition.definition_url.as_ref().filter(|_| check::definition(definition).is_empty()) else {
            return FetchedDefinition::default();
        };
        let (overlay, error) = match self.fetch(url).await {
            Ok(overlay) => (Some(Arc::new(overlay)), None),
            Err(message) => (None, Some(DefinitionError { message, at: self.clock.now() })),
        };
        FetchedDefinition { overlay, error, at: Some(self.clock.now()) }
    }

    /// Checks a definition with its fetched document, without registering it. If the document does not fit, the
    /// definition is checked without it.
    ///
    /// # Errors
    /// Returns all faults of the definition.
    pub fn try_fetched(
        &self,
        tenant: &Tenant,
        mut definition: ToolDefinition,
        fetched: FetchedDefinition,
    ) -> Result<FetchedDefinition, Vec<Fault>> {
        // The presets stored for the tool must match the definition, too.
        definition.presets.extend(self.stored_presets(tenant, &definition.name));
        let error = fetched.error.clone();
        let checked = self.check_best(&definition, Source::Api, fetched, None);
        checked.map(|facts| facts.fetched).map_err(|mut faults| {
            faults.extend(error.map(|error| Fault::at("/definition_url", error.message)));
            faults
        })
    }

    /// Checks a definition with a fetched document; if that is invalid, with the last valid document, or as declared.
    pub(super) fn check_best(
        &self,
        declared: &ToolDefinition,
        source: Source,
        fetched: FetchedDefinition,
        last: Option<&FetchedDefinition>,
    ) -> Result<ToolFacts, Vec<Fault>> {
        let has_answer = fetched.overlay.is_some();
        let at = fetched.at;
        let mut faults = match self.builder.check(declared, source, fetched) {
            Err(faults) if has_answer => faults,
            checked => return checked,
        };
        let message = format!("the response cannot be used: {}", check::summary(&faults));
        let known = last.and_then(|last| last.error.clone()).filter(|error| error.message == message);
        let error = known.unwrap_or(DefinitionError { message: message.clone(), at: self.clock.now() });
        let overlay = last.and_then(|last| last.overlay.clone());
        let instead = FetchedDefinition { overlay, error: Some(error), at };
        self.builder.check(declared, source, instead).map_err(|_| {
            faults.push(Fault::at("/definition_url", message));
            faults
        })
    }
}
