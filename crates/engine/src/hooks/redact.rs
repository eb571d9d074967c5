//! The built-in hook `redact`: removes members by JSON pointer and text by pattern from everything stored of a call.
//! Regular expressions run in linear time.

use std::cell::Cell;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};

use toolpost_core::domain::call::CallRecord;
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{ContentBlock, JsonText, Outcome, decode, json, outcome};

/// Maximum number of pointers, and of patterns, of one hook.
const MAX_ENTRIES: usize = 64;
/// Maximum size of a compiled pattern, in bytes. A few patterns may be larger: Unicode classes such as `\w{16}` need
/// this.
const MAX_PATTERN: usize = 256 * 1024;
const MAX_LARGE_PATTERN: usize = 2 * 1024 * 1024;
const MAX_LARGE_PATTERNS: usize = 8;
/// The default replacement.
const REPLACEMENT: &str = "[redacted]";
/// Maximum length of a replacement, in characters.
const MAX_REPLACEMENT: usize = 1000;
/// Maximum growth of a call by one hook, in bytes. A pattern can match every character, and several hooks can run in
/// sequence.
const MAX_GROWTH: usize = 1024 * 1024;
/// The first tokens that a pointer can have.
const PARTS: [&str; 3] = ["arguments", "structured", "details"];

/// The options of the hook `redact`: what it removes from stored calls.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RedactOptions)]
pub struct Options {
    #[serde(default)]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "array", "maxItems": 64,
        "items": {"type": "string", "pattern": "^/(arguments|structured|details)(/([^~/]|~[01])*)+$"}}))))]
    pointers: Vec<String>,
    /// Regular expressions.
    #[serde(default)]
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "array", "maxItems": 64,
        "items": {"type": "string", "format": "regex"}}))))]
    patterns: Vec<String>,
    #[schema(max_length = 1000, extensions(("x-together" = json!({"anyOf": [
        {"required": ["pointers"], "properties": {"pointers": {"minItems": 1}}},
        {"required": ["patterns"], "properties": {"patterns": {"minItems": 1}}}]}))))]
    replacement: Option<String>,
}

/// The compiled options of the hook.
#[derive(Debug, Clone)]
pub(super) struct Redact {
    /// The part of the call, and the path within it.
    pointers: Vec<(String, Vec<String>)>,
    patterns: Vec<Regex>,
    replacement: String,
}

impl Redact {
    /// Parses `{pointers:[…], patterns:[…], replacement?}`.
    pub fn read(options: &Value) -> Result<Self, Vec<(String, String)>> {
        let options: Options = decode::read(options.clone()).map_err(|error| vec![(error.pointer, error.message)])?;
        let (mut pointers, mut patterns, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (index, text) in options.pointers.iter().enumerate() {
            match parse_pointer(text) {
                Some(path) => pointers.push(path),
                None => faults.push((
                    format!("/pointers/{index}"),
                    "must be a JSON pointer that begins with /arguments/, /structured/ or /details/".to_owned(),
                )),
            }
        }
        let mut larger = 0;
        for (index, text) in options.patterns.iter().enumerate() {
            match compile(text, &mut larger) {
                Ok(pattern) => patterns.push(pattern),
                Err(reason) => faults.push((format!("/patterns/{index}"), reason)),
            }
        }
        if pointers.len() > MAX_ENTRIES || patterns.len() > MAX_ENTRIES {
            faults
                .push((String::new(), format!("must have at most {MAX_ENTRIES} pointers and {MAX_ENTRIES} patterns")));
        }
        if options.pointers.is_empty() && options.patterns.is_empty() {
            faults.push((String::new(), "must have pointers or patterns".to_owned()));
        }
        let replacement = options.replacement.unwrap_or_else(|| REPLACEMENT.to_owned());
        if replacement.chars().count() > MAX_REPLACEMENT {
            let message = format!("must have at most {MAX_REPLACEMENT} characters");
            faults.push(("/replacement".to_owned(), message));
        }
        if faults.is_empty() { Ok(Self { pointers, patterns, replacement }) } else { Err(faults) }
    }

    /// Redacts the stored form of an ended call. Returns `true` if anything changed.
    pub fn apply(&self, call: &mut CallRecord) -> bool {
        Pass { redact: self, growth: Cell::new(MAX_GROWTH) }.call(call)
    }
}

/// The redaction of one call.
struct Pass<'a> {
    redact: &'a Redact,
    /// The number of bytes by which the call may still grow.
    growth: Cell<usize>,
}

