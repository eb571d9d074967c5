use proptest::prelude::*;

use super::*;
use toolpost_core::domain::limits::Truncate;

fn request(offset: usize, limit: usize, bytes: u64) -> ExcerptRequest {
    let bounds = Bounds { bytes, lines: 50, keep: Truncate::Head };
    ExcerptRequest { id: Uuid::nil(), offset, column: 1, limit, bounds }
}

#[test]
fn lines_are_returned_unchanged_with_a_notice() {
    let text = "one\ntwo\nthree\n";
    assert_eq!(request(1, 99, 1000).lines(text).unwrap(), text);
    assert_eq!(request(3, 99, 1000).lines(text).unwrap(), "three\n");
    let part = request(1, 2, 1000).lines(text).unwrap();
    assert!(part.starts_with("one\ntwo\n[the result has 3 lines; continue with {\"call_id\":\"0000"), "{part}");
    assert!(part.ends_with("\"offset\":3}]"), "{part}");
}

#[test]
fn matching_lines_have_their_numbers() {
    let text = "one\ntwo\nthree\nfour\n";
    let matching = |offset, limit, pattern| {
        request(offset, limit, 1000).matching(text, &Regex::new(pattern).unwrap(), || false).unwrap()
    };
    assert_eq!(matching(1, 9, "^t"), "2: two\n3: three\n[2 matching lines; the result has 4 lines]");
    assert_eq!(matching(3, 9, "^t"), "3: three\n[1 matching line; the result has 4 lines]");
    assert_eq!(matching(1, 9, "x"), "[0 matching lines; the result has 4 lines]");
    let more = "2: two\n[1 matching line; for more, continue with \"offset\":3; the result has 4 lines]";
    assert_eq!(matching(1, 1, "^t"), more);
}

#[test]
fn long_matching_line_is_shown_around_the_match() {
    let text = format!("{}needle{}", "ä".repeat(5000), "x".repeat(5000));
    let shown = request(1, 9, 50_000).matching(&text, &Regex::new("needle").unwrap(), || false).unwrap();
    assert!(shown.contains("needlexxx") && shown.starts_with("1: [from column 4751] ä"), "{shown}");
    assert!(shown.len() < 2200);
}

#[test]
fn positions_past_the_end_are_errors() {
    let error = |request: ExcerptRequest, text| format!("{:?}", request.lines(text).unwrap_err());
    assert!(error(request(3, 1, 99), "a\nb\n").contains("offset 3 is past the end of the result (2 lines)"));
    assert!(error(request(1, 1, 99), "").contains("has no text"));
    assert!(
        error(ExcerptRequest { column: 4, ..request(2, 1, 99) }, "abcdef\nab")
            .contains("column 4 is past the end (2 characters)")
    );
}

proptest! {
    #[test]
    fn reading_in_parts_returns_the_full_text(
        parts in proptest::collection::vec(prop_oneof![Just("\n"), Just("a"), Just("ää"), Just("😀"), Just("\r\n")], 1..80),
        bytes in 1u64..40, limit in 1usize..5,
    ) {
        let text = parts.concat();
        let (mut read, mut next) = (String::new(), request(1, limit, bytes));
        for _ in 0..=text.len() {
            let answer = next.lines(&text).unwrap();
            let Some((part, way)) = answer.rsplit_once("[the result has ") else {
                read.push_str(&answer);
                break;
            };
            let number = |key: &str| {
                let (_, behind) = way.split_once(key)?;
                behind.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
            };
            let column = number("\"column\":");
            // If the next part continues within a line, the newline before the notice is not part of the text.
            read.push_str(if column.is_some() { part.strip_suffix('\n').unwrap() } else { part });
            next = ExcerptRequest { offset: number("\"offset\":").unwrap(), column: column.unwrap_or(1), ..next };
        }
        prop_assert_eq!(read, text);
    }
}
