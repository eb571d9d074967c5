use proptest::prelude::*;

use super::*;

/// Parses a stream that arrives in these chunks, and returns its events as text.
fn events<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<(String, String)> {
    let (mut parser, mut events) = (Parser::new(1000), Vec::new());
    for mut piece in pieces {
        while let Some(Event { name, data }) = parser.next(&mut piece).unwrap() {
            events.push((String::from_utf8(name).unwrap(), String::from_utf8(data).unwrap()));
        }
        assert!(piece.is_empty());
    }
    events
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn examples_of_the_standard_are_parsed() {
    for (stream, expected) in [
        ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![event("", "YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
            vec![event("", "first event"), event("", "second event")],
        ),
        ("data\n\ndata\ndata\n\ndata:", vec![event("", ""), event("", "\n")]),
        ("data:test\n\ndata: test\n\n", vec![event("", "test"), event("", "test")]),
        (
            "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n",
            vec![event("add", "73857293"), event("remove", "2153")],
        ),
    ] {
        assert_eq!(events([stream.as_bytes()]), expected, "{stream:?}");
    }
}

#[test]
fn field_names_are_matched_exactly() {
    for (stream, expected) in [
        ("event: a\n\ndata: x\n\n", vec![event("", "x")]),
        ("event: a\nevent: b\ndata: x\n\n", vec![event("b", "x")]),
        ("event: a\nevent\ndata: x\n\n", vec![event("", "x")]),
        ("data: a:b: c \n\n", vec![event("", "a:b: c ")]),
        ("data:\tx\n\n", vec![event("", "\tx")]),
        ("data : x\n data: y\nData: z\nretry: 1\n:data: c\n\n", vec![]),
        ("\n\r\n\rdata: \u{0}é\u{2028}\u{85}\u{b}\n\n", vec![event("", "\u{0}é\u{2028}\u{85}\u{b}")]),
    ] {
        assert_eq!(events([stream.as_bytes()]), expected, "{stream:?}");
    }
}

#[test]
fn only_the_leading_byte_order_mark_is_removed() {
    assert_eq!(events(["\u{feff}data: a\n\n".as_bytes()]), [event("", "a")]);
    assert_eq!(events(["\u{feff}\u{feff}data: a\n\n".as_bytes()]), []);
    assert_eq!(events(["\u{feff}\n\u{feff}data: a\n\ndata:\u{feff}b\n\n".as_bytes()]), [event("", "\u{feff}b")]);
}

#[test]
fn event_without_blank_line_is_discarded() {
    let mut parser = Parser::new(100);
    for (piece, within) in
        [("data: a", true), ("\n", true), ("\n", false), (":c", true), ("\n", false), ("event: a\n", true)]
    {
        let mut input = piece.as_bytes();
        let _ = parser.next(&mut input);
        assert_eq!(parser.is_within_event(), within, "after {piece:?}");
    }
}

#[test]
fn id_applies_from_the_end_of_its_event_and_until_the_next_id() {
    let mut parser = Parser::new(100);
    for (piece, id) in [
        ("id: 1\n", ""),
        ("data: a\n\n", "1"),
        ("data: b\n\n", "1"),
        ("id: 0:2,1:3\ndata: c\n", "1"),
        ("\n", "0:2,1:3"),
        ("id: 4\0\ndata\n\n", "0:2,1:3"),
        ("id\ndata\n\n", ""),
    ] {
        let mut input = piece.as_bytes();
        while parser.next(&mut input).unwrap().is_some() {}
        assert_eq!(parser.last_event_id(), id.as_bytes(), "after {piece:?}");
    }
}

#[test]
fn events_above_the_limit_are_rejected() {
    for fits in ["data: 3456789\n\n", "data: 3456789\n\ndata: 3456789\n\n", ":123456789012\n:123456789012\n"] {
        let mut parser = Parser::new(13);
        let mut input = fits.as_bytes();
        while !input.is_empty() {
            parser.next(&mut input).unwrap();
        }
    }
    for too_large in ["data: 34567890", "data: 12345\ndata:6789", ":1234567890123", "event: 12345\ndata: 45678"] {
        let mut parser = Parser::new(13);
        assert_eq!(parser.next(&mut too_large.as_bytes()), Err(TooLarge), "{too_large}");
        let mut parser = Parser::new(13);
        let fed = too_large.as_bytes().iter().try_for_each(|byte| parser.next(&mut &[*byte][..]).map(drop));
        assert_eq!(fed, Err(TooLarge), "{too_large}, byte by byte");
    }
}

/// Generates a stream as servers write it, in lines with any of the three line endings.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "",
        "",
        "data: a",
        "data:é😀",
        "data",
        "event: result",
        "event:",
        ": c",
        "id: 1",
        "\u{feff}data: b",
        "x",
        "data: \u{0}",
    ]);
    let end = prop::sample::select(vec!["\n", "\r", "\r\n"]);
    prop::collection::vec((line, end), 0..20)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end]).collect::<String>().into_bytes())
}

proptest! {
    #[test]
    fn chunk_boundaries_make_no_difference(stream in streams(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        let whole = events([&stream[..]]);
        prop_assert_eq!(events(pieces), whole.clone());
        prop_assert_eq!(events(stream.chunks(1)), whole);
    }

    #[test]
    fn line_endings_make_no_difference(stream in streams()) {
        // A literal implementation of the standard: first lines, then fields.
        let text = String::from_utf8(stream.clone()).unwrap().replace("\r\n", "\n").replace('\r', "\n");
        let (mut expected, mut name, mut data) = (Vec::new(), String::new(), String::new());
        for line in text.strip_prefix('\u{feff}').unwrap_or(&text).split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            match field {
                "" if line.is_empty() => {
                    if let Some(data) = data.strip_suffix('\n') {
                        expected.push(event(&name, data));
                    }
                    (name, data) = (String::new(), String::new());
                }
                "event" => name = value.strip_prefix(' ').unwrap_or(value).to_owned(),
                "data" => data = data + value.strip_prefix(' ').unwrap_or(value) + "\n",
                _ => {}
            }
        }
        prop_assert_eq!(events([&stream[..]]), expected);
    }

    #[test]
    fn any_data_survives(lines in prop::collection::vec("[^\r\n]{0,12}", 1..5)) {
        let stream: String = lines.iter().map(|line| format!("data: {line}\r\n")).collect::<String>() + "\r\n";
        prop_assert_eq!(events(stream.as_bytes().chunks(3)), [event("", &lines.join("\n"))]);
    }
}
