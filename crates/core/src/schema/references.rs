//! References by URI: rewritten as plain JSON pointers if they point into the document. Nothing is ever fetched.
//!
//! A schema whose references are all fragments (`#…`) is left unchanged.

use std::collections::HashMap;
use std::rc::Rc;

use jsonschema::Draft;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value, json};
use url::Url;

use super::{SchemaError, display, drafts};
use crate::domain::json::{self, SCHEMA_MAPS};

/// The base URI of a document without an identity; relative identities and references are resolved against it.
const UNNAMED: &str = "json-schema:///";

/// The characters that are percent-encoded when a JSON pointer is written as a fragment.
const POINTER: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'~').remove(b'-').remove(b'_').remove(b'.').remove(b'$');

/// Maximum total length of all pointers to references and names of a document, in bytes.
const MAX_POINTERS: usize = 16 << 20;

/// Members of an OpenAPI document that map free names to values.
pub const DOCUMENT_MAPS: [&str; 12] = [
    "schemas",
    "responses",
    "parameters",
    "requestBodies",
    "headers",
    "content",
    "callbacks",
    "paths",
    "pathItems",
    "encoding",
    "links",
    "variables",
];
/// Keywords that hold data, never schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "example"];
/// Keywords that hold a schema or a list of schemas, next to [`SCHEMA_MAPS`].
pub(super) const SCHEMAS: [&str; 16] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "contentSchema",
];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A document whose references are plain pointers from its root.
#[derive(Debug)]
pub(super) struct Local {
    /// The rewritten document.
    pub(super) schema: Value,
    /// Whether it validates the same values as the original; `false` if a reference depends on the dynamic scope or
    /// the drafts are mixed.
    pub(super) is_exact: bool,
}

/// Resolves the references by URI of a document; `None` if it has none.
///
/// # Errors
/// Returns a [`SchemaError`] if a reference points outside the document or its target does not exist.
pub(super) fn localize(document: &Value, draft: Draft) -> Result<Option<Local>, SchemaError> {
    let Ok(unnamed) = Url::parse(UNNAMED).map(Rc::new) else { return Ok(None) };
    if !any_reference(document, &|keyword, to| is_foreign(keyword, to, draft)) {
        return Ok(None);
    }
    let mut names = Names::of(draft);
    names.read(document, &unnamed);
    if names.left == 0 {
        let message = "has too many references by URI below long names: use \"#/$defs/NAME\" references";
        return Err(SchemaError { pointer: String::new(), message: message.to_owned() });
    }
    if !names.references.iter().any(|reference| is_foreign(reference.keyword, &reference.to, draft)) {
        return Ok(None);
    }
    let mut local = Local { schema: document.clone(), is_exact: !names.mixes_drafts };
    let mut is_dynamic = false;
    for reference in &names.references {
        match names.resolve(document, reference) {
            // Possibly data; if another reference leads here, the graph rejects it.
            Err(_) if !reference.is_certain => {}
            Err(error) => return Err(error),
            Ok(Target::Pointer(pointer)) => reference.replace(&mut local.schema, &pointer),
            Ok(Target::Dynamic(name)) => {
                is_dynamic = true;
                reference.keep(&mut local.schema, &name);
            }
        }
    }
    local.is_exact &= !is_dynamic;
    for pointer in &names.named {
        let Some(keywords) = local.schema.pointer_mut(pointer).and_then(Value::as_object_mut) else { continue };
        for keyword in [names.identity(), "$anchor"] {
            keywords.shift_remove(keyword);
        }
        if !is_dynamic {
            keywords.shift_remove("$dynamicAnchor");
            keywords.shift_remove("$recursiveAnchor");
        }
    }
    Ok(Some(local))
}

