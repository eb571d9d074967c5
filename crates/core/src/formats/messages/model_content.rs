//! The content of a result for a model: texts and images in order, never `details`, which are for people.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::domain::{Call, ContentBlock, Phase};
use crate::formats::{EMPTY_OUTPUT, is_blank};

/// The result of a call for a model.
#[derive(Debug, PartialEq)]
pub(super) struct ModelContent<'a> {
    /// The parts in order. Blank texts next to images are omitted.
    pub pieces: Vec<Piece<'a>>,
    pub is_error: bool,
}

/// A part of a result.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Image { data: &'a str, mime_type: &'a str },
}

impl<'a> ModelContent<'a> {
    /// Creates the content of a call. `takes` returns `true` for image types that the model accepts.
    pub fn of(call: &'a Call, takes: impl Fn(&str) -> bool) -> Self {
        let Some(outcome) = call.outcome.as_deref() else {
            let state = match call.phase {
                Phase::Approval => "waits for the approval of a person",
                _ => "was started and runs in the background",
            };
            let text = format!("Tool call \"{}\" {state} (id {}). Its result is not known yet.", call.name, call.id);
            return Self { pieces: vec![Piece::Text(text.into())], is_error: false };
        };
        let is_error = outcome.is_error();
        if outcome.content.iter().all(|block| matches!(block, ContentBlock::Text(_))) {
            let text = if is_blank(outcome) { EMPTY_OUTPUT } else { outcome.output.as_str() };
            return Self { pieces: vec![Piece::Text(text.into())], is_error };
        }
        let pieces = outcome.content.iter().map(|block| match block {
            ContentBlock::Text(text) => Piece::Text(text.as_str().into()),
            ContentBlock::Image { data, mime_type } if takes(mime_type) => Piece::Image { data, mime_type },
            ContentBlock::Image { mime_type, .. } => {
                Piece::Text(format!("[an image ({mime_type}) was omitted: it cannot be shown here]").into())
            }
            ContentBlock::Other(block) => Piece::Text(block_text(block)),
        });
        let pieces = pieces.filter(|piece| !matches!(piece, Piece::Text(text) if text.trim().is_empty())).collect();
        Self { pieces, is_error }
    }

    /// Marks an error in its text, for vendors without an error flag.
    pub fn marked(mut self) -> Self {
        let is_marked = |piece: &Piece<'_>| matches!(piece, Piece::Text(text) if text.starts_with("Error"));
        if self.is_error && !self.pieces.first().is_some_and(is_marked) {
            match self.pieces.first_mut() {
                Some(Piece::Text(text)) => *text = format!("Error: {text}").into(),
                _ => self.pieces.insert(0, Piece::Text("Error:".into())),
            }
        }
        self
    }

    pub fn has_images(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Image { .. }))
    }

    /// Returns the texts, joined by newlines.
    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(&**text),
            Piece::Image { .. } => None,
        });
        let texts: Vec<&str> = texts.collect();
        texts.join("\n")
    }
}

/// Converts another block to text: the text of an MCP resource, or the URI of a link.
fn block_text(block: &Map<String, Value>) -> Cow<'_, str> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    if kind == "resource"
        && let Some(text) = block.get("resource").and_then(|resource| resource.get("text")).and_then(Value::as_str)
    {
        return text.into();
    }
    if kind == "resource_link"
        && let Some(uri) = text("uri")
    {
        let name = text("title").or_else(|| text("name")).unwrap_or_default();
        return format!("[a link to the resource \"{name}\": {uri}]").into();
    }
    format!("[a block of type \"{kind}\" was omitted: it cannot be shown here]").into()
}

/// Returns `true` for image types that all vendors with image support accept.
pub(super) fn is_common_image(mime_type: &str) -> bool {
    ["image/png", "image/jpeg", "image/webp"].contains(&mime_type)
}
