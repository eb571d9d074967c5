//! Takes secrets that a tool was given out of whatever it says, however they are written.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::emitter::Report;
use crate::domain::call::StatusUpdate;
use crate::domain::event::Emission;
use crate::domain::{ContentBlock, Failure, JsonText, Outcome, Progress, outcome};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// The shortest secret that is looked for, in bytes: a shorter one could be a part of any word.
const SHORTEST: usize = 6;

/// What `encodeURIComponent` leaves as it is; other encoders leave less.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');
/// What RFC 3986 (section 2.3) leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Finds secrets as they are, as base64 wherever they begin in it, URL-coded and JSON-escaped.
pub struct Redaction(AhoCorasick);

impl std::fmt::Debug for Redaction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redaction")
    }
}

impl Redaction {
    /// Of these secrets; `None` if there is none that is long enough to be told from any word.
    ///
    /// # Errors
    /// If they are too much to be looked for.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Value>) -> Result<Option<Self>, BuildError> {
        let mut forms = Vec::new();
        secrets.into_iter().for_each(|secret| add(secret, &mut forms));
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return Ok(None);
        }
        // The longest first: a form that is escaped is not left half there because the plain one is in it.
        AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms).map(|finder| Some(Self(finder)))
    }

    /// A text without them.
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

    fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Whether there is one in a value.
    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => self.0.is_match(&number.to_string()),
            Value::String(text) => self.0.is_match(text),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(members) => members.iter().any(|(name, member)| self.0.is_match(name) || self.is_in(member)),
        }
    }

    /// Takes them out of a value.
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
                // What is left of an image would be none.
                ContentBlock::Image { data, mime_type } if self.0.is_match(&*data) || self.0.is_match(&*mime_type) => {
                    *block = ContentBlock::Text(REDACTED.to_owned());
                }
                ContentBlock::Image { .. } => {}
                ContentBlock::Other(members) => self.members(members),
            }
        }
    }

    /// An outcome without them.
    #[must_use]
    pub fn outcome(&self, mut outcome: Outcome) -> Outcome {
        // It was not cut yet: `whole` is empty.
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

    /// A failure without them.
    #[must_use]
    pub fn failure(&self, mut failure: Failure) -> Failure {
        self.string(&mut failure.message);
        self.string(&mut failure.text);
        failure.details.iter_mut().for_each(|details| self.value(details));
        failure
    }

    /// A report without them.
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

/// Every form of the texts in a secret.
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
    if text.len() < SHORTEST {
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
        // Only characters of which every bit is the secret's: the others depend on its neighbours.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        forms.extend(
            [&STANDARD_NO_PAD.encode(&bytes)[from..to], &URL_SAFE_NO_PAD.encode(&bytes)[from..to]].map(str::to_owned),
        );
    }
}

/// As it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same in ASCII (RFC 8259, section 7).
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

/// `%2F` as `%2f`.
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
