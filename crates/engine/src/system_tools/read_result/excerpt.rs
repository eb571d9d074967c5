//! Excerpts of a result, with a notice on how to continue.

use regex::Regex;
use uuid::Uuid;

use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::truncation::{grouped, lines};
use toolpost_tool::tool::ToolError;

/// Maximum length of the notice in the last line, in bytes.
const MAX_NOTICE_BYTES: usize = 200;
/// Maximum length of the shown part of a matching line, in bytes.
const MAX_MATCH_BYTES: usize = 2000;

/// The requested part of a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExcerptRequest {
    /// The call that has the result.
    pub id: Uuid,
    /// The first line, counted from 1.
    pub offset: usize,
    /// The first character of the first line, counted from 1.
    pub column: usize,
    /// Maximum number of lines.
    pub limit: usize,
    /// Maximum size of the output.
    pub bounds: Bounds,
}

impl ExcerptRequest {
    /// Returns the requested lines unchanged, and how to continue if there are more.
    pub fn lines(&self, whole: &str) -> Result<String, ToolError> {
        let total = lines(whole);
        let rest = self.rest(whole, total)?;
        let (max_bytes, max_lines) = self.remaining();
        let by_lines = match self.limit.min(max_lines) {
            0 => 0,
            max => rest.match_indices('\n').nth(max - 1).map_or(rest.len(), |(at, _)| at + 1),
        };
        let shown = if by_lines <= max_bytes {
            &rest[..by_lines]
        } else {
            let by_bytes = rest.floor_char_boundary(max_bytes);
            let border = rest[..by_bytes].rfind('\n').map_or(0, |at| at + 1);
            // Return at least one character, so that reading makes progress.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            &rest[..if border > 0 { border } else { by_bytes.max(first) }]
        };
        if shown.len() == rest.len() {
            return Ok(shown.to_owned());
        }
        let line = self.offset + shown.bytes().filter(|byte| *byte == b'\n').count();
        let begun = shown.rfind('\n').map_or(shown, |at| &shown[at + 1..]).chars().count();
        let before = if line == self.offset { self.column } else { 1 };
        let column = if begun == 0 { String::new() } else { format!(",\"column\":{}", before + begun) };
        let newline = if shown.ends_with('\n') { "" } else { "\n" };
        let id = self.id;
        Ok(format!(
            "{shown}{newline}[the result has {} lines; continue with {{\"call_id\":\"{id}\",\"offset\":{line}{column}}}]",
            grouped(total)
        ))
    }

    /// Returns the matching lines with their numbers.
    pub fn matching(&self, whole: &str, pattern: &Regex, is_cancelled: impl Fn() -> bool) -> Result<String, ToolError> {
        let total = lines(whole);
        let rest = self.rest(whole, total)?;
        let (max_bytes, max_lines) = self.remaining();
        let (mut shown, mut count, mut next) = (String::new(), 0, None);
        for (index, line) in rest.lines().enumerate() {
            if is_cancelled() {
                return Err(ToolError::new("the call was cancelled"));
            }
            let Some(found) = pattern.find(line) else { continue };
            let number = self.offset + index;
            let entry = format!("{number}: {}\n", excerpt(line, found.start()));
            let is_first = count == 0;
            if count >= self.limit.min(max_lines) || (!is_first && shown.len() + entry.len() > max_bytes) {
                next = Some(number);
                break;
            }
            shown.push_str(&entry);
            count += 1;
        }
        let word = if count == 1 { "line" } else { "lines" };
        let more = next.map_or_else(String::new, |line| format!("; for more, continue with \"offset\":{line}"));
        let total = grouped(total);
        Ok(format!("{shown}[{} matching {word}{more}; the result has {total} lines]", grouped(count)))
    }

    /// Returns the text from the first requested character on.
    fn rest<'a>(&self, whole: &'a str, total: usize) -> Result<&'a str, ToolError> {
        if whole.is_empty() {
            return Err(ToolError::new("the result has no text"));
        }
        if self.offset > total {
            let word = if total == 1 { "line" } else { "lines" };
            return Err(format!("offset {} is past the end of the result ({total} {word})", self.offset).into());
        }
        let start = match self.offset.checked_sub(2) {
            None => 0,
            Some(before) => whole.match_indices('\n').nth(before).map_or(whole.len(), |(at, _)| at + 1),
        };
        let line = whole[start..].split('\n').next().unwrap_or_default();
        // The newline, if any, is the column after the last character.
        let newline = whole[start + line.len()..].starts_with('\n').then_some(line.len());
        let mut boundaries = line.char_indices().map(|(at, _)| at).chain(newline);
        let at = boundaries.nth(self.column - 1).ok_or_else(|| {
            let length = grouped(line.chars().count());
            format!("column {} is past the end ({length} characters) of line {}", self.column, self.offset)
        })?;
        Ok(&whole[start + at..])
    }

    /// Returns the number of bytes and lines that remain besides the notice.
    fn remaining(&self) -> (usize, usize) {
        let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (bytes, lines) = (of(self.bounds.bytes), of(self.bounds.lines));
        (bytes.saturating_sub(MAX_NOTICE_BYTES).max(bytes / 2).max(1), lines.saturating_sub(1).max(1))
    }
}

/// Shortens a long line to the part around the match.
fn excerpt(line: &str, found: usize) -> String {
    if line.len() <= MAX_MATCH_BYTES {
        return line.to_owned();
    }
    let start = line.floor_char_boundary(found.saturating_sub(MAX_MATCH_BYTES / 4));
    let end = line.floor_char_boundary((start + MAX_MATCH_BYTES).min(line.len()));
    let column = line[..start].chars().count() + 1;
    format!("[from column {column}] {} […]", &line[start..end])
}

#[cfg(test)]
mod tests;
