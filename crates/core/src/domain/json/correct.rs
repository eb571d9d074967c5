//! JSON as other programs write it: with half of a surrogate pair, `NaN`, infinities, or a byte order mark.

/// Returns the text as JSON (RFC 8259) with a note of what was changed, or `None` if nothing of this kind was found in
/// an object or array. The result may still be no JSON.
///
/// Half of a surrogate pair becomes U+FFFD; `NaN` and infinities, which JSON does not have, become `null`.
#[must_use]
pub fn correct(text: &str) -> Option<(String, String)> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !bare.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut corrected = CorrectedText { out: String::with_capacity(bare.len()), surrogates: 0, numbers: 0 };
    let mut rest = bare;
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        let (before, from) = rest.split_at(at);
        corrected.out.push_str(before);
        rest = if from.starts_with('"') { corrected.string(from) } else { corrected.number(from) };
    }
    corrected.out.push_str(rest);
    let CorrectedText { out, surrogates, numbers } = corrected;
    let mut notes = Vec::new();
    if surrogates > 0 {
        notes.push(format!("{surrogates} incomplete surrogate pair(s) replaced by U+FFFD"));
    }
    if numbers > 0 {
        notes.push(format!("{numbers} value(s) NaN or Infinity replaced by null"));
    }
    if notes.is_empty() && bare.len() < text.len() {
        notes.push("a byte order mark removed".to_owned());
    }
    (!notes.is_empty()).then(|| (out, notes.join("; ")))
}

struct CorrectedText {
    out: String,
    surrogates: usize,
    numbers: usize,
}

impl CorrectedText {
    /// Copies a string that begins the text, and returns the rest.
    fn string<'t>(&mut self, text: &'t str) -> &'t str {
        self.out.push('"');
        let mut rest = &text[1..];
        while let Some(at) = rest.find(['"', '\\']) {
            self.out.push_str(&rest[..at]);
            let from = &rest[at..];
            if let Some(after) = from.strip_prefix('"') {
                self.out.push('"');
                return after;
            }
            rest = match (code_unit(from), code_unit(from.get(6..).unwrap_or_default())) {
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => self.copy(from, 12),
                (Some(0xD800..=0xDFFF), _) => {
                    self.surrogates += 1;
                    self.out.push_str("\\ufffd");
                    &from[6..]
                }
                // The escaped character may have several bytes.
                _ => self.copy(from, 1 + from[1..].chars().next().map_or(0, char::len_utf8)),
            };
        }
        self.out.push_str(rest);
        ""
    }

    /// Replaces a number that JSON does not have, or copies one character. Returns the rest.
    fn number<'t>(&mut self, text: &'t str) -> &'t str {
        let after = ["NaN", "Infinity", "-Infinity", "-NaN"].iter().find_map(|word| text.strip_prefix(word));
        let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-' | '+');
        let is_within_word = self.out.ends_with(is_letter) || after.is_some_and(|after| after.starts_with(is_letter));
        match after {
            Some(after) if !is_within_word => {
                self.numbers += 1;
                self.out.push_str("null");
                after
            }
            _ => self.copy(text, 1),
        }
    }

    fn copy<'t>(&mut self, text: &'t str, bytes: usize) -> &'t str {
        let (copied, rest) = text.split_at(bytes.min(text.len()));
        self.out.push_str(copied);
        rest
    }
}

/// Returns the UTF-16 code unit of an escape (`\ud83d`) at the beginning of the text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn unambiguous_errors_are_corrected() {
        for (text, expected) in [
            (r#"{"a":"caf\ud83d end"}"#, json!({"a": "caf\u{fffd} end"})),
            (r#"["\udc00\ud83d\ude00\ud83d"]"#, json!(["\u{fffd}😀\u{fffd}"])),
            (r#"["\\ud83d", "\"\ud83d\u0041"]"#, json!(["\\ud83d", "\"\u{fffd}A"])),
            ("[NaN, -Infinity,Infinity , -1, \"NaN\"]", json!([null, null, null, -1, "NaN"])),
            ("\u{feff}{\"a\": \"é\"}", json!({"a": "é"})),
            (" {\"a\":NaN}", json!({"a": null})),
        ] {
            let (corrected, note) = correct(text).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&corrected).unwrap(), expected, "{text}: {note}");
        }
    }

    #[test]
    fn other_texts_stay_unchanged() {
        for text in ["NaN", "Infinity war", "{\"a\":1}", "[1e-5,-3]", "\"\\ud83d\"", "[\"\\", "[\"\\u", "[\"\\ud8", ""]
        {
            assert_eq!(correct(text), None, "{text}");
        }
        let (corrected, _) = correct("[NaN, NaNo, xNaN, 1NaN]").unwrap();
        assert_eq!(corrected, "[null, NaNo, xNaN, 1NaN]");
    }

    proptest! {
        #[test]
        fn valid_json_is_never_changed(texts in proptest::collection::vec(any::<String>(), 0..5)) {
            let text = json!(texts).to_string();
            prop_assert_eq!(correct(&text), None);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[\\[{\"\\\\uNaInfinity\\-dD8é0-9,:\u{feff}]{0,60}") {
            let _ = correct(&text);
        }
    }
}
