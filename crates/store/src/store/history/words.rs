//! The words of calls that the history can be searched for.
//!
//! A word is a sequence of letters and digits, in lower case. An ideograph is a word of its own, because Chinese and
//! Japanese texts have no spaces.

use std::collections::HashSet;

use serde_json::Value;

use toolpost_core::domain::Call;

/// Maximum number of different words of a call. Further words are not found.
pub const MAX_WORDS: usize = 1000;
/// Maximum length of a word, in characters. The rest of a longer word is ignored.
const MAX_CHARS: usize = 64;
/// Maximum number of bytes of one text that are searched.
const MAX_BYTES: usize = 256 * 1024;

/// Returns the different words of a query, in order.
#[must_use]
pub fn of_query(text: &str) -> Vec<String> {
    let mut words = CollectedWords::default();
    words.add(text);
    words.in_order
}

/// Returns the different words in the arguments and the output of a call.
#[must_use]
pub fn of_call(call: &Call) -> HashSet<String> {
    let mut words = CollectedWords::default();
    words.add_value(&call.arguments);
    if let Some(effective) = call.effective_arguments.as_deref().filter(|_| call.arguments.is_string()) {
        // The text of escaped arguments differs from its words.
        words.add_value(effective);
    }
    if let Some(outcome) = call.outcome.as_deref() {
        words.add(&outcome.output);
    }
    words.found
}

/// Returns `true` if the call has all these words.
pub(super) fn has_all(call: &Call, words: &[String]) -> bool {
    let found = of_call(call);
    words.iter().all(|word| found.contains(word))
}

/// Returns the number under which a word of a tenant is indexed (FNV-1a). It must never change once rows exist. Calls
/// that are found by an equal number of another word are checked again.
#[must_use]
pub fn hash(tenant: &str, word: &str) -> i64 {
    let bytes = tenant.bytes().chain([0xff]).chain(word.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    i64::from_ne_bytes(hash.to_ne_bytes())
}

/// Words that were found so far.
#[derive(Debug, Default)]
struct CollectedWords {
    found: HashSet<String>,
    in_order: Vec<String>,
}

impl CollectedWords {
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => self.add(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.add_value(item)),
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                self.add(name);
                self.add_value(value);
            }),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn add(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        for part in text.split(|character: char| !character.is_alphanumeric()).filter(|part| !part.is_empty()) {
            let mut rest = part;
            while let Some(first) = rest.chars().next() {
                let length =
                    if is_ideograph(first) { first.len_utf8() } else { rest.find(is_ideograph).unwrap_or(rest.len()) };
                let (word, next) = rest.split_at(length);
                self.insert(word);
                rest = next;
            }
        }
    }

    fn insert(&mut self, word: &str) {
        if self.found.len() >= MAX_WORDS {
            return;
        }
        let word: String = match word.is_ascii() {
            true => word[..word.len().min(MAX_CHARS)].to_ascii_lowercase(),
            false => word.chars().take(MAX_CHARS).flat_map(char::to_lowercase).collect(),
        };
        if self.found.insert(word.clone()) {
            self.in_order.push(word);
        }
    }
}

/// Returns `true` for a character of a script without spaces between words.
fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{2e80}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        assert_eq!(
            of_query("Order_id: A-1001, \"ÄRGER\"\u{0}x 10.5"),
            ["order", "id", "a", "1001", "ärger", "x", "10", "5"]
        );
        assert_eq!(of_query("a A a"), ["a"]);
        assert_eq!(of_query(" \u{0}-😀"), [""; 0]);
        assert_eq!(of_query(&"x".repeat(100)), ["x".repeat(64)]);
    }

    #[test]
    fn ideographs_are_words_of_their_own() {
        assert_eq!(of_query("天气Wetter好"), ["天", "气", "wetter", "好"]);
    }

    #[test]
    fn words_of_tenants_differ() {
        assert_ne!(hash("a", "b"), hash("", "ab"));
        assert_ne!(hash("a", "b"), hash("b", "a"));
        assert_eq!(hash("default", "paris"), 3_532_046_707_267_914_850);
    }
}
