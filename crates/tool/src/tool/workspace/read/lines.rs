//! Reading a range of lines in bounded memory.

use std::io::{self, BufRead, Read as _};

/// The lines that were read.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadLines {
    /// The lines with their line endings.
    pub bytes: Vec<u8>,
    /// The reason why reading ended.
    pub stop: Stop,
    /// The number of the last line read or skipped; with [`Stop::Full`] of the first missing or incomplete line.
    pub line: usize,
}

/// The reason why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The file ended, maybe before the first requested line.
    EndOfFile,
    /// The last requested line was read.
    LastLine,
    /// The maximum number of bytes was read.
    Full,
}

/// Reads the lines from `start` to `end`, counted from 1, up to `max_bytes` bytes, cut at a line ending if possible.
///
/// # Errors
/// Returns an error if reading fails.
pub fn read_lines(
    mut reader: impl BufRead,
    start: usize,
    end: Option<usize>,
    max_bytes: usize,
) -> io::Result<ReadLines> {
    let mut bytes = Vec::new();
    let mut line = start.max(1);
    for line in 1..line {
        if reader.skip_until(b'\n')? == 0 {
            return Ok(ReadLines { bytes, stop: Stop::EndOfFile, line: line - 1 });
        }
    }
    loop {
        let before = bytes.len();
        // One more byte shows whether the line fits.
        let limit = (max_bytes - before) as u64 + 1;
        if reader.by_ref().take(limit).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(ReadLines { bytes, stop: Stop::EndOfFile, line: line - 1 });
        }
        if bytes.len() > max_bytes {
            // Cuts before the line, or within it if it is the first line.
            bytes.truncate(if before > 0 { before } else { max_bytes });
            return Ok(ReadLines { bytes, stop: Stop::Full, line });
        }
        if end.is_some_and(|end| line >= end) && bytes.ends_with(b"\n") {
            return Ok(ReadLines { bytes, stop: Stop::LastLine, line });
        }
        line += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read_text(text: &str, start: usize, end: Option<usize>, max_bytes: usize) -> (String, Stop, usize) {
        let mut all = Vec::new();
        for capacity in [1, 2, 3, 100] {
            let reader = BufReader::with_capacity(capacity, text.as_bytes());
            let ReadLines { bytes, stop, line } = read_lines(reader, start, end, max_bytes).unwrap();
            all.push((String::from_utf8(bytes).unwrap(), stop, line));
        }
        all.dedup();
        assert_eq!(all.len(), 1, "with any chunk size: {all:?}");
        all.remove(0)
    }

    #[test]
    fn lines_keep_their_endings() {
        let text = "a\nbb\r\nccc";
        assert_eq!(read_text(text, 1, None, 99), (text.into(), Stop::EndOfFile, 3));
        assert_eq!(read_text(text, 2, Some(2), 99), ("bb\r\n".into(), Stop::LastLine, 2));
        assert_eq!(read_text(text, 2, Some(9), 99), ("bb\r\nccc".into(), Stop::EndOfFile, 3));
        assert_eq!(read_text(text, 4, None, 99), (String::new(), Stop::EndOfFile, 3));
        assert_eq!(read_text("a\n", 2, None, 99), (String::new(), Stop::EndOfFile, 1));
        assert_eq!(read_text("", 1, None, 99), (String::new(), Stop::EndOfFile, 0));
        assert_eq!(read_text("\n\n", 2, None, 99), ("\n".into(), Stop::EndOfFile, 2));
    }

    #[test]
    fn excess_is_cut_at_a_line_ending_if_possible() {
        assert_eq!(read_text("aa\nbb\ncc\n", 1, None, 7), ("aa\nbb\n".into(), Stop::Full, 3));
        assert_eq!(read_text("aa\nbb\ncc\n", 2, None, 3), ("bb\n".into(), Stop::Full, 3));
        assert_eq!(read_text("aaaaaa\n", 1, None, 4), ("aaaa".into(), Stop::Full, 1));
        assert_eq!(read_text("aa\nbb\n", 1, None, 6), ("aa\nbb\n".into(), Stop::EndOfFile, 2));
    }
}
