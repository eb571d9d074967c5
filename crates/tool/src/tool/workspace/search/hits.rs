//! The matches of a search, formatted.

use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::super::path::WorkspacePath;
use super::super::walk::WalkEnd;
use toolpost_core::domain::truncation::grouped;

/// Maximum length of the shown part of a line, in bytes.
const MAX_LINE_BYTES: usize = 500;
/// Maximum total length of the shown lines, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// All matches so far.
#[derive(Debug, Default)]
pub struct Hits {
    /// The shown lines.
    pub text: String,
    /// Maximum number of matching lines.
    pub limit: usize,
    /// Number of matching lines.
    pub lines: usize,
    /// Number of files with matches.
    pub files: usize,
    /// Number of searched files.
    pub searched: usize,
    /// Number of skipped files: binary, or with lines that are too long.
    pub skipped: usize,
}

impl Hits {
    /// Starts the next file.
    pub fn start_file<'h>(&'h mut self, file: &WorkspacePath, matcher: &'h RegexMatcher) -> FileHits<'h> {
        let (path, before, lines_before) = (file.to_string(), self.text.len(), self.lines);
        FileHits { path, before, lines_before, is_binary: false, is_full: false, matcher, hits: self }
    }

    /// Returns the matches and the summary line.
    pub fn into_text(self, end: WalkEnd) -> String {
        let counted =
            |count: usize, one: &str, many: &str| format!("{} {}", grouped(count), if count == 1 { one } else { many });
        let passed = match self.skipped {
            0 => String::new(),
            count => format!("; {} not text", counted(count, "file is", "files are")),
        };
        let more = match end {
            WalkEnd::Complete => "",
            WalkEnd::Stopped if self.lines > 0 => "; more lines match: narrow the pattern, the path or the glob",
            WalkEnd::Stopped | WalkEnd::TooMany => "; not all files were searched: search a subfolder",
        };
        let summary = if self.lines == 0 {
            format!("[no matching line in {}{passed}{more}]", counted(self.searched, "file", "files"))
        } else {
            let lines = counted(self.lines, "matching line", "matching lines");
            format!("[{lines} in {}{more}{passed}]", counted(self.files, "file", "files"))
        };
        self.text + &summary
    }
}

/// The matches of one file.
pub struct FileHits<'h> {
    path: String,
    before: usize,
    lines_before: usize,
    is_binary: bool,
    is_full: bool,
    matcher: &'h RegexMatcher,
    hits: &'h mut Hits,
}

impl FileHits<'_> {
    /// Ends the file and returns `true` if the search is full.
    pub fn end(self, is_broken: bool) -> bool {
        let Self { hits, before, lines_before, is_binary, is_full, .. } = self;
        if is_binary || is_broken {
            // Discard matches before the first NUL of a binary file.
            hits.text.truncate(before);
            hits.lines = lines_before;
            hits.skipped += 1;
            return false;
        }
        hits.searched += 1;
        hits.files += usize::from(hits.lines > lines_before);
        is_full
    }

    fn show(&mut self, mark: char, line: Option<u64>, text: &[u8], found: usize) {
        let (path, line, text) = (&self.path, line.unwrap_or_default(), excerpt(text, found));
        self.hits.text.push_str(&format!("{path}{mark}{line}{mark} {text}\n"));
    }
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        // A match after the last shown one proves that more lines match.
        if self.hits.lines == self.hits.limit || self.hits.text.len() > MAX_TEXT_BYTES {
            self.is_full = true;
            return Ok(false);
        }
        self.hits.lines += 1;
        let at = self.matcher.find(found.bytes()).ok().flatten().map_or(0, |found| found.start());
        self.show(':', found.line_number(), found.bytes(), at);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.show('-', context.line_number(), context.bytes(), 0);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.hits.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Returns a line without its line ending; a long line is shortened around the match.
fn excerpt(line: &[u8], found: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    // A cut within a character yields a replacement character, like any invalid byte.
    let start = found.saturating_sub(MAX_LINE_BYTES / 4).min(line.len() - MAX_LINE_BYTES);
    let (before, after) =
        (if start > 0 { "[…] " } else { "" }, if start + MAX_LINE_BYTES < line.len() { " […]" } else { "" });
    let part = &line[start..start + MAX_LINE_BYTES];
    let part = &part[part.iter().take(3).take_while(|byte| start > 0 && **byte & 0xc0 == 0x80).count()..];
    let text = String::from_utf8_lossy(part);
    let text = if after.is_empty() { &text } else { text.trim_end_matches('\u{fffd}') };
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_shown_around_the_match() {
        let line = format!("{}needle{}\r\n", "é".repeat(1000), "é".repeat(1000));
        let shown = excerpt(line.as_bytes(), 2000);
        assert!(shown.starts_with("[…] é") && shown.ends_with("é […]") && shown.contains("éneedleé"), "{shown}");
        assert!(shown.len() < MAX_LINE_BYTES + 20 && !shown.contains('\u{fffd}'));
        assert!(excerpt(line.as_bytes(), 0).starts_with("éé"));
        assert_eq!(excerpt(b"short\r\n", 0), "short");
    }
}
