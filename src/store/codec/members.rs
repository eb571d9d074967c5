//! JSON objects of which most members are mostly absent, written one member after another.

use serde::Serialize;

use crate::domain::json;

/// An object that is being written.
pub(super) struct Members<'o>(&'o mut Vec<u8>);

impl<'o> Members<'o> {
    /// Begins one.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self(out)
    }

    /// Begins a member; its value comes next. The name is one that needs no escapes.
    pub fn member(&mut self, name: &'static str) -> &mut Vec<u8> {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0
    }

    /// A string.
    pub fn text(&mut self, name: &'static str, text: &str) {
        json::write_text(self.member(name), text);
    }

    /// JSON that is written already.
    pub fn json(&mut self, name: &'static str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    /// Any value whose maps have strings as keys, and whose numbers came from JSON: then nothing can fail.
    pub fn value(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let out = self.member(name);
        let begins = out.len();
        if serde_json::to_writer(&mut *out, value).is_err() {
            out.truncate(begins);
            out.extend_from_slice(b"null");
        }
    }

    /// The same, unless it is what an absent one is taken for.
    pub fn unusual<T: Serialize + Default + PartialEq>(&mut self, name: &'static str, value: &T) {
        if *value != T::default() {
            self.value(name, value);
        }
    }

    /// Ends it.
    pub fn end(self) {
        self.0.push(b'}');
    }
}
