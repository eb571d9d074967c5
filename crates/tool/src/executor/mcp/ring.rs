//! The last lines of a server's standard error, redacted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::executor::Redaction;

/// Maximum number of lines.
const MAX_LINES: usize = 200;
/// Maximum total size, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum size of a line, in bytes; longer lines are cut.
const MAX_LINE: usize = 4096;
/// Read buffer size, in bytes.
const CHUNK: usize = 8192;

/// A bounded buffer of lines. Cheap to clone; all clones share the buffer.
#[derive(Debug, Clone, Default)]
pub struct Ring(Arc<Mutex<LineBuffer>>);

#[derive(Debug, Default)]
struct LineBuffer {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Ring {
    /// Returns the lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().cloned().collect()
    }

    /// Adds a line and removes the oldest ones if the buffer is full.
    pub fn push(&self, line: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.lines.len() > MAX_LINES || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
    }

    /// Reads all lines and returns the last non-blank line. Lines are redacted before they are cut, because a
    /// cut secret would not be found.
    pub async fn fill(&self, mut from: impl AsyncRead + Unpin, redaction: Option<&Redaction>) -> Option<String> {
        let (mut line, mut chunk, mut last) = (Vec::new(), vec![0; CHUNK], None);
        let mut take = |line: Vec<u8>| {
            let line = shown(&line, redaction);
            if !line.trim().is_empty() {
                last = Some(line.clone());
            }
            self.push(line);
        };
        while let Ok(read) = from.read(&mut chunk).await {
            if read == 0 {
                break;
            }
            for byte in &chunk[..read] {
                match byte {
                    b'\n' => take(std::mem::take(&mut line)),
                    // The rest of an extremely long line is dropped before redaction.
                    byte if line.len() < 4 * MAX_LINE => line.push(*byte),
                    _ => {}
                }
            }
        }
        if !line.is_empty() {
            take(line);
        }
        last
    }
}

fn shown(line: &[u8], redaction: Option<&Redaction>) -> String {
    let text = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
    let mut clean = Redaction::apply(redaction, text);
    if clean.len() > MAX_LINE {
        clean.truncate(clean.floor_char_boundary(MAX_LINE));
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn last_lines_are_kept_without_secrets() {
        let ring = Ring::default();
        let redaction = Redaction::of(&[json!("s3cret-value")]).unwrap();
        let text = format!("one s3cret-value\r\n{}\nlast", "é".repeat(3 * MAX_LINE));
        assert_eq!(ring.fill(text.as_bytes(), redaction.as_ref()).await.as_deref(), Some("last"));
        assert_eq!(ring.fill(&b"s3cret-value\n \n"[..], redaction.as_ref()).await.as_deref(), Some("[redacted]"));
        let lines = ring.lines();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("one [redacted]", "last"));
        assert!(lines[1].ends_with("é…") && lines[1].len() <= MAX_LINE + 3);
        for number in 0..1000 {
            ring.push(number.to_string());
        }
        assert_eq!((ring.lines().len(), ring.lines()[0].as_str()), (MAX_LINES, "800"));
    }

    #[test]
    fn total_size_is_bounded() {
        let ring = Ring::default();
        (0..100).for_each(|_| ring.push("x".repeat(MAX_LINE)));
        assert_eq!(ring.lines().len(), MAX_BYTES / MAX_LINE);
    }
}
