//! Suggestions for misspelled names ("did you mean …?").

use std::cmp::Reverse;
use std::collections::HashSet;

/// Maximum length of a compared name, in bytes.
const MAX_BYTES: usize = 128;

/// Returns the name that was most likely meant, if one is close enough: equal except for case and separators, or few
/// edits away for its length. Among equally close names, the first one is returned. Cheap for thousands of names.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.is_empty() || wanted.len() > MAX_BYTES {
        return None;
    }
    let wanted_folded = folded(wanted);
    let length = wanted_folded.chars().count();
    // At most one edit in three characters: "citty" is "city", but "map" is not "cat".
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let limit = best.map_or(length / 3, |(distance, _)| distance.saturating_sub(1));
        // A difference in length is a lower bound of the distance; comparing bytes skips most names without folding
        // them.
        if name == wanted || name.len() > MAX_BYTES || name.len() > 4 * (length + limit) + 8 {
            continue;
        }
        let name_folded = folded(name);
        let name_length = name_folded.chars().count();
        if name_length == 0 || name_length.abs_diff(length) > limit || best.is_some_and(|(distance, _)| distance == 0) {
            continue;
        }
        let distance = strsim::osa_distance(&wanted_folded, &name_folded);
        if distance <= limit && distance * 3 <= length.min(name_length) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Sorts names by similarity to the wanted name: the proportion of pairs of adjacent characters that they share. The
/// sort is stable. Each name is read once, so this is cheap for thousands of names.
pub fn sort_by_nearness(wanted: &str, names: &mut [&str]) {
    let mut pairs = Vec::new();
    collect_pairs(wanted, &mut pairs);
    let wanted: HashSet<(char, char)> = pairs.iter().copied().collect();
    // Dice's coefficient in thousandths: integers have a total order.
    names.sort_by_cached_key(|name| {
        collect_pairs(name, &mut pairs);
        let shared = pairs.iter().filter(|pair| wanted.contains(pair)).count();
        Reverse(2000 * shared / (wanted.len() + pairs.len()).max(1))
    });
}

/// Collects the distinct pairs of adjacent characters of a folded name.
fn collect_pairs(name: &str, pairs: &mut Vec<(char, char)>) {
    pairs.clear();
    let mut last = '^';
    for next in folded(cut(name)).chars() {
        pairs.push((last, next));
        last = next;
    }
    pairs.sort_unstable();
    pairs.dedup();
}

/// Truncates a name to the length that is compared.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_BYTES)]
}

/// Removes case and separators; a name that consists only of separators is returned unchanged.
fn folded(name: &str) -> String {
    let letters: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { name.to_owned() } else { letters }
}

#[cfg(test)]
mod tests {
    use super::{nearest, sort_by_nearness};

    #[test]
    fn typos_case_and_separators_are_tolerated() {
        let names = ["city", "country", "get_weather", "C"];
        for (wanted, meant) in [
            ("citty", "city"),
            ("ctiy", "city"),
            ("City", "city"),
            ("getWeather", "get_weather"),
            ("get-wether", "get_weather"),
            ("contry", "country"),
            ("c", "C"),
        ] {
            assert_eq!(nearest(wanted, names), Some(meant), "{wanted}");
        }
    }

    #[test]
    fn distant_names_are_not_suggested() {
        for wanted in ["", "x", "map", "weather_of_the_day", "it", &"c".repeat(10_000)] {
            assert_eq!(nearest(wanted, ["city", "country", "get_weather", "C", "cat", "id"]), None, "{wanted}");
        }
    }

    #[test]
    fn nearest_name_is_suggested_and_first_of_equals() {
        assert_eq!(nearest("colour", ["colours", "color", "colour_"]), Some("colour_"));
        assert_eq!(nearest("nam", ["name", "names"]), Some("name"));
        assert_eq!(nearest("file1", ["file2", "file3"]), Some("file2"));
    }
    #[test]
    fn similar_names_are_sorted_first_and_the_rest_is_stable() {
        let mut names = ["a_first", "mail.read", "weather_get", "zebra", "get_weather", "mail.send"];
        sort_by_nearness("getWeater", &mut names);
        assert_eq!(names[..2], ["get_weather", "weather_get"]);
        sort_by_nearness("send_mail", &mut names);
        assert_eq!(names[..2], ["mail.send", "mail.read"]);
        let mut names = ["b", "a", "c"];
        for wanted in ["", "x", &"ü".repeat(10_000)] {
            sort_by_nearness(wanted, &mut names);
            assert_eq!(names, ["b", "a", "c"], "{wanted}");
        }
    }
}
