//! The part of a file that is most similar to a text that was not found.

use toolpost_core::domain::json::shorten;

/// Maximum number of compared lines.
const MAX_LINES: usize = 100_000;
/// Length of the compared part of a line, in characters.
const MAX_COMPARED_CHARS: usize = 200;
/// Number of lines that are compared exactly, after a comparison of their sketches.
const MAX_CANDIDATES: usize = 50;
/// Minimum similarity of a line, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.5;
/// Maximum number of shown lines.
const MAX_SHOWN_LINES: usize = 10;
/// Maximum length of a shown line, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// Describes the closest match: its line numbers and lines.
pub fn nearest(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().collect();
    // The longest line is the most distinctive one.
    let Some((offset, anchor)) = wanted.iter().enumerate().rev().max_by_key(|(_, line)| line.trim().len()) else {
        return String::new();
    };
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    if anchor.trim().is_empty() || lines.is_empty() {
        return String::new();
    }
    let Some(found) = most_similar(&lines, anchor, &wanted, offset) else {
        return "; no similar text was found: read the file again".to_owned();
    };
    let first = found.saturating_sub(offset);
    let last = (first + wanted.len().clamp(1, MAX_SHOWN_LINES)).min(lines.len());
    let candidate = &lines[first..last];
    let is_blank =
        wanted.len() == candidate.len() && wanted.iter().zip(candidate).all(|(one, other)| one.trim() == other.trim());
    let why = if is_blank { "; the closest match differs only in whitespace" } else { "; this is the closest match" };
    let shown: Vec<String> = candidate
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{}: {}", first + at + 1, shorten(line, MAX_SHOWN_CHARS)))
        .collect();
    let word = if shown.len() == 1 { "line" } else { "lines" };
    let last = if shown.len() == 1 { String::new() } else { format!("-{last}") };
    format!("{why} ({word} {}{last}):\n{}", first + 1, shown.join("\n"))
}

/// Finds the line most similar to the anchor, preferring lines whose neighbors match as well.
fn most_similar(lines: &[&str], anchor: &str, wanted: &[&str], offset: usize) -> Option<usize> {
    let sketch = BigramSketch::of(anchor);
    let mut likely: Vec<(usize, u32)> =
        lines.iter().enumerate().map(|(at, line)| (at, sketch.distance(&BigramSketch::of(line)))).collect();
    // The sort is stable, so earlier lines come first among equals.
    likely.sort_by_key(|(_, distance)| *distance);
    likely.truncate(MAX_CANDIDATES);
    let score = |at: usize| {
        let similarity = similarity(lines[at], anchor);
        let neighbors = wanted.iter().enumerate().filter(|(number, line)| {
            let at = (at + number).checked_sub(offset);
            at.and_then(|at| lines.get(at)).is_some_and(|other| other.trim() == line.trim())
        });
        (similarity >= MIN_SIMILARITY).then(|| similarity + neighbors.count() as f64)
    };
    let scored = likely.into_iter().filter_map(|(at, _)| Some((at, score(at)?)));
    let best = scored.max_by(|(one_at, one), (other_at, other)| one.total_cmp(other).then(other_at.cmp(one_at)));
    best.map(|(at, _)| at)
}

fn similarity(one: &str, other: &str) -> f64 {
    let cut = |line: &str| line.trim().chars().take(MAX_COMPARED_CHARS).collect::<String>();
    strsim::normalized_levenshtein(&cut(one), &cut(other))
}

/// A bit set of the hashed byte pairs of a line.
struct BigramSketch([u64; 4]);

impl BigramSketch {
    fn of(line: &str) -> Self {
        let mut bits = [0; 4];
        for pair in line.trim().as_bytes().windows(2).take(MAX_COMPARED_CHARS) {
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
    fn closest_match_is_shown_with_its_lines() {
        assert_eq!(nearest(TEXT, "second(2);"), "; this is the closest match (line 6):\n6:     second(1);");
        assert_eq!(
            nearest(TEXT, "fn two() {\n    secnd(1);\n"),
            "; this is the closest match (lines 5-6):\n5: fn two() {\n6:     second(1);"
        );
    }

    #[test]
    fn whitespace_differences_are_reported() {
        let message = nearest(TEXT, "  second(1);\n  third();");
        assert_eq!(
            message,
            "; the closest match differs only in whitespace (lines 6-7):\n6:     second(1);\n7:     third();"
        );
    }

    #[test]
    fn matching_neighbors_decide_among_equal_lines() {
        let text = "a {\n  return value;\n}\nb {\n  return value;\n}\n";
        assert!(
            nearest(text, "b {\n return value;")
                .starts_with("; the closest match differs only in whitespace (lines 4-5)")
        );
        assert!(nearest(text, "return valu;").contains("(line 2)"));
    }

    #[test]
    fn missing_similarity_is_reported_and_long_lines_are_truncated() {
        assert_eq!(nearest(TEXT, "完全に違う内容です"), "; no similar text was found: read the file again");
        assert_eq!(nearest("", "x"), "");
        let message = nearest(&"long ".repeat(10_000), &"long ".repeat(9_999).replacen("long", "lang", 1));
        assert!(message.len() < 300, "{}", message.len());
    }
}
