//! The output of a command: shown in chunks while it runs, within limits, and kept for the result.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::tool::Run;
use toolpost_core::domain::truncation::grouped;

/// Maximum size of the kept output, in bytes; of longer output the end is kept.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// Maximum delay until output is shown. It combines output into fewer chunks.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// Maximum size of a chunk, in bytes.
const MAX_CHUNK_BYTES: usize = 6 * 1024;
/// Maximum output shown while the command runs, in bytes and in chunks. Each chunk is a stored event.
const MAX_SHOWN_BYTES: usize = 128 * 1024;
const MAX_CHUNKS: usize = 500;

/// The output of one command.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    kept: VecDeque<u8>,
    discarded: usize,
    waiting: Vec<u8>,
    since: Option<Instant>,
    shown: usize,
    chunks: usize,
    is_shown: bool,
}

impl OutputBuffer {
    /// Creates an empty buffer. If the call has secrets, output is shown only at the end, because redaction would miss
    /// a secret that is split across chunks.
    pub fn new(run: &Run) -> Self {
        Self { is_shown: run.0.redaction.is_none(), ..Self::default() }
    }

    /// Appends output.
    pub fn push(&mut self, chunk: &[u8]) {
        self.kept.extend(chunk);
        let over = self.kept.len().saturating_sub(MAX_KEPT_BYTES);
        self.kept.drain(..over);
        self.discarded += over;
        self.since.get_or_insert_with(Instant::now);
        if self.is_shown {
            let free_bytes = MAX_SHOWN_BYTES.saturating_sub(self.shown + self.waiting.len());
            self.waiting.extend_from_slice(&chunk[..chunk.len().min(free_bytes)]);
        }
    }

    /// Waits until output is due to be shown.
    pub async fn due(&self) {
        match self.since {
            Some(_) if self.waiting.len() >= MAX_CHUNK_BYTES => {}
            Some(since) => sleep_until(since + MAX_DELAY).await,
            None => std::future::pending().await,
        }
    }

    /// Shows the pending output, and resets the idle timeout.
    pub async fn show(&mut self, run: &Run) {
        self.since = None;
        run.keep_alive();
        while self.is_shown && !self.waiting.is_empty() {
            let end = whole_characters(&self.waiting[..self.waiting.len().min(MAX_CHUNK_BYTES)]);
            if end == 0 {
                return;
            }
            let chunk: Vec<u8> = self.waiting.drain(..end).collect();
            self.shown += chunk.len();
            self.chunks += 1;
            run.emit(String::from_utf8_lossy(&chunk).into_owned()).await;
            if self.shown >= MAX_SHOWN_BYTES || self.chunks >= MAX_CHUNKS {
                self.is_shown = false;
                run.emit("[further output is shown when the command ends]").await;
            }
        }
    }

    /// Returns the kept output as text.
    pub fn text(mut self) -> String {
        if self.discarded == 0 {
            return String::from_utf8_lossy(self.kept.make_contiguous()).into_owned();
        }
        // Start at the next line.
        let bytes = self.kept.make_contiguous();
        let start = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let discarded = grouped(self.discarded + start);
        format!("[the first {discarded} bytes were discarded]\n{}", String::from_utf8_lossy(&bytes[start..]))
    }
}

/// Returns the length of the longest prefix that does not split a character.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_incomplete = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    bytes.len() - if is_incomplete { last.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::emitter::{Report, ReportReceiver};
    use crate::tool::typed::tests::invocation;
    use toolpost_core::domain::ContentBlock;

    fn run() -> (Run, ReportReceiver) {
        let (invocation, reports) = invocation(serde_json::json!({}));
        (Run::new(invocation), reports)
    }

    fn shown(reports: &mut ReportReceiver) -> Vec<String> {
        let reports = std::iter::from_fn(|| reports.take());
        let text = |report| match report {
            Report::Emission(emission) => match emission.content.as_slice() {
                [ContentBlock::Text(text)] => Some(text.clone()),
                _ => None,
            },
            Report::Status(_) => None,
        };
        reports.filter_map(text).collect()
    }

    #[tokio::test]
    async fn chunks_do_not_split_characters() {
        let (run, mut reports) = run();
        let mut output = OutputBuffer::new(&run);
        output.push(b"caf\xc3");
        output.show(&run).await;
        output.push(b"\xa9 \xff\n");
        output.show(&run).await;
        assert_eq!(shown(&mut reports), ["caf", "é \u{fffd}\n"]);
        assert_eq!(output.text(), "café \u{fffd}\n");
    }

    #[tokio::test(start_paused = true)]
    async fn output_is_due_after_a_delay_or_at_chunk_size() {
        let (run, _reports) = run();
        let mut output = OutputBuffer::new(&run);
        assert!(tokio::time::timeout(MAX_DELAY * 100, output.due()).await.is_err(), "nothing is pending");
        output.push(b"x");
        let begun = Instant::now();
        output.due().await;
        assert_eq!(begun.elapsed(), MAX_DELAY);
        output.push(&[b'x'; MAX_CHUNK_BYTES]);
        output.show(&run).await;
        output.push(&[b'x'; MAX_CHUNK_BYTES]);
        let begun = Instant::now();
        output.due().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn shown_output_is_limited_and_the_end_is_kept() {
        let (run, mut reports) = run();
        let mut output = OutputBuffer::new(&run);
        let mut emitted = Vec::new();
        let chunk = format!("{}\n", "x".repeat(64 * 1024 - 1));
        let count = MAX_KEPT_BYTES / chunk.len() + 10;
        for _ in 0..count {
            output.push(chunk.as_bytes());
            let mut show = std::pin::pin!(output.show(&run));
            // It waits while too much output is not yet recorded.
            while futures_util::poll!(&mut show).is_pending() {
                emitted.extend(shown(&mut reports));
            }
        }
        emitted.extend(shown(&mut reports));
        assert_eq!(emitted.pop().as_deref(), Some("[further output is shown when the command ends]"));
        assert_eq!(emitted.concat().len(), MAX_SHOWN_BYTES);
        let text = output.text();
        assert!(text.starts_with("[the first 720,896 bytes were discarded]\nxxx"), "{}", &text[..60]);
        assert!(text.len() <= MAX_KEPT_BYTES + 50 && text.ends_with("x\n"));
    }

    #[test]
    fn incomplete_character_at_the_end_waits() {
        for (bytes, end) in [
            (&b"ab"[..], 2),
            ("é".as_bytes(), 2),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 1),
            ("a€".as_bytes(), 4),
            (b"a\xf0\x9f\x98", 1),
            ("😀".as_bytes(), 4),
            (b"\x80\x80\x80\x80", 4),
            (b"\xff", 1),
        ] {
            assert_eq!(whole_characters(bytes), end, "{bytes:?}");
        }
    }
}
