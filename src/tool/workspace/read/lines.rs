//! Reading a range of lines in bounded memory.

use std::io::{self, BufRead};

/// The lines that were read.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadLines {
    /// The lines with their line endings.
    pub bytes: Vec<u8>,
    /// The reason why reading ended.
    pub end: Stop,
    /// The number of the last line read; with [`Stop::Full`] of the first missing or incomplete line.
    pub line: u64,
}

/// The reason why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The file ended.
    EndOfFile,
    /// The last requested line was read.
    LastLine,
    /// The maximum number of bytes was read.
    Full,
    /// The file ends before the first requested line.
    BeforeStart,
}

/// Reads the lines from `start` to `end`, counted from 1, up to `most` bytes, cut at a line ending if possible.
///
/// # Errors
/// Returns an error if reading fails or the call is cancelled.
pub fn read_lines(
    mut reader: impl BufRead,
    start: u64,
    end: Option<u64>,
    most: usize,
    is_cancelled: impl Fn() -> bool,
) -> io::Result<ReadLines> {
    let mut bytes = Vec::new();
    // The current line, and whether a part of it was read.
    let (mut line, mut is_begun) = (1_u64, false);
    loop {
        if is_cancelled() {
            return Err(io::Error::other("the call was cancelled"));
        }
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            let last = if is_begun { line } else { line - 1 };
            let end = if last < start { Stop::BeforeStart } else { Stop::EndOfFile };
            return Ok(ReadLines { bytes, end, line: last });
        }
        let taken = piece.len();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let is_wanted = line >= start;
            if is_wanted && bytes.len() + part.len() > most {
                return Ok(full(bytes, part, line, is_begun, most));
            }
            if is_wanted {
                bytes.extend_from_slice(part);
            }
            is_begun = !part.ends_with(b"\n");
            if is_begun {
                continue;
            }
            if end.is_some_and(|end| line >= end) {
                return Ok(ReadLines { bytes, end: Stop::LastLine, line });
            }
            line += 1;
        }
        reader.consume(taken);
    }
}

/// Cuts before the line that does not fit, or within it if it is the first line.
fn full(mut bytes: Vec<u8>, part: &[u8], line: u64, is_begun: bool, most: usize) -> ReadLines {
    let whole =
        if is_begun { bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) } else { bytes.len() };
    if whole > 0 {
        bytes.truncate(whole);
    } else {
        bytes.extend_from_slice(&part[..part.len().min(most - bytes.len())]);
    }
    ReadLines { bytes, end: Stop::Full, line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn of(text: &str, start: u64, end: Option<u64>, most: usize) -> (String, Stop, u64) {
        let mut all = Vec::new();
        for capacity in [1, 2, 3, 100] {
            let reader = BufReader::with_capacity(capacity, text.as_bytes());
            let ReadLines { bytes, end, line } = read_lines(reader, start, end, most, || false).unwrap();
            all.push((String::from_utf8(bytes).unwrap(), end, line));
        }
        all.dedup();
        assert_eq!(all.len(), 1, "with any chunk size: {all:?}");
        all.remove(0)
    }

    #[test]
    fn lines_keep_their_endings() {
        let text = "a\nbb\r\nccc";
        assert_eq!(of(text, 1, None, 99), (text.into(), Stop::EndOfFile, 3));
        assert_eq!(of(text, 2, Some(2), 99), ("bb\r\n".into(), Stop::LastLine, 2));
        assert_eq!(of(text, 2, Some(9), 99), ("bb\r\nccc".into(), Stop::EndOfFile, 3));
        assert_eq!(of(text, 4, None, 99), (String::new(), Stop::BeforeStart, 3));
        assert_eq!(of("a\n", 2, None, 99), (String::new(), Stop::BeforeStart, 1));
        assert_eq!(of("", 1, None, 99), (String::new(), Stop::BeforeStart, 0));
        assert_eq!(of("\n\n", 2, None, 99), ("\n".into(), Stop::EndOfFile, 2));
    }

    #[test]
    fn excess_is_cut_at_a_line_ending_if_possible() {
        assert_eq!(of("aa\nbb\ncc\n", 1, None, 7), ("aa\nbb\n".into(), Stop::Full, 3));
        assert_eq!(of("aa\nbb\ncc\n", 2, None, 3), ("bb\n".into(), Stop::Full, 3));
        assert_eq!(of("aaaaaa\n", 1, None, 4), ("aaaa".into(), Stop::Full, 1));
        assert_eq!(of("aa\nbb\n", 1, None, 6), ("aa\nbb\n".into(), Stop::EndOfFile, 2));
    }

    #[test]
    fn cancelled_reading_stops() {
        assert!(read_lines(&b"x"[..], 1, None, 9, || true).is_err());
    }
}
