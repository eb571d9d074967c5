//! A writer for JSON objects whose members are mostly absent.

use serde::Serialize;

use toolpost_core::domain::json;

/// An unfinished JSON object.
pub(super) struct Members<'o>(&'o mut Vec<u8>);

impl<'o> Members<'o> {
    /// Begins an object.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self(out)
    }

    /// Begins a member whose value follows. The name must not need escapes.
    pub fn member(&mut self, name: &'static str) -> &mut Vec<u8> {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0
    }

    /// Writes a string.
    pub fn text(&mut self, name: &'static str, text: &str) {
        json::write_text(self.member(name), text);
    }

    /// Writes a value that is already JSON.
    pub fn json(&mut self, name: &'static str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    /// Writes a serializable value. Its map keys must be strings and its numbers valid JSON, so that serialization
    /// cannot fail.
    pub fn value(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let out = self.member(name);
        let begins = out.len();
        if serde_json::to_writer(&mut *out, value).is_err() {
            out.truncate(begins);
            out.extend_from_slice(b"null");
        }
    }

    /// Writes a value unless it equals its default, which is the meaning of an absent member.
    pub fn non_default<T: Serialize + Default + PartialEq>(&mut self, name: &'static str, value: &T) {
        if *value != T::default() {
            self.value(name, value);
        }
    }

    /// Ends the object.
    pub fn end(self) {
        self.0.push(b'}');
    }
}
