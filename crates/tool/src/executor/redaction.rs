//! Redaction of secrets from everything that a tool returns, in plain and encoded form.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::emitter::Report;
use toolpost_core::domain::call::StatusUpdate;
use toolpost_core::domain::event::Emission;
use toolpost_core::domain::{ContentBlock, Failure, JsonText, Outcome, Progress, outcome};

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// Minimum length of a redacted secret, in bytes. Shorter ones occur in ordinary words.
const MIN_LENGTH: usize = 6;

/// All characters except the unreserved ones of RFC 3986 (section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The same without the further characters that `encodeURIComponent` leaves as they are.
const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');

/// A search for secrets in plain form, as base64 at any offset, percent-encoded and JSON-escaped.
pub struct Redaction(AhoCorasick);

impl std::fmt::Debug for Redaction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redaction")
    }
}

impl Redaction {
    /// Compiles the search for these secrets; `None` if all of them are too short to be distinguished from ordinary
    /// words.
    ///
    /// # Errors
    /// Returns an error if the secrets are too large to be compiled.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Value>) -> Result<Option<Self>, BuildError> {
        let mut forms = Vec::new();
        secrets.into_iter().for_each(|secret| add(secret, &mut forms));
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return Ok(None);
        }
        // The longest match wins: otherwise the plain form inside of an escaped form would leave the rest of it.
        AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms).map(|finder| Some(Self(finder)))
    }

    /// Redacts a text.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.0.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        self.0.replace_all_with(text, &mut clean, |_, _, clean| {
            clean.push_str(REDACTED);
            true
        });
        Cow::Owned(clean)
    }

    /// Redacts a text if there are secrets.
    #[must_use]
    pub fn apply(redaction: Option<&Self>, mut text: String) -> String {
        redaction.into_iter().for_each(|redaction| redaction.string(&mut text));
        text
    }

    fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Returns `true` if a value contains a secret.
    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => self.0.is_match(&number.to_string()),
            Value::String(text) => self.0.is_match(text),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(members) => members.iter().any(|(name, member)| self.0.is_match(name) || self.is_in(member)),
        }
    }

    /// Redacts a value in place.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.0.is_match(&number.to_string()) {
                    *value = REDACTED.into();
                }
            }
            Value::String(text) => self.string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => self.members(members),
        }
    }

    fn members(&self, members: &mut Map<String, Value>) {
        if members.keys().any(|name| self.0.is_match(name)) {
            *members = std::mem::take(members)
                .into_iter()
                .map(|(name, member)| (self.text(&name).into_owned(), member))
                .collect();
        }
        members.values_mut().for_each(|member| self.value(member));
    }

    fn content(&self, content: &mut [ContentBlock]) {
        for block in content {
            match block {
                ContentBlock::Text(text) => self.string(text),
                // Redacted image data would not be a valid image.
                ContentBlock::Image { data, mime_type } if self.0.is_match(&*data) || self.0.is_match(&*mime_type) => {
                    *block = ContentBlock::Text(REDACTED.to_owned());
                }
                ContentBlock::Image { .. } => {}
                ContentBlock::Other(members) => self.members(members),
            }
        }
    }

    /// Redacts an outcome.
    #[must_use]
    pub fn outcome(&self, mut outcome: Outcome) -> Outcome {
        // Redaction runs before truncation, so `full_output` is empty.
        let Outcome { output, content, structured, structured_text, full_output: _, details, metadata, error } =
            &mut outcome;
        let has_text_of_its_own = structured_text.is_none();
        if let Some(value) = structured
            && self.is_in(value)
        {
            let mut clean = (**value).clone();
            self.value(&mut clean);
            if !has_text_of_its_own {
                let text = JsonText::of(&clean);
                text.get().clone_into(output);
                *structured_text = Some(text);
            }
            *value = clean.into();
        }
        self.content(content);
        if has_text_of_its_own {
            self.string(output);
        } else if outcome::joined_text(content) != *output {
            *content = vec![ContentBlock::Text(output.clone())];
        }
        self.members(details);
        self.members(metadata);
        if let Some(failure) = error.take() {
            *error = Some(self.failure(failure));
        }
        outcome
    }

    /// Redacts a failure.
    #[must_use]
    pub fn failure(&self, mut failure: Failure) -> Failure {
        self.string(&mut failure.message);
        self.string(&mut failure.text);
        failure.details.iter_mut().for_each(|details| self.value(details));
        failure
    }

    /// Redacts a report.
    #[must_use]
    pub fn report(&self, report: Report) -> Report {
        match report {
            Report::Status(mut update) => {
                let StatusUpdate { tip, params, metadata, progress, phase: _ } = &mut update;
                tip.iter_mut().for_each(|tip| self.string(tip));
                self.members(params);
                self.members(metadata);
                if let Some(Progress { message: Some(message), .. }) = progress {
                    self.string(message);
                }
                Report::Status(update)
            }
            Report::Emission(mut emission) => {
                let Emission { content, details } = &mut emission;
                self.content(content);
                self.members(details);
                Report::Emission(emission)
            }
        }
    }
}

/// Adds all forms of the texts in a secret.
fn add(secret: &Value, forms: &mut Vec<String>) {
    match secret {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => add_text(&number.to_string(), forms),
        Value::String(text) => add_text(text, forms),
        Value::Array(items) => items.iter().for_each(|item| add(item, forms)),
        Value::Object(members) => members.values().for_each(|member| add(member, forms)),
    }
}

fn add_text(text: &str, forms: &mut Vec<String>) {
    if text.len() < MIN_LENGTH {
        return;
    }
    let escaped = escaped(text);
    forms.extend([text.to_owned(), ascii(&escaped), self::escaped(&escaped), escaped.replace('/', "\\/"), escaped]);
    for set in [COMPONENT, UNRESERVED, NON_ALPHANUMERIC] {
        let coded = utf8_percent_encode(text, set).to_string();
        forms.extend([lower_hex(&coded), coded.replace("%20", "+"), lower_hex(&coded).replace("%20", "+"), coded]);
    }
    for before in 0..3 {
        let bytes = [&[0; 3][..before], text.as_bytes()].concat();
        // Keeps only characters whose bits all belong to the secret; the others depend on adjacent bytes.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        forms.extend(
            [&STANDARD_NO_PAD.encode(&bytes)[from..to], &URL_SAFE_NO_PAD.encode(&bytes)[from..to]].map(str::to_owned),
        );
    }
}

/// Escapes a text for use between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes all non-ASCII characters (RFC 8259, section 7).
fn ascii(escaped: &str) -> String {
    let mut text = String::with_capacity(escaped.len());
    for letter in escaped.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// Lowercases percent-encoded digits, such as `%2F` to `%2f`.
fn lower_hex(coded: &str) -> String {
    let mut digits = 0;
    let lower = coded.chars().map(|letter| {
        digits = if letter == '%' { 2 } else { i32::max(digits - 1, -1) };
        if letter != '%' && digits >= 0 { letter.to_ascii_lowercase() } else { letter }
    });
    lower.collect()
}

#[cfg(test)]
#[path = "redaction/tests.rs"]
mod tests;
