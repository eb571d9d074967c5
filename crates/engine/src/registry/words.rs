//! Tokenization for the search: splits names, reduces plurals to singulars, and splits Chinese text into characters and
//! pairs of characters.

/// Words too common to distinguish tools; sorted for binary search.
const COMMON: [&str; 34] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "how", "i", "in", "is",
    "it", "me", "my", "of", "on", "or", "that", "the", "this", "to", "tool", "what", "which", "with", "you", "your",
];

/// Returns `true` if the word is too common to distinguish tools.
pub(super) fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

/// Returns the words of a text in lower case. A name such as `getWeather`, `get_weather` or `weather.get` yields its
/// parts and the joined name.
pub(super) fn words(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().map(narrow).collect();
    let mut found = Vec::new();
    let is_joined = |letter: char| is_spelt(letter) || matches!(letter, '_' | '.' | '-');
    for run in text.split(|letter| !is_joined(*letter) && !is_ideograph(*letter)) {
        for run in run.chunk_by(|one, other| is_ideograph(*one) == is_ideograph(*other)) {
            if run.first().is_some_and(|first| is_ideograph(*first)) {
                found.extend(run.iter().map(char::to_string));
                found.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
            } else {
                name(run, &mut found);
            }
        }
    }
    found
}

fn name(run: &[char], found: &mut Vec<String>) {
    let (mut whole, mut parts) = (String::new(), 0);
    for part in run.split(|letter| !is_spelt(*letter)).flat_map(humps).filter(|part| !part.is_empty()) {
        let part: String = part.iter().flat_map(|letter| letter.to_lowercase()).collect();
        whole.push_str(&part);
        parts += 1;
        found.push(singular(part));
    }
    if parts > 1 {
        found.push(singular(whole));
    }
}

/// Splits `getHTTPPage2` into `get`, `HTTP` and `Page2`.
fn humps(word: &[char]) -> Vec<&[char]> {
    let (mut humps, mut begin) = (Vec::new(), 0);
    for at in 1..word.len() {
        let rises = !word[at - 1].is_uppercase() && word[at].is_uppercase();
        let next_is_lower = word.get(at + 1).is_some_and(|next| next.is_lowercase());
        let ends = word[at - 1].is_uppercase() && word[at].is_uppercase() && next_is_lower;
        if rises || ends {
            humps.push(&word[begin..at]);
            begin = at;
        }
    }
    humps.push(&word[begin..]);
    humps
}

/// Reduces English plurals by their endings. Other words may be changed as well, but always in the same way.
fn singular(mut word: String) -> String {
    if word.len() <= 3 || !word.is_ascii() {
        return word;
    }
    if word.ends_with('s') && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        word.pop();
    }
    // The ending does not tell whether this `e` belongs to the plural, so it is always removed.
    if ["sse", "xe", "che", "she", "ze"].iter().any(|ending| word.ends_with(ending)) {
        word.pop();
    } else if word.ends_with("ie") && word.len() > 3 {
        word.truncate(word.len() - 2);
        word.push('y');
    }
    word
}

/// Returns `true` for characters of scripts with spaces between words.
fn is_spelt(letter: char) -> bool {
    letter.is_alphanumeric() && !is_ideograph(letter)
}

/// Returns `true` for characters of scripts without spaces between words, or with long words: Han, Kana, Hangul, Thai.
fn is_ideograph(letter: char) -> bool {
    matches!(letter,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
        | '\u{3005}' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{0e01}'..='\u{0e4e}')
}

/// Converts full-width characters to their usual form.
fn narrow(letter: char) -> char {
    match letter {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(letter as u32 - 0xfee0).unwrap_or(letter),
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_yield_parts_and_the_joined_name() {
        assert_eq!(words("getWeather"), ["get", "weather", "getweather"]);
        assert_eq!(words("get_weather-now"), ["get", "weather", "now", "getweathernow"]);
        assert_eq!(words("mail.send"), ["mail", "send", "mailsend"]);
        assert_eq!(words("parseHTTPPage2"), ["parse", "http", "page2", "parsehttppage2"]);
        assert_eq!(words("HTTP"), ["http"]);
    }

    #[test]
    fn sentences_are_split_into_words() {
        assert_eq!(words("Reads a File, at once."), ["read", "a", "file", "at", "once"]);
        assert_eq!(words("Über Straße №5"), ["über", "straße", "5"]);
        assert_eq!(words(" … ?! "), Vec::<String>::new());
    }

    #[test]
    fn plurals_are_singulars() {
        let plurals = [
            ("cities", "city"),
            ("movies", "movie"),
            ("boxes", "box"),
            ("files", "file"),
            ("branches", "branch"),
            ("caches", "cache"),
            ("sizes", "size"),
            ("classes", "class"),
        ];
        for (plural, one) in plurals {
            assert_eq!(words(plural), words(one), "{plural}");
        }
        for word in ["status", "class", "analysis", "gas", "is"] {
            assert_eq!(words(word), [word]);
        }
    }

    #[test]
    fn chinese_characters_and_their_pairs_are_words() {
        assert_eq!(words("查询天气"), ["查", "询", "天", "气", "查询", "询天", "天气"]);
        assert_eq!(words("用API查"), ["用", "api", "查"]);
        assert_eq!(words("ＡＰＩ"), ["api"]);
        assert_eq!(words("東京、大阪"), ["東", "京", "東京", "大", "阪", "大阪"]);
    }

    #[test]
    fn common_words_are_sorted() {
        assert!(COMMON.is_sorted() && is_common("the") && !is_common("weather"));
    }
}
