//! Definitions that come from a URL: what an answer may say, how it meets the definition's own words, and how it is stored.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::check::{self, Fault};
use super::entry::Made;
use super::{Entry, Registry};
use crate::domain::tool::{self, DefinitionError};
use crate::domain::{Source, Tenant, Time, ToolDefinition, json};

/// How long an answer is good where the definition does not say.
const USUAL_TTL_MS: u64 = 60_000;
/// Shortest and longest time that can be declared: a tenth of a second and a day.
const TTL_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;
/// Longest URL, in bytes.
const LONGEST_URL: usize = 2048;
/// Largest answer, in bytes: two schemas of the largest size, and words.
const LARGEST_ANSWER: usize = 1024 * 1024;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the stored text keeps what was fetched.
const STORED: &str = "definition_fetched";

/// What a URL answers: it comes before the definition's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
}

/// What is known of a definition's URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    /// The last good answer.
    pub overlay: Option<Arc<Overlay>>,
    /// Why it is not a newer one.
    pub error: Option<DefinitionError>,
    /// When it was last asked.
    pub at: Option<Time>,
}

impl Overlay {
    /// Reads an answer. Members that mean nothing here are left alone: whoever answers may serve others too.
    ///
    /// # Errors
    /// What it is instead.
    pub fn read(value: Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err(format!("its answer must be an object, not {}", json::type_name(&value)));
        }
        let overlay: Self = serde_json::from_value(value).map_err(|error| format!("its answer is unfit: {error}"))?;
        if overlay == Self::default() {
            return Err("its answer has none of title, description, input_schema and output_schema".to_owned());
        }
        Ok(overlay)
    }

    /// Puts it before the definition's own words.
    pub fn apply(&self, definition: &mut ToolDefinition) {
        if let Some(title) = &self.title {
            definition.title = Some(title.clone());
        }
        if let Some(description) = &self.description {
            definition.description.clone_from(description);
        }
        if let Some(schema) = &self.input_schema {
            definition.input_schema.clone_from(schema);
        }
        if let Some(schema) = &self.output_schema {
            definition.output_schema = Some(schema.clone());
        }
    }
}

/// What is wrong with a definition's URL and its time.
pub(super) fn check(definition: &ToolDefinition) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(text) = &definition.definition_url {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        match url {
            _ if text.len() > LONGEST_URL => {
                faults.push(Fault::at("/definition_url", format!("must have at most {LONGEST_URL} bytes")));
            }
            None => faults.push(Fault::at("/definition_url", "must be an http:// or https:// URL")),
            Some(url) if !url.username().is_empty() || url.password().is_some() => {
                faults.push(Fault::at("/definition_url", "a user or password does not belong in the URL"));
            }
            Some(_) => {}
        }
    }
    match definition.definition_ttl_ms {
        Some(_) if definition.definition_url.is_none() => {
            faults.push(Fault::at("/definition_ttl_ms", "is only for a definition with a `definition_url`"));
        }
        Some(ttl) if !TTL_MS.contains(&ttl) => {
            let message = format!("must be {} to {}", TTL_MS.start(), TTL_MS.end());
            faults.push(Fault::at("/definition_ttl_ms", message));
        }
        _ => {}
    }
    faults
}

/// How long an answer is good.
pub(super) fn ttl(definition: &ToolDefinition) -> Duration {
    Duration::from_millis(definition.definition_ttl_ms.unwrap_or(USUAL_TTL_MS))
}

/// A definition as it is stored: with what was fetched, so that other nodes and the next start have it at once.
///
/// # Errors
/// If it cannot be said in JSON.
pub fn to_store(definition: &ToolDefinition, fetched: &Fetched) -> Result<String, serde_json::Error> {
    let kept = definition.kept()?;
    if *fetched == Fetched::default() {
        return Ok(kept);
    }
    let mut value: Value = serde_json::from_str(&kept)?;
    value[STORED] = serde_json::to_value(fetched)?;
    serde_json::to_string(&value)
}

/// The way back.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn read_stored(text: &str) -> Result<(ToolDefinition, Fetched), String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let fetched = value.as_object_mut().and_then(|members| members.shift_remove(STORED));
    // What cannot be read any more is fetched again.
    let fetched = fetched.and_then(|fetched| serde_json::from_value(fetched).ok()).unwrap_or_default();
    Ok((serde_json::from_value(value).map_err(|error| error.to_string())?, fetched))
}

