//! Planted values and the forms in which they could leak.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A planted value.
pub struct Needle {
    pub what: &'static str,
    pub value: &'static str,
}

impl Needle {
    /// Returns the forms of the value: raw, JSON-escaped once and twice, URL-coded, in hex, and as base64 at any
    /// offset.
    pub fn forms(&self) -> Vec<Vec<u8>> {
        let bytes = self.value.as_bytes();
        let once = inner(self.value);
        let coded = |left: &[u8]| -> String {
            let code = |byte: &u8| match byte.is_ascii_alphanumeric() || left.contains(byte) {
                true => char::from(*byte).to_string(),
                false => format!("%{byte:02X}"),
            };
            bytes.iter().map(code).collect()
        };
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let urls = [coded(b""), coded(b"-_.~"), coded(b"-_.~").replace("%20", "+")];
        let mut forms = vec![self.value.to_owned(), inner(&once), once, hex.to_uppercase(), hex];
        forms.extend(urls);
        for before in 0..3 {
            let padded = [&[b'x'; 2][..before], bytes].concat();
            // The first and last characters also encode neighboring bytes.
            let trim = |text: String| text[4..text.len() - 4].to_owned();
            forms.extend([trim(STANDARD_NO_PAD.encode(&padded)), trim(URL_SAFE_NO_PAD.encode(&padded))]);
        }
        forms.into_iter().map(String::into_bytes).collect()
    }

    /// Returns the position of the value in any form, or `None` if it does not occur.
    fn find(&self, haystack: &[u8]) -> Option<usize> {
        let finder = aho_corasick::AhoCorasick::new(self.forms()).unwrap();
        finder.find(haystack).map(|found| found.start())
    }

    /// Fails if any form of the value occurs in the bytes.
    pub fn is_not_in(&self, origin: &str, haystack: &[u8]) {
        if let Some(at) = self.find(haystack) {
            let around = &haystack[at.saturating_sub(200)..haystack.len().min(at + 200)];
            panic!("{} is in {origin}: {}", self.what, String::from_utf8_lossy(around));
        }
    }
}

fn inner(text: &str) -> String {
    let quoted = serde_json::Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns a text with the value in the forms that a leaking tool could use.
pub fn all_forms(value: &str) -> String {
    let coded = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
    let base64 = ["", "u:", "uv:"].map(|before| STANDARD.encode(format!("{before}{value} and more")));
    format!("raw {value} json {} twice {} url {coded} base64 {}", inner(value), inner(&inner(value)), base64.join(" "))
}

#[test]
fn planted_value_is_found_in_every_form_of_a_tool() {
    let needle = Needle { what: "it", value: "sk-plänted/+\"7?&x" };
    for part in all_forms(needle.value).split(' ').filter(|part| part.len() > 9) {
        assert!(needle.find(format!("<{part}>").as_bytes()).is_some(), "{part}");
    }
    needle.is_not_in("there", b"nothing of it");
}
