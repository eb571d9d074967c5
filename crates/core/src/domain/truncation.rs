//! Truncation of results that are too long for a model. The full text is kept in the outcome.

use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::limits::{Bounds, Truncate};
use super::outcome::{FullOutput, FullText, joined_text};
use super::{ContentBlock, Outcome};

/// Returns the part of a text to omit so that the rest is within the bounds, or `None` if the whole text is.
///
/// The part begins and ends at line breaks unless that would keep less than half of the permitted bytes, and never
/// inside a character.
#[must_use]
pub fn left_out(text: &str, bounds: &Bounds) -> Option<Range<usize>> {
    let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (bytes, max_lines) = (of(bounds.bytes), of(bounds.lines));
    if text.len() <= bytes && (text.len() <= max_lines || lines(text) <= max_lines) {
        return None;
    }
    Some(match bounds.keep {
        Truncate::Head => head_end(text, bytes, max_lines)..text.len(),
        Truncate::Tail => 0..tail_start(text, bytes, max_lines),
        Truncate::HeadTail => {
            let (second, last) = (bytes / 2, max_lines / 2);
            head_end(text, bytes - second, max_lines - last)..tail_start(text, second, last)
        }
    })
}

/// Returns the end of the kept beginning.
fn head_end(text: &str, bytes: usize, max_lines: usize) -> usize {
    let by_lines = match max_lines.checked_sub(1) {
        None => 0,
        Some(before) => text.match_indices('\n').nth(before).map_or(text.len(), |(at, _)| at + 1),
    };
    if by_lines <= bytes {
        return by_lines;
    }
    let by_bytes = text.floor_char_boundary(bytes);
    let border = text[..by_bytes].rfind('\n').map_or(0, |at| at + 1);
    if border >= bytes.div_ceil(2) { border } else { by_bytes }
}

/// Returns the start of the kept end.
fn tail_start(text: &str, bytes: usize, max_lines: usize) -> usize {
    let lines_of = text.strip_suffix('\n').unwrap_or(text);
    let by_lines = match max_lines.checked_sub(1) {
        None => text.len(),
        Some(before) => lines_of.rmatch_indices('\n').nth(before).map_or(0, |(at, _)| at + 1),
    };
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    if by_lines >= by_bytes {
        return by_lines;
    }
    if by_bytes == 0 || text[..by_bytes].ends_with('\n') {
        return by_bytes;
    }
    let border = text[by_bytes..].find('\n').map_or(text.len(), |at| by_bytes + at + 1);
    if text.len() - border >= bytes.div_ceil(2) { border } else { by_bytes }
}

impl Outcome {
    /// Returns the outcome of the call `id` as shown to a model. A truncated outcome contains its full output.
    #[must_use]
    pub fn truncated(mut self, bounds: &Bounds, id: Uuid) -> Self {
        self.truncate(bounds, id);
        self
    }

    /// Truncates the outcome of the call `id` in place.
    pub fn truncate(&mut self, bounds: &Bounds, id: Uuid) {
        let Some(gap) = left_out(&self.output, bounds) else { return };
        let notice = notice_of(&self.output, &gap, id);
        let left = &self.output[gap.clone()];
        let note = json!({
            "bytes": self.output.len(), "lines": lines(&self.output),
            "left_out_bytes": left.len(), "left_out_lines": lines(left),
        });
        self.metadata.insert("truncated".to_owned(), note);
        let is_data = self.structured_text.is_some();
        let texts = cut_blocks(&mut self.content, &gap, &notice);
        self.output = joined_text(&self.content);
        self.full_output = Some(Arc::new(if is_data { FullOutput::Structured } else { FullOutput::Texts(texts) }));
        if let Some(error) = &mut self.error {
            error.text.clone_from(&self.output);
        }
    }