/// Rewrites the references by URI or anchor of an OpenAPI document as pointers, if they lead to a schema in it; `None`
/// if it has no such references. All other references stay unchanged.
pub fn localize_document(document: &Value) -> Option<Value> {
    let by_name = |to: &str| !to.starts_with("#/") && to != "#";
    if !any_reference(document, &|keyword, to| keyword == "$ref" && by_name(to)) {
        return None;
    }
    let mut names = Names::of(Draft::Draft202012);
    names.is_openapi = true;
    names.read(document, &Rc::new(Url::parse(UNNAMED).ok()?));
    if names.left == 0 {
        return None;
    }
    let mut local = document.clone();
    for reference in names.references.iter().filter(|reference| reference.keyword == "$ref" && by_name(&reference.to)) {
        if let Ok(Target::Pointer(pointer)) = names.resolve(document, reference) {
            reference.replace(&mut local, &pointer);
        }
    }
    Some(local)
}

/// Creates the error for a reference that points outside the schema.
pub(super) fn outside(pointer: &str, keyword: &str, to: &str) -> SchemaError {
    let message = format!(
        "refers outside the schema ({}), and remote schemas are never fetched: copy the definition to \"$defs\" and \
         refer to it as \"#/$defs/NAME\"",
        display::text(to)
    );
    SchemaError { pointer: format!("{pointer}/{keyword}"), message }
}

/// Creates the error for a reference whose target does not exist in the schema.
pub(super) fn nowhere(pointer: &str, keyword: &str, to: &str) -> SchemaError {
    let message =
        format!("{} does not exist in this schema: define it, for example under \"$defs\"", display::text(to));
    SchemaError { pointer: format!("{pointer}/{keyword}"), message }
}

/// A reference as written in the document.
struct Reference {
    /// The pointer of the schema that contains it.
    at: String,
    keyword: &'static str,
    to: String,
    base: Rc<Url>,
    /// Whether it is certainly in a schema, that is, not below an unknown keyword.
    is_certain: bool,
}

/// The target of a reference.
enum Target {
    /// A fixed pointer.
    Pointer(String),
    /// A dynamic anchor of this name; which of several is meant depends on the dynamic scope.
    Dynamic(String),
}

/// The named targets and the references of a document.
#[derive(Default)]
struct Names {
    draft: Draft,
    /// The pointers of the schemas with an identity, by URI.
    resources: HashMap<String, String>,
    /// The pointers of anchors, by the identity of their resource and their name.
    anchors: HashMap<(String, String), String>,
    /// The identity and pointer of each `$dynamicAnchor`, by name; of each `$recursiveAnchor` under the empty name.
    dynamic: HashMap<String, Vec<(String, String)>>,
    references: Vec<Reference>,
    /// The pointers of all schemas with a name of any kind.
    named: Vec<String>,
    /// The pointer of the current schema.
    path: String,
    /// The number of unknown keywords above the current schema.
    unknown: usize,
    /// The bytes that are left for pointers.
    left: usize,
    /// Whether the document is an OpenAPI document.
    is_openapi: bool,
    /// Whether a nested schema declares another draft than the document.
    mixes_drafts: bool,
}

impl Names {
    fn of(draft: Draft) -> Self {
        Self { draft, left: MAX_POINTERS, ..Self::default() }
    }

