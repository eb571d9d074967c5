//! Finding and replacing the only occurrence of a text. Line endings follow the file.

use std::borrow::Cow;

use toolpost_core::domain::truncation;

/// The edited text.
#[derive(Debug, PartialEq, Eq)]
pub struct EditedText {
    pub text: String,
    /// The line where the change starts, counted from 1.
    pub line: usize,
    /// Number of lines that the old text touches. `lines_after` is that of the new text.
    pub lines_before: usize,
    pub lines_after: usize,
}

/// An error returned by [`replace_unique`].
#[derive(Debug, PartialEq, Eq)]
pub enum MatchError {
    /// The text does not occur.
    None,
    /// The text occurs more than once, at these lines.
    Ambiguous { count: usize, lines: Vec<usize> },
}

/// Maximum number of line numbers in an error.
const MAX_LINES: usize = 100;

/// Replaces the only occurrence of `old` in `text` with `new`. Models write LF; it also matches CRLF in the file.
///
/// # Errors
/// Returns an error unless `old` occurs exactly once.
pub fn replace_unique(text: &str, old: &str, new: &str) -> Result<EditedText, MatchError> {
    let is_crlf = is_crlf(text);
    let (at, old) = match find_unique(text, old) {
        // Try the other line ending.
        Err(MatchError::None) if old.contains('\n') => {
            let other = if old.contains("\r\n") { old.replace("\r\n", "\n") } else { with_crlf(old) };
            (find_unique(text, &other)?, Cow::Owned(other))
        }
        found => (found?, Cow::Borrowed(old)),
    };
    // The line endings of the replaced text take precedence over those of the file.
    let has_crlf = if old.contains('\n') { old.contains("\r\n") } else { is_crlf };
    let new = if has_crlf { Cow::Owned(with_crlf(new)) } else { Cow::Borrowed(new) };
    let (before, after) = (&text[..at], &text[at + old.len()..]);
    Ok(EditedText {
        line: newlines(before) + 1,
        lines_before: truncation::lines(&old),
        lines_after: truncation::lines(&new),
        text: [before, &new, after].concat(),
    })
}

/// Returns the position of the only occurrence.
fn find_unique(text: &str, old: &str) -> Result<usize, MatchError> {
    let Some(first) = text.find(old) else { return Err(MatchError::None) };
    let step = old.chars().next().map_or(1, char::len_utf8);
    // An overlapping occurrence is ambiguous, too.
    if !text[first + step..].contains(old) {
        return Ok(first);
    }
    let (mut count, mut lines, mut line, mut counted) = (0, Vec::new(), 1, 0);
    for (at, _) in text.match_indices(old) {
        count += 1;
        line += newlines(&text[counted..at]);
        counted = at;
        if lines.len() < MAX_LINES {
            lines.push(line);
        }
    }
    Err(MatchError::Ambiguous { count: count.max(2), lines })
}

/// Returns `true` if at least half of the lines end in CRLF.
fn is_crlf(text: &str) -> bool {
    let crlf = text.matches("\r\n").count();
    crlf > 0 && crlf * 2 >= newlines(text)
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, old: &str, new: &str) -> Result<String, MatchError> {
        replace_unique(text, old, new).map(|edited| edited.text)
    }

    #[test]
    fn only_the_unique_occurrence_is_replaced() {
        let edited = replace_unique("a\nb\nc\n", "b\nc", "x").unwrap();
        assert_eq!(edited, EditedText { text: "a\nx\n".into(), line: 2, lines_before: 2, lines_after: 1 });
        assert_eq!(text("日本語\n", "本", ""), Ok("日語\n".into()));
        assert_eq!(text("a", "b", "c"), Err(MatchError::None));
    }

    #[test]
    fn ambiguous_occurrences_are_counted_with_lines() {
        let several = |count, lines: &[usize]| Err(MatchError::Ambiguous { count, lines: lines.to_vec() });
        assert_eq!(text("a\nb\na\n\naa", "a", "x"), several(4, &[1, 3, 5, 5]));
        assert_eq!(text("aaa", "aa", "x"), several(2, &[1]), "they overlap");
        assert_eq!(text("ééé", "éé", "x"), several(2, &[1]));
    }

    #[test]
    fn line_endings_follow_the_file() {
        assert_eq!(text("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n"), Ok("x\r\ny\r\nz\r\nc\r\n".into()));
        assert_eq!(text("a\r\nb\r\n", "b", "x\ny"), Ok("a\r\nx\r\ny\r\n".into()));
        assert_eq!(text("a\r\nb\r\n", "a\r\nb", "x\r\ny"), Ok("x\r\ny\r\n".into()));
        assert_eq!(text("a\nb\n", "a\r\nb\r\n", "x\n"), Ok("x\n".into()));
        assert_eq!(text("a\r\nb\nc\nd\n", "b\nc", "x\ny"), Ok("a\r\nx\ny\nd\n".into()), "a file may mix both");
    }
}
