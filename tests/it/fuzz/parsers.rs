//! Stream parsers: the result does not depend on the chunk boundaries.

use toolpost::domain::Vendor;
use toolpost::formats::{sse, stream};

use super::driver::Target;

const VENDORS: [Option<Vendor>; 5] =
    [None, Some(Vendor::OpenAi), Some(Vendor::OpenAiResponses), Some(Vendor::Anthropic), Some(Vendor::Gemini)];

/// Splits the input into chunks of 1 to 7 bytes, whose sizes depend on the input.
fn pieces(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (piece, later) = rest.split_at((usize::from(first) % 7 + 1).min(rest.len()));
        rest = later;
        Some(piece)
    })
}

fn events<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<sse::Event>, sse::TooLarge> {
    let mut parser = sse::Parser::new(4096);
    let mut found = Vec::new();
    for mut part in parts {
        while let Some(event) = parser.next(&mut part)? {
            found.push(event);
        }
    }
    Ok(found)
}

#[test]
fn event_streams_are_read_alike_however_they_are_cut() {
    let take = |input: &[u8]| {
        let (whole, cut) = (events(std::iter::once(input)), events(pieces(input)));
        if whole == cut { Ok(()) } else { Err(format!("whole: {whole:?}\ncut: {cut:?}")) }
    };
    let words = &["data:", "event:", "id: ", ":", "\r\n", "\n\n", "\r", "\u{feff}", "data\n", "retry: 1\n"];
    Target { name: "sse", beside: &[], words, inputs: 400, take }.run();
}

fn parse<'a>(vendor: Option<Vendor>, parts: impl Iterator<Item = &'a [u8]>) -> (Vec<stream::StreamEvent>, bool) {
    let mut parser = stream::Parser::new(vendor);
    let mut events = Vec::new();
    let mut is_broken = false;
    for part in parts {
        is_broken |= parser.push(part, &mut events).is_err();
    }
    parser.finish(&mut events);
    (events, is_broken)
}

/// Checks that each call is opened once and in order, ends once, and has no events after its end.
fn is_in_order(events: &[stream::StreamEvent]) -> Result<(), String> {
    let (mut opened, mut over) = (0, std::collections::BTreeSet::new());
    for (at, one) in events.iter().enumerate() {
        let call_index = match one {
            stream::StreamEvent::Opened { call_index, .. } => {
                if *call_index != opened {
                    return Err(format!("call {call_index} is opened after {opened} others: {events:?}"));
                }
                opened += 1;
                continue;
            }
            stream::StreamEvent::Ended if at + 1 < events.len() => {
                return Err(format!("more after the end: {events:?}"));
            }
            stream::StreamEvent::Ended => continue,
            stream::StreamEvent::Delta { call_index, .. } | stream::StreamEvent::Value { call_index, .. } => call_index,
            stream::StreamEvent::Closed { call_index, .. } | stream::StreamEvent::Truncated { call_index } => {
                if !over.insert(*call_index) {
                    return Err(format!("call {call_index} ends twice: {events:?}"));
                }
                if *call_index >= opened {
                    return Err(format!("call {call_index} ends unopened: {events:?}"));
                }
                continue;
            }
        };
        if *call_index >= opened || over.contains(call_index) {
            return Err(format!("call {call_index} is spoken of out of turn: {events:?}"));
        }
    }
    if over.len() == opened { Ok(()) } else { Err(format!("{} of {opened} calls end: {events:?}", over.len())) }
}

#[test]
fn models_streams_are_followed_alike_however_they_are_cut() {
    let take = |input: &[u8]| {
        for vendor in VENDORS {
            let (whole, cut) = (parse(vendor, std::iter::once(input)), parse(vendor, pieces(input)));
            if whole != cut {
                return Err(format!("{vendor:?}\nwhole: {whole:?}\ncut: {cut:?}"));
            }
            is_in_order(&whole.0).map_err(|wrong| format!("{vendor:?}: {wrong}"))?;
        }
        Ok(())
    };
    let words = &[
        "data: ",
        "\n\n",
        "[DONE]",
        "\"tool_calls\":[",
        "\"index\":",
        "\"arguments\":\"",
        "\\\"",
        "\"id\":\"call_0\"",
        "null",
        "\"finish_reason\":\"length\"",
        "\"type\":\"content_block_stop\"",
        "\"functionCall\":{",
        "event: ",
        "]}",
        "18446744073709551616",
        "1e400",
        "\\ud800",
        "\"choices\":[{}]",
    ];
    let beside = &[
        "tests/fixtures/streams/anthropic.sse",
        "tests/fixtures/streams/openai.sse",
        "tests/fixtures/streams/openai-responses.sse",
        "tests/fixtures/streams/gemini.json",
    ];
    Target { name: "streams", beside, words, inputs: 300, take }.run();
}