    fn identity(&self) -> &'static str {
        if self.draft == Draft::Draft4 { "id" } else { "$id" }
    }

    /// Reads one schema and all schemas below it. The parser of the document bounds the nesting.
    fn read(&mut self, schema: &Value, base: &Rc<Url>) {
        let Value::Object(keywords) = schema else { return };
        // Up to draft 7, keywords next to a `$ref` are ignored.
        let only_reference = self.draft <= Draft::Draft7 && keywords.get("$ref").is_some_and(Value::is_string);
        let base = if only_reference { base.clone() } else { self.name(keywords, base) };
        let draft = self.draft;
        for keyword in REFERENCES.into_iter().filter(|keyword| is_known(keyword, draft)) {
            if let Some(Value::String(to)) = keywords.get(keyword) {
                let (at, to, base) = (self.pointer(), to.clone(), base.clone());
                let is_certain = self.unknown == 0;
                self.references.push(Reference { at, keyword, to, base, is_certain });
            }
        }
        for (keyword, value) in keywords {
            let is_unknown = !self.is_map(keyword) && !SCHEMAS.contains(&keyword.as_str());
            self.unknown += usize::from(is_unknown);
            match value {
                _ if DATA.contains(&keyword.as_str()) => {}
                Value::Object(members) if self.is_map(keyword) => self.below(keyword, |names| {
                    members.iter().for_each(|(name, member)| names.below(name, |names| names.read(member, &base)));
                }),
                Value::Object(_) => self.below(keyword, |names| names.read(value, &base)),
                Value::Array(items) => self.below(keyword, |names| {
                    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_object()) {
                        names.below(&index.to_string(), |names| names.read(item, &base));
                    }
                }),
                _ => {}
            }
            self.unknown -= usize::from(is_unknown);
        }
    }

    /// Runs `read` with the path extended by one token. The path is shared, because long names may be above many
    /// schemas.
    fn below(&mut self, token: &str, read: impl FnOnce(&mut Self)) {
        let above = self.path.len();
        self.path.push('/');
        self.path.push_str(&json::pointer_token(token));
        read(self);
        self.path.truncate(above);
    }

    /// Returns the pointer of the current schema; empty once the budget of bytes is spent.
    fn pointer(&mut self) -> String {
        self.left = self.left.saturating_sub(self.path.len());
        if self.left == 0 { String::new() } else { self.path.clone() }
    }

    fn is_map(&self, keyword: &str) -> bool {
        SCHEMA_MAPS.contains(&keyword) || self.is_openapi && DOCUMENT_MAPS.contains(&keyword)
    }

    /// Records the names of one schema and returns the base URI for its contents.
    fn name(&mut self, keywords: &Map<String, Value>, base: &Rc<Url>) -> Rc<Url> {
        let mut base = base.clone();
        let is_root = self.path.is_empty();
        if is_root {
            self.resources.insert(base.to_string(), String::new());
        }
        if !is_root && let Some(declared) = keywords.get("$schema") {
            let declared = drafts::read_draft(&json!({ "$schema": declared }));
            self.mixes_drafts |= declared.is_ok_and(|declared| declared != self.draft);
        }
        let text = |keyword: &str| keywords.get(keyword).and_then(Value::as_str).map(str::to_owned);
        let (id, anchor, dynamic) = (text(self.identity()), text("$anchor"), text("$dynamicAnchor"));
        let is_recursive = keywords.get("$recursiveAnchor") == Some(&Value::Bool(true));
        if id.is_none() && anchor.is_none() && dynamic.is_none() && !is_recursive {
            return base;
        }
        let pointer = self.pointer();
        self.named.push(pointer.clone());
        let (uri, fragment) = id.as_deref().map(|id| id.split_once('#').unwrap_or((id, ""))).unwrap_or_default();
        if let Some(uri) = Some(uri).filter(|uri| !uri.is_empty()).and_then(|uri| base.join(uri).ok()) {
            base = Rc::new(uri);
            self.resources.entry(base.to_string()).or_insert_with(|| pointer.clone());
        }
        self.left = self.left.saturating_sub(base.as_str().len());
        for name in dynamic.iter().cloned().chain(is_recursive.then(String::new)) {
            self.dynamic.entry(name).or_default().push((base.to_string(), pointer.clone()));
        }
        let fragment = Some(fragment.to_owned()).filter(|fragment| !fragment.is_empty());
        for name in fragment.into_iter().chain(anchor).chain(dynamic) {
            self.anchors.entry((base.to_string(), name)).or_insert_with(|| pointer.clone());
        }
        base
    }

    fn resolve(&self, document: &Value, reference: &Reference) -> Result<Target, SchemaError> {
        let Reference { at, keyword, to, base, .. } = reference;
        let (uri, fragment) = to.split_once('#').unwrap_or((to, ""));
        let nowhere = || nowhere(at, keyword, to);
        let resource = match uri {
            "" if to.is_empty() => None,
            "" => self.resources.get_key_value(base.as_str()),
            uri => base.join(uri).ok().and_then(|uri| self.resources.get_key_value(uri.as_str())),
        };
        let (resource, root) = resource.ok_or_else(|| outside(at, keyword, to))?;
        let fragment = percent_decode_str(fragment).decode_utf8().map_err(|_| nowhere())?;
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{root}{fragment}")
        } else {
            self.anchors.get(&(resource.clone(), fragment.to_string())).ok_or_else(nowhere)?.clone()
        };
        if document.pointer(&pointer).is_none() {
            return Err(nowhere());
        }
        let anchor = match *keyword {
            "$dynamicRef" if self.draft >= Draft::Draft202012 => fragment.as_ref(),
            "$recursiveRef" if self.draft == Draft::Draft201909 => "",
            _ => return Ok(Target::Pointer(pointer)),
        };
        let candidates = self.dynamic.get(anchor).map(Vec::as_slice).unwrap_or_default();
        if !candidates.iter().any(|(_, candidate)| *candidate == pointer) {
            return Ok(Target::Pointer(pointer));
        }
        // The outermost resource takes precedence, and the document itself is always the outermost.
        let of_root =
            candidates.iter().find(|(resource, _)| self.resources.get(resource).is_some_and(String::is_empty));
        match (of_root, candidates) {
            (Some((_, of_root)), _) => Ok(Target::Pointer(of_root.clone())),
            (None, [_]) => Ok(Target::Pointer(pointer)),
            _ => Ok(Target::Dynamic(anchor.to_owned())),
        }
    }
}

