//! The part of a file that is most similar to a text that was not found.

use crate::domain::json::shorten;

/// Maximum number of compared lines.
const MOST_LINES: usize = 100_000;
/// Length of the compared part of a line, in characters.
const COMPARED: usize = 200;
/// Number of lines that are compared exactly, after a comparison of their sketches.
const CLOSELY: usize = 50;
/// Minimum similarity of a line, from 0 to 1.
const ALIKE: f64 = 0.5;
/// Maximum number of shown lines.
const SHOWN: usize = 10;
/// Maximum length of a shown line, in characters.
const SHOWN_CHARS: usize = 200;

/// Describes the closest match: its line numbers and lines.
pub fn nearest(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().collect();
    // The longest line is the most distinctive one.
    let Some((offset, anchor)) = wanted.iter().enumerate().rev().max_by_key(|(_, line)| line.trim().len()) else {
        return String::new();
    };
    let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    if anchor.trim().is_empty() || lines.is_empty() {
        return String::new();
    }
    let Some(found) = most_like(&lines, anchor, &wanted, offset) else {
        return "; no similar text was found: read the file again".to_owned();
    };
    let first = found.saturating_sub(offset);
    let last = (first + wanted.len().clamp(1, SHOWN)).min(lines.len());
    let place = &lines[first..last];
    let is_blank =
        wanted.len() == place.len() && wanted.iter().zip(place).all(|(one, other)| one.trim() == other.trim());
    let why = if is_blank { "; the closest match differs only in whitespace" } else { "; this is the closest match" };
    let shown: Vec<String> = place
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{}: {}", first + at + 1, shorten(line, SHOWN_CHARS)))
        .collect();
    let word = if shown.len() == 1 { "line" } else { "lines" };
    let last = if shown.len() == 1 { String::new() } else { format!("-{last}") };
    format!("{why} ({word} {}{last}):\n{}", first + 1, shown.join("\n"))
}

/// Finds the line most similar to the anchor, preferring lines whose neighbors match as well.
fn most_like(lines: &[&str], anchor: &str, wanted: &[&str], offset: usize) -> Option<usize> {
    let glance = BigramSketch::of(anchor);
    let mut likely: Vec<(usize, u32)> =
        lines.iter().enumerate().map(|(at, line)| (at, glance.distance(&BigramSketch::of(line)))).collect();
    // The sort is stable, so earlier lines come first among equals.
    likely.sort_by_key(|(_, distance)| *distance);
    likely.truncate(CLOSELY);
    let score = |at: usize| {
        let alike = alike(lines[at], anchor);
        let neighbours = wanted.iter().enumerate().filter(|(number, line)| {
            let at = (at + number).checked_sub(offset);
            at.and_then(|at| lines.get(at)).is_some_and(|other| other.trim() == line.trim())
        });
        (alike, neighbours.count())
    };
    let scored = likely.into_iter().map(|(at, _)| (at, score(at))).filter(|(_, (alike, _))| *alike >= ALIKE);
    let best = scored.max_by(|(one_at, (one, one_near)), (other_at, (other, other_near))| {
        let (one, other) = (one + *one_near as f64, other + *other_near as f64);
        one.total_cmp(&other).then(other_at.cmp(one_at))
    });
    best.map(|(at, _)| at)
}

fn alike(one: &str, other: &str) -> f64 {
    let cut = |line: &str| line.trim().chars().take(COMPARED).collect::<String>();
    strsim::normalized_levenshtein(&cut(one), &cut(other))
}

/// A bit set of the hashed byte pairs of a line.
struct BigramSketch([u64; 4]);

impl BigramSketch {
    fn of(line: &str) -> Self {
        let mut bits = [0; 4];
        for pair in line.trim().as_bytes().windows(2).take(COMPARED) {
            let hash = pair[0].wrapping_mul(31).wrapping_add(pair[1]);
            bits[usize::from(hash >> 6)] |= 1 << (hash & 63);
        }
        Self(bits)
    }

    /// Returns the number of pairs that only one of the lines has.
    fn distance(&self, other: &Self) -> u32 {
        self.0.iter().zip(other.0).map(|(one, other)| (one ^ other).count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn one() {\n    first();\n}\n\nfn two() {\n    second(1);\n    third();\n}\n";

    #[test]
    fn the_nearest_place_is_shown_with_its_line() {
        assert_eq!(nearest(TEXT, "second(2);"), "; this is the closest match (line 6):\n6:     second(1);");
        assert_eq!(
            nearest(TEXT, "fn two() {\n    secnd(1);\n"),
            "; this is the closest match (lines 5-6):\n5: fn two() {\n6:     second(1);"
        );
    }

    #[test]
    fn what_differs_in_blanks_only_is_said_to() {
        let said = nearest(TEXT, "  second(1);\n  third();");
        assert_eq!(
            said,
            "; the closest match differs only in whitespace (lines 6-7):\n6:     second(1);\n7:     third();"
        );
    }

    #[test]
    fn of_equal_lines_the_one_with_the_right_neighbours_is_shown() {
        let text = "a {\n  return value;\n}\nb {\n  return value;\n}\n";
        assert!(
            nearest(text, "b {\n return value;")
                .starts_with("; the closest match differs only in whitespace (lines 4-5)")
        );
        assert!(nearest(text, "return valu;").contains("(line 2)"));
    }

    #[test]
    fn nothing_near_is_said_and_long_texts_are_cut() {
        assert_eq!(nearest(TEXT, "完全に違う内容です"), "; no similar text was found: read the file again");
        assert_eq!(nearest("", "x"), "");
        let said = nearest(&"long ".repeat(10_000), &"long ".repeat(9_999).replacen("long", "lang", 1));
        assert!(said.len() < 300, "{}", said.len());
    }
}