    /// Returns the outcome before truncation.
    #[must_use]
    pub fn untruncated(mut self) -> Self {
        let Some(whole) = self.full_output.take() else { return self };
        let texts = match &*whole {
            FullOutput::Texts(texts) => texts.clone(),
            FullOutput::Structured => vec![FullText { block: Some(0), text: self.data_text().into_owned() }],
        };
        let mut shown: Vec<Vec<ContentBlock>> = self.content.into_iter().map(|block| vec![block]).collect();
        let mut last = 0;
        for FullText { block, text } in texts {
            let text = ContentBlock::Text(text);
            match block.and_then(|block| shown.get_mut(block)) {
                Some(entry) => *entry = vec![text],
                // A block that was dropped goes between its neighbors; its exact position among them does not change
                // the text.
                None => match shown.get_mut(last) {
                    Some(entry) => entry.push(text),
                    None => shown.push(vec![text]),
                },
            }
            last = block.unwrap_or(last);
        }
        self.content = shown.into_iter().flatten().collect();
        self.output = joined_text(&self.content);
        if let Some(error) = &mut self.error {
            error.text.clone_from(&self.output);
        }
        self
    }
}

/// Removes the gap, a range of the joined texts, from the blocks and returns their full texts. Blocks that become empty
/// are dropped.
fn cut_blocks(content: &mut Vec<ContentBlock>, gap: &Range<usize>, notice: &str) -> Vec<FullText> {
    let (mut texts, mut shown) = (Vec::new(), Vec::with_capacity(content.len()));
    let (mut start, mut is_noted) = (0, false);
    for block in std::mem::take(content) {
        let ContentBlock::Text(text) = block else {
            shown.push(block);
            continue;
        };
        let end = start + text.len();
        // The newline that joins a block to the next one counts as part of the block.
        let is_touched = gap.start <= end && gap.end > start;
        let kept = if is_touched {
            let before = &text[..gap.start.saturating_sub(start).min(text.len())];
            let after = &text[gap.end.saturating_sub(start).min(text.len())..];
            let noted = (!std::mem::replace(&mut is_noted, true)).then_some(notice);
            join_around(before, noted, after)
        } else {
            text.clone()
        };
        let is_left_out = is_touched && kept.is_empty();
        texts.push(FullText { block: (!is_left_out).then_some(shown.len()), text });
        if !is_left_out {
            shown.push(ContentBlock::Text(kept));
        }
        start = end + 1;
    }
    *content = shown;
    texts
}

/// Returns the number of lines. A newline ends a line.
#[must_use]
pub fn lines(text: &str) -> usize {
    let newlines = text.bytes().filter(|byte| *byte == b'\n').count();
    newlines + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Returns the notice for a gap in the text of the call `id`.
fn notice_of(text: &str, gap: &Range<usize>, id: Uuid) -> String {
    let left = &text[gap.clone()];
    let (count, before) = (lines(left), &text[..gap.start]);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let offset = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = match before[line_start..].chars().count() {
        0 => String::new(),
        chars => format!(",\"column\":{}", chars + 1),
    };
    let word = if count == 1 { "line" } else { "lines" };
    format!(
        "[… {} {word} ({}) left out; read_result {{\"call_id\":\"{id}\",\"offset\":{offset}{column}}} or GET \
         /tool-calls/{id}/output]",
        grouped(count),
        size(left.len())
    )
}

/// Joins the kept texts with the notice on its own line.
fn join_around(before: &str, notice: Option<&str>, after: &str) -> String {
    let Some(notice) = notice else { return [before, after].concat() };
    let newline = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let next = if after.is_empty() { "" } else { "\n" };
    [before, newline, notice, next, after].concat()
}

/// Formats a number with thousands separators: `1,234`.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = KIB * KIB;
    let tenth = |unit: usize| {
        let tenths = bytes.saturating_mul(10) / unit;
        if tenths.is_multiple_of(10) { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
    };
    match bytes {
        1 => "1 byte".to_owned(),
        ..KIB => format!("{bytes} bytes"),
        KIB..MIB => format!("{} KiB", tenth(KIB)),
        _ => format!("{} MiB", tenth(MIB)),
    }
}

#[cfg(test)]
mod tests;