impl Pass<'_> {
    fn call(&self, call: &mut CallRecord) -> bool {
        let mut changed = self.arguments(call);
        for members in [&mut call.params, &mut call.metadata] {
            changed |= self.texts_of(members);
        }
        if call.streamed {
            // The parameters of a streamed call are partial arguments.
            changed |= self.members(&mut call.params, "arguments");
        }
        changed |= call.tip.as_mut().is_some_and(|tip| self.text(tip));
        let message = call.progress.as_mut().and_then(|progress| progress.message.as_mut());
        changed |= message.is_some_and(|message| self.text(message));
        let Some(outcome) = &mut call.outcome else { return changed };
        // Redact the full output, and truncate it for the model again.
        let mut other = Outcome::clone(outcome).untruncated();
        if self.outcome(&mut other) {
            let bounds = call.limits.map_or_else(Bounds::default, |limits| limits.output());
            *outcome = Arc::new(other.truncated(&bounds, call.id));
            changed = true;
        }
        changed
    }

    fn arguments(&self, call: &mut CallRecord) -> bool {
        let effective = call.effective_arguments.clone();
        let is_one = effective.as_ref().is_some_and(|effective| Arc::ptr_eq(effective, &call.arguments));
        let given = self.value_of(&call.arguments, "arguments");
        if let Some(given) = &given {
            call.arguments = given.clone();
            call.arguments_text = JsonText::of(given);
        }
        let effective =
            if is_one { given.clone() } else { effective.and_then(|effective| self.value_of(&effective, "arguments")) };
        let changed = given.is_some() || effective.is_some();
        call.effective_arguments = effective.or(call.effective_arguments.take());
        changed
    }

    fn outcome(&self, outcome: &mut Outcome) -> bool {
        let mut changed = self.members(&mut outcome.details, "details") | self.texts_of(&mut outcome.details);
        if let Some(error) = &mut outcome.error {
            changed |= self.text(&mut error.message) | self.text(&mut error.text);
            changed |= error.details.as_mut().is_some_and(|details| self.texts(details));
        }
        let of_data = outcome.structured.as_deref().map(Value::to_string);
        let is_data = of_data.as_deref() == Some(outcome.output.as_str());
        if let Some(structured) = outcome.structured.as_ref().and_then(|value| self.value_of(value, "structured")) {
            changed = true;
            if is_data {
                let text = JsonText::of(&structured);
                replace_text(outcome, text.get());
                outcome.structured_text = Some(text);
            }
            outcome.structured = Some(structured);
        }
        let is_joined = outcome.output == outcome::joined_text(&outcome.content);
        let mut text_changed = false;
        for block in &mut outcome.content {
            text_changed |= match block {
                ContentBlock::Text(text) => self.text(text),
                ContentBlock::Image { .. } => false,
                ContentBlock::Other(members) => self.texts_of(members),
            };
        }
        if is_joined {
            outcome.output = outcome::joined_text(&outcome.content);
        } else {
            text_changed |= self.text(&mut outcome.output);
        }
        if text_changed && is_data {
            // A match in the text only: the data contains the same text in some form.
            (outcome.structured, outcome.structured_text) = (None, None);
        }
        changed | text_changed
    }

    /// Returns the redacted value; `None` if nothing changed. A string may contain the JSON of the value.
    fn value_of(&self, value: &Value, part: &str) -> Option<Arc<Value>> {
        let mut other = match value {
            Value::String(text) => json::parse(text.as_bytes()).unwrap_or_else(|_| value.clone()),
            _ => value.clone(),
        };
        let by_pointer = self.at_pointers(&mut other, part);
        if value.is_string() {
            // A string stays a string, and keeps its formatting if no member of it was removed.
            let text = if by_pointer { other.to_string() } else { value.as_str().unwrap_or_default().to_owned() };
            other = Value::String(text);
        }
        (self.texts(&mut other) | by_pointer).then(|| Arc::new(other))
    }

    fn members(&self, members: &mut Map<String, Value>, part: &str) -> bool {
        let mut value = Value::Object(std::mem::take(members));
        let changed = self.at_pointers(&mut value, part);
        if let Value::Object(rest) = value {
            *members = rest;
        }
        changed
    }

    fn at_pointers(&self, value: &mut Value, part: &str) -> bool {
        let mut changed = false;
        for (_, path) in self.redact.pointers.iter().filter(|(of, _)| of == part) {
            let found = path.iter().try_fold(&mut *value, |value, token| match value {
                Value::Object(members) => members.get_mut(token),
                Value::Array(items) => token.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
                _ => None,
            });
            if let Some(found) = found {
                *found = Value::String(self.redact.replacement.clone());
                changed = true;
            }
        }
        changed
    }

    fn texts_of(&self, members: &mut Map<String, Value>) -> bool {
        members.values_mut().fold(false, |changed, value| changed | self.texts(value))
    }

    /// Redacts every string in the value, and every number by its text.
    fn texts(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.text(text),
            Value::Number(number) => {
                let mut text = number.to_string();
                let changed = self.text(&mut text);
                if changed {
                    *value = Value::String(text);
                }
                changed
            }
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| changed | self.texts(item)),
            Value::Object(members) => self.texts_of(members),
            Value::Null | Value::Bool(_) => false,
        }
    }

    fn text(&self, text: &mut String) -> bool {
        let mut changed = false;
        for pattern in &self.redact.patterns {
            if let Some(replaced) = self.replace(pattern, text) {
                changed |= replaced != *text;
                *text = replaced;
            }
        }
        changed
    }

    /// Replaces the matches of a pattern; `None` if nothing matches. Empty matches are skipped. Once the call has grown
    /// too much, matches are removed without a replacement.
    fn replace(&self, pattern: &Regex, text: &str) -> Option<String> {
        let (mut replaced, mut rest) = (String::new(), 0);
        for found in pattern.find_iter(text).filter(|found| !found.is_empty()) {
            replaced.push_str(&text[rest..found.start()]);
            rest = found.end();
            let growth = self.redact.replacement.len().saturating_sub(found.len());
            if let Some(left) = self.growth.get().checked_sub(growth) {
                self.growth.set(left);
                replaced.push_str(&self.redact.replacement);
            }
        }
        replaced.push_str(&text[rest..]);
        (rest > 0).then_some(replaced)
    }
}

