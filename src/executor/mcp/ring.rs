//! The last lines of a server's standard error, without its secrets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::executor::Redaction;

/// Most lines that are kept.
const LINES: usize = 200;
/// What they may take together, in bytes.
const BYTES: usize = 64 * 1024;
/// Longest line that is kept whole, in bytes.
const LINE: usize = 4096;
/// How much is read at once.
const PIECE: usize = 8192;

/// The lines. Cheap to clone; all clones have the same.
#[derive(Debug, Clone, Default)]
pub struct Ring(Arc<Mutex<LineBuffer>>);

#[derive(Debug, Default)]
struct LineBuffer {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Ring {
    /// What is there, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().cloned().collect()
    }

    /// One more line.
    pub fn push(&self, line: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.lines.len() > LINES || kept.bytes > BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
    }

    /// Reads to the end and returns the last line that is not blank. A line is redacted before it is cut to what is shown: a
    /// part of a secret would not be known for one.
    pub async fn fill(&self, mut from: impl AsyncRead + Unpin, redaction: Option<&Redaction>) -> Option<String> {
        let (mut line, mut piece, mut last) = (Vec::new(), vec![0; PIECE], None);
        let mut take = |line: Vec<u8>| {
            let line = shown(&line, redaction);
            if !line.trim().is_empty() {
                last = Some(line.clone());
            }
            self.push(line);
        };
        while let Ok(read) = from.read(&mut piece).await {
            if read == 0 {
                break;
            }
            for byte in &piece[..read] {
                match byte {
                    b'\n' => take(std::mem::take(&mut line)),
                    // The rest of a line that is far too long is not kept at all.
                    byte if line.len() < 4 * LINE => line.push(*byte),
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
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r');
    let clean = redaction.map_or_else(|| text.into(), |redaction| redaction.text(text));
    if clean.len() <= LINE {
        return clean.into_owned();
    }
    let end = (0..=LINE).rev().find(|at| clean.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &clean[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_without_secrets() {
        let ring = Ring::default();
        let redaction = Redaction::of(&[json!("s3cret-value")]).unwrap();
        let text = format!("one s3cret-value\r\n{}\nlast", "é".repeat(3 * LINE));
        assert_eq!(ring.fill(text.as_bytes(), redaction.as_ref()).await.as_deref(), Some("last"));
        assert_eq!(ring.fill(&b"s3cret-value\n \n"[..], redaction.as_ref()).await.as_deref(), Some("[redacted]"));
        let lines = ring.lines();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("one [redacted]", "last"));
        assert!(lines[1].ends_with("é…") && lines[1].len() <= LINE + 3);
        for number in 0..1000 {
            ring.push(number.to_string());
        }
        assert_eq!((ring.lines().len(), ring.lines()[0].as_str()), (LINES, "800"));
    }

    #[test]
    fn long_lines_leave_room_for_fewer() {
        let ring = Ring::default();
        (0..100).for_each(|_| ring.push("x".repeat(LINE)));
        assert_eq!(ring.lines().len(), BYTES / LINE);
    }
}
