use proptest::prelude::*;

use super::*;
use crate::domain::Failure;

fn bounds(bytes: u64, lines: u64, keep: Truncate) -> Bounds {
    Bounds { bytes, lines, keep }
}

fn kept(text: &str, bytes: u64, lines: u64, keep: Truncate) -> (&str, &str) {
    let gap = left_out(text, &bounds(bytes, lines, keep)).unwrap_or(text.len()..text.len());
    (&text[..gap.start], &text[gap.end..])
}

#[test]
fn fitting_text_is_not_changed() {
    for keep in [Truncate::Head, Truncate::Tail, Truncate::HeadTail] {
        assert_eq!(left_out("a\nb\n", &bounds(4, 2, keep)), None);
        assert_eq!(left_out("", &bounds(0, 0, keep)), None);
    }
}

#[test]
fn each_mode_keeps_whole_lines() {
    let text = "one\ntwo\nthree\nfour\n";
    assert_eq!(kept(text, 100, 2, Truncate::Head), ("one\ntwo\n", ""));
    assert_eq!(kept(text, 100, 2, Truncate::Tail), ("", "three\nfour\n"));
    assert_eq!(kept(text, 100, 2, Truncate::HeadTail), ("one\n", "four\n"));
    assert_eq!(kept(text, 10, 100, Truncate::Head), ("one\ntwo\n", ""));
    assert_eq!(kept(text, 9, 100, Truncate::Tail), ("", "four\n"));
}

#[test]
fn long_line_is_cut_between_characters() {
    assert_eq!(kept("ääää", 5, 9, Truncate::Head), ("ää", ""));
    assert_eq!(kept("ääää", 5, 9, Truncate::Tail), ("", "ää"));
    assert_eq!(kept("a\n😀😀😀", 9, 9, Truncate::Head), ("a\n😀", ""));
    assert_eq!(kept("ääää", 1, 9, Truncate::Head), ("", ""));
}

#[test]
fn data_keeps_its_value_and_failure_its_text() {
    let value = Arc::new(json!({"rows": "x".repeat(500)}));
    let cut = Outcome::data(value.clone()).truncated(&bounds(100, 9, Truncate::Head), Uuid::nil());
    assert_eq!((cut.structured.as_ref(), cut.full_output.as_deref()), (Some(&value), Some(&FullOutput::Structured)));
    assert_eq!(cut.whole_output(), value.to_string());
    assert_eq!(cut.whole_block(0).as_deref(), Some(value.to_string().as_str()));
    assert!(cut.output.starts_with("{\"rows\":\"xxx") && cut.output.ends_with("/output]"), "{}", cut.output);
    let failure = Failure::execution("t", "y".repeat(500));
    let cut = Outcome::failed(failure.clone()).truncated(&bounds(100, 9, Truncate::Tail), Uuid::nil());
    assert_eq!(cut.error.as_ref().map(|error| &error.text), Some(&cut.output));
    assert_eq!(cut.whole_output(), failure.text);
}

#[test]
fn blocks_are_cut_like_the_joined_text_and_images_stay() {
    let text = |text: &str| ContentBlock::Text(text.to_owned());
    let image = ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() };
    let content = vec![text("aaaa"), image.clone(), text("bbbb"), text("cccc"), text("dddd")];
    let whole = Outcome::blocks(content.clone());
    let cut = whole.clone().truncated(&bounds(10, 2, Truncate::HeadTail), Uuid::nil());
    assert_eq!((&cut.content[0], &cut.content[1], cut.content.len()), (&text("aaaa"), &image, 4));
    let ContentBlock::Text(notice) = &cut.content[2] else { panic!("{cut:?}") };
    assert!(notice.starts_with("[… 2 lines (10 bytes) left out"), "{notice}");
    assert_eq!(cut.content[3], text("dddd"));
    assert_eq!(cut.whole_block(2).as_deref(), Some("bbbb"));
    assert_eq!(cut.whole_output(), whole.output);
    assert_eq!(cut.untruncated().content, content);
}

fn any_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![Just("\n"), Just("a"), Just("ä"), Just("😀"), Just("\0"), Just("\r\n")],
        0..60,
    )
    .prop_map(|parts| parts.concat())
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    let keep = prop_oneof![Just(Truncate::Head), Just(Truncate::Tail), Just(Truncate::HeadTail)];
    (0u64..80, 0u64..20, keep).prop_map(|(bytes, lines, keep)| Bounds { bytes, lines, keep })
}

proptest! {
    #[test]
    fn kept_and_omitted_parts_make_up_the_text(text in any_text(), bounds in any_bounds()) {
        let fits = text.len() as u64 <= bounds.bytes && lines(&text) as u64 <= bounds.lines;
        let Some(gap) = left_out(&text, &bounds) else {
            prop_assert!(fits);
            return Ok(());
        };
        prop_assert!(!fits && !gap.is_empty());
        // Slicing panics unless both ends are between characters.
        let (head, tail) = (&text[..gap.start], &text[gap.end..]);
        prop_assert!((head.len() + tail.len()) as u64 <= bounds.bytes);
        prop_assert!((lines(head) + lines(tail)) as u64 <= bounds.lines);
        prop_assert_eq!([head, &text[gap.clone()], tail].concat(), text);
    }

    #[test]
    fn truncated_result_can_be_restored(
        texts in proptest::collection::vec(any_text(), 0..5), bounds in any_bounds()
    ) {
        let whole = Outcome::blocks(texts.into_iter().map(ContentBlock::Text).collect());
        let cut = whole.clone().truncated(&bounds, Uuid::nil());
        prop_assert_eq!(cut.whole_output(), whole.output.as_str());
        prop_assert_eq!(&cut.output, &joined_text(&cut.content));
        prop_assert_eq!(cut.untruncated().content, whole.content);
    }
}

#[test]
fn notice_states_size_and_offset_of_the_gap() {
    let text = "a\nbcd\ne\n";
    let id = Uuid::nil();
    assert!(notice_of(text, &(2..8), id).starts_with("[… 2 lines (6 bytes) left out; read_result {\"call_id\":\"0000"));
    assert!(notice_of(text, &(2..8), id).contains("\"offset\":2} or GET /tool-calls/0000"));
    assert!(notice_of(text, &(4..6), id).contains("\"offset\":2,\"column\":3}"), "within a line");
    assert!(notice_of(text, &(0..2), id).starts_with("[… 1 line (2 bytes)"));
}

#[test]
fn numbers_and_sizes_are_readable() {
    assert_eq!([1, 123, 1234, 1_234_567].map(grouped), ["1", "123", "1,234", "1,234,567"]);
    let sizes = [1, 1023, 1024, 1536, 56 * 1024, 5 << 20].map(size);
    assert_eq!(sizes, ["1 byte", "1023 bytes", "1 KiB", "1.5 KiB", "56 KiB", "5 MiB"]);
    assert_eq!(["", "a", "a\n", "a\n\n", "a\nb"].map(lines), [0, 1, 1, 2, 2]);
}