/// Compiles a pattern. `larger` counts the patterns that exceed the normal size.
fn compile(text: &str, larger: &mut usize) -> Result<Regex, String> {
    match RegexBuilder::new(text).size_limit(MAX_PATTERN).build() {
        Err(regex::Error::CompiledTooBig(_)) if *larger < MAX_LARGE_PATTERNS => {
            *larger += 1;
            RegexBuilder::new(text).size_limit(MAX_LARGE_PATTERN).build()
        }
        other => other,
    }
    .map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!(
                "is too large when compiled (over {limit} bytes): use smaller repetitions, or ASCII classes such as \
                    `(?-u:\\w)`"
            )
        }
        other => other.to_string(),
    })
}

/// Splits a pointer into the part of the call and the path within it.
fn parse_pointer(pointer: &str) -> Option<(String, Vec<String>)> {
    let mut tokens = pointer.strip_prefix('/')?.split('/').map(|token| token.replace("~1", "/").replace("~0", "~"));
    let part = tokens.next().filter(|part| PARTS.contains(&part.as_str()))?;
    let path: Vec<String> = tokens.collect();
    (!path.is_empty()).then_some((part, path))
}

/// Replaces the output, and the text block that contains it.
fn replace_text(outcome: &mut Outcome, text: &str) {
    let old = std::mem::replace(&mut outcome.output, text.to_owned());
    for block in &mut outcome.content {
        if matches!(block, ContentBlock::Text(block) if *block == old) {
            *block = ContentBlock::Text(text.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