/// Returns `true` if a draft knows a reference keyword. `$recursiveRef` still works in 2020-12, which renamed it.
fn is_known(keyword: &str, draft: Draft) -> bool {
    match keyword {
        "$dynamicRef" => draft >= Draft::Draft202012,
        "$recursiveRef" => draft >= Draft::Draft201909,
        _ => true,
    }
}

/// Returns `true` if a reference must be rewritten as a pointer.
fn is_foreign(keyword: &str, to: &str, draft: Draft) -> bool {
    !to.starts_with('#') || keyword == "$recursiveRef" && draft >= Draft::Draft202012
}

/// Returns `true` if any member looks like a reference that satisfies `is_such`. A fast check: most documents have
/// none.
fn any_reference(value: &Value, is_such: &impl Fn(&str, &str) -> bool) -> bool {
    match value {
        Value::Object(members) => {
            let found =
                |keyword: &&str| members.get(*keyword).and_then(Value::as_str).is_some_and(|to| is_such(keyword, to));
            REFERENCES.iter().any(found) || members.values().any(|member| any_reference(member, is_such))
        }
        Value::Array(items) => items.iter().any(|item| any_reference(item, is_such)),
        _ => false,
    }
}

impl Reference {
    /// Leaves the reference to the validator, which knows the dynamic scope; only the removed identity is cut off.
    fn keep(&self, document: &mut Value, name: &str) {
        if let Some(keywords) = document.pointer_mut(&self.at).and_then(Value::as_object_mut) {
            keywords.insert(self.keyword.to_owned(), format!("#{name}").into());
        }
    }

    /// Replaces the reference by a `$ref` to the pointer.
    fn replace(&self, document: &mut Value, pointer: &str) {
        let Some(keywords) = document.pointer_mut(&self.at).and_then(Value::as_object_mut) else { return };
        let to = Value::String(format!("#{}", utf8_percent_encode(pointer, POINTER)));
        if self.keyword == "$ref" {
            keywords.insert("$ref".to_owned(), to);
            return;
        }
        keywords.shift_remove(self.keyword);
        if !keywords.contains_key("$ref") {
            keywords.insert("$ref".to_owned(), to);
        } else if let Value::Array(all) = keywords.entry("allOf").or_insert_with(|| json!([])) {
            all.push(json!({ "$ref": to }));
        }
    }
}
