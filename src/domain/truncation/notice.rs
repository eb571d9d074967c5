//! The notice in place of omitted text, which describes how to read that text.

use std::ops::Range;

use uuid::Uuid;

/// Returns the number of lines. A newline ends a line.
#[must_use]
pub fn lines(text: &str) -> usize {
    let newlines = text.bytes().filter(|byte| *byte == b'\n').count();
    newlines + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Returns the notice for a gap in the text of the call `id`.
pub(super) fn of(text: &str, gap: &Range<usize>, id: Uuid) -> String {
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
pub(super) fn between(before: &str, notice: Option<&str>, after: &str) -> String {
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
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
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
mod tests {
    use super::*;

    #[test]
    fn notice_states_size_and_offset_of_the_gap() {
        let text = "a\nbcd\ne\n";
        let id = Uuid::nil();
        assert!(of(text, &(2..8), id).starts_with("[… 2 lines (6 bytes) left out; read_result {\"call_id\":\"0000"));
        assert!(of(text, &(2..8), id).contains("\"offset\":2} or GET /tool-calls/0000"));
        assert!(of(text, &(4..6), id).contains("\"offset\":2,\"column\":3}"), "within a line");
        assert!(of(text, &(0..2), id).starts_with("[… 1 line (2 bytes)"));
    }

    #[test]
    fn numbers_and_sizes_are_readable() {
        assert_eq!([1, 123, 1234, 1_234_567].map(grouped), ["1", "123", "1,234", "1,234,567"]);
        let sizes = [1, 1023, 1024, 1536, 56 * 1024, 5 << 20].map(size);
        assert_eq!(sizes, ["1 byte", "1023 bytes", "1 KiB", "1.5 KiB", "56 KiB", "5 MiB"]);
        assert_eq!(["", "a", "a\n", "a\n\n", "a\nb"].map(lines), [0, 1, 1, 2, 2]);
    }
}