impl Registry {
    /// Asks a URL for its part of a definition.
    pub(super) async fn fetch(&self, url: &str) -> Result<Overlay, String> {
        let parse = |bytes: &[u8]| tool::parse_definition(bytes, |_| 0);
        let (value, replaced) = self.workshop.client().fetch_parsed(url, LARGEST_ANSWER, PATIENCE, parse).await?;
        for bound in replaced {
            tracing::debug!(url, bound = bound.to_string(), "a bound of a schema was replaced");
        }
        Overlay::read(value)
    }

    /// Asks a definition's URL, if it has one and nothing else is wrong with it.
    pub async fn fetch_for(&self, definition: &ToolDefinition) -> Fetched {
        let Some(url) = definition.definition_url.as_ref().filter(|_| check::definition(definition).is_empty()) else {
            return Fetched::default();
        };
        let (overlay, error) = match self.fetch(url).await {
            Ok(overlay) => (Some(Arc::new(overlay)), None),
            Err(message) => (None, Some(DefinitionError { message, at: self.clock.now() })),
        };
        Fetched { overlay, error, at: Some(self.clock.now()) }
    }

    /// Compiles a definition with what was fetched for it, without registering it. Where that does not fit, the
    /// definition's own words have to do.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn try_fetched(
        &self,
        tenant: &Tenant,
        mut definition: ToolDefinition,
        fetched: Fetched,
    ) -> Result<Fetched, Vec<Fault>> {
        // It is to fit the presets that are stored for it, too.
        definition.presets.extend(self.stored_presets(tenant, &definition.name));
        let error = fetched.error.clone();
        let made = self.make_best(definition, self.trial(Source::Api), fetched, None);
        made.map(|entry| entry.fetched).map_err(|mut faults| {
            faults.extend(error.map(|error| Fault::at("/definition_url", error.message)));
            faults
        })
    }

    /// Compiles a definition with what was fetched; if that does not fit, with what fitted last, or as it is declared.
    pub(super) fn make_best(
        &self,
        declared: ToolDefinition,
        made: Made,
        fetched: Fetched,
        last: Option<&Fetched>,
    ) -> Result<Entry, Vec<Fault>> {
        let has_answer = fetched.overlay.is_some();
        let at = fetched.at;
        let mut faults = match self.workshop.make_with(declared.clone(), made, fetched) {
            Err(faults) if has_answer => faults,
            entry => return entry,
        };
        let message = format!("its answer cannot be used: {}", check::summary(&faults));
        let known = last.and_then(|last| last.error.clone()).filter(|error| error.message == message);
        let error = known.unwrap_or(DefinitionError { message: message.clone(), at: self.clock.now() });
        let overlay = last.and_then(|last| last.overlay.clone());
        let instead = Fetched { overlay, error: Some(error), at };
        self.workshop.make_with(declared, made, instead).map_err(|_| {
            faults.push(Fault::at("/definition_url", message));
            faults
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_an_object_with_something_to_say() {
        for value in [json!([]), json!("x"), json!({}), json!({"name": "x"}), json!({"description": 5})] {
            assert!(Overlay::read(value.clone()).is_err(), "{value}");
        }
        let overlay = Overlay::read(json!({"description": "d", "name": "other", "input_schema": {"type": "object"}}));
        let overlay = overlay.unwrap();
        let mut definition = crate::tool::About::with_schema("t", Value::Null).title("own").into_definition();
        overlay.apply(&mut definition);
        assert_eq!((definition.name.as_str(), definition.title.as_deref()), ("t", Some("own")));
        assert_eq!((definition.description.as_str(), definition.input_schema), ("d", json!({"type": "object"})));
    }

    #[test]
    fn what_was_fetched_is_stored_beside_the_definition() {
        let definition = crate::tool::About::with_schema("t", json!({"type": "object"})).into_definition();
        let plain = to_store(&definition, &Fetched::default()).unwrap();
        assert_eq!(serde_json::from_str::<ToolDefinition>(&plain).unwrap(), definition);
        let overlay = Overlay { title: Some("T".into()), ..Overlay::default() };
        let error = DefinitionError { message: "m".into(), at: Time(1_000_000) };
        let fetched = Fetched { overlay: Some(Arc::new(overlay)), error: Some(error), at: Some(Time(2_000_000)) };
        let text = to_store(&definition, &fetched).unwrap();
        assert_eq!(read_stored(&text).unwrap(), (definition.clone(), fetched));
        assert_eq!(read_stored(&plain).unwrap(), (definition, Fetched::default()));
    }
}
