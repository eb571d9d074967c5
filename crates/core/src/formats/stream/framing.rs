//! Framing of a body into events: an event stream, consecutive JSON texts, or one JSON array.

use super::error::{MAX_EVENT, StreamError};
use super::scan::Scan;
use crate::formats::sse;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The framing of a body, detected by its first non-blank byte.
#[derive(Debug)]
pub(super) enum Framing {
    /// Not detected yet; the number of bytes of a byte order mark so far.
    Unknown(usize),
    Sse(sse::Parser),
    Json(Texts),
}

/// Consecutive JSON texts without framing.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// `true` if they are the items of an array.
    in_array: bool,
    text: Vec<u8>,
    scan: Scan,
}

impl Default for Framing {
    fn default() -> Self {
        Self::Unknown(0)
    }
}

impl Framing {
    /// Returns the data of the next complete event and advances `input` past it, or consumes all of `input` and returns
    /// `None`.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, StreamError> {
        if let Self::Unknown(mark) = self {
            while let Some(byte) = input.first() {
                if BYTE_ORDER_MARK.get(*mark) == Some(byte) {
                    *mark += 1;
                } else if !byte.is_ascii_whitespace() {
                    break;
                }
                *input = &input[1..];
            }
            *self = match input.first() {
                None => return Ok(None),
                Some(b'{') => Self::Json(Texts::default()),
                Some(b'[') => Self::Json(Texts { in_array: true, ..Texts::default() }),
                Some(_) => Self::Sse(sse::Parser::new(MAX_EVENT)),
            };
        }
        match self {
            Self::Unknown(_) => Ok(None),
            Self::Sse(parser) => match parser.next(input) {
                Ok(event) => Ok(event.map(|event| event.data)),
                Err(sse::TooLarge) => Err(StreamError::TooLarge),
            },
            Self::Json(texts) => texts.next(input),
        }
    }

    /// Returns the last event if the body ended without the blank line after it.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        match self {
            // The first newline may belong to a CR before it.
            Self::Sse(parser) => parser.next(&mut &b"\n\n\n"[..]).ok().flatten().map(|event| event.data),
            _ => None,
        }
    }
}

impl Texts {
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, StreamError> {
        if self.text.is_empty() {
            // The brackets of the array itself are separators like commas.
            let between =
                |byte: &u8| byte.is_ascii_whitespace() || *byte == b',' || self.in_array && b"[]".contains(byte);
            *input = &input[input.iter().take_while(|byte| between(byte)).count()..];
            match input.first() {
                None => return Ok(None),
                Some(b'{' | b'[') => {}
                Some(_) => return Err(StreamError::NotJson("text between two events".to_owned())),
            }
        }
        let taken = self.scan.advance(input);
        if taken > MAX_EVENT - self.text.len() {
            return Err(StreamError::TooLarge);
        }
        self.text.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        if !self.scan.is_complete() {
            return Ok(None);
        }
        self.scan = Scan::default();
        Ok(Some(std::mem::take(&mut self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<String> {
        let (mut framing, mut events) = (Framing::default(), Vec::new());
        for mut piece in pieces {
            while let Some(data) = framing.next(&mut piece).unwrap() {
                events.push(String::from_utf8(data).unwrap());
            }
        }
        events.extend(framing.rest().map(|data| String::from_utf8(data).unwrap()));
        events
    }

    #[test]
    fn every_framing_yields_the_same_events() {
        for body in [
            "data: {\"a\":\"é}\"}\n\nevent: x\ndata: {\"b\":[1]}\n\n",
            "\u{feff}: hello\r\n\r\ndata: {\"a\":\"é}\"}\r\n\r\ndata: {\"b\":[1]}",
            "data: {\"a\":\"é}\"}\r\rdata: {\"b\":[1]}\r",
            "{\"a\":\"é}\"}\n{\"b\":[1]}\n",
            "\u{feff}\n{\"a\":\"é}\"}{\"b\":[1]}",
            " [{\"a\":\"é}\"}\n,\r\n{\"b\":[1]}]\n",
        ] {
            let expected = ["{\"a\":\"é}\"}", "{\"b\":[1]}"];
            assert_eq!(events([body.as_bytes()]), expected, "{body:?}");
            assert_eq!(events(body.as_bytes().chunks(1)), expected, "{body:?}, byte by byte");
        }
    }

    #[test]
    fn incomplete_text_is_not_an_event() {
        for body in ["", " ", "\u{feff}", "{\"a\":", "[", "dat", ": x"] {
            assert_eq!(events([body.as_bytes()]), [""; 0], "{body:?}");
        }
    }

    #[test]
    fn events_above_the_limit_are_rejected() {
        for begin in ["{\"a\":\"", "data: {\"a\":\""] {
            let mut framing = Framing::default();
            assert_eq!(framing.next(&mut begin.as_bytes()), Ok(None));
            assert_eq!(framing.next(&mut &vec![b'x'; MAX_EVENT / 2][..]), Ok(None));
            assert_eq!(framing.next(&mut &vec![b'x'; MAX_EVENT / 2][..]), Err(StreamError::TooLarge), "{begin}");
        }
    }

    #[test]
    fn text_between_json_texts_is_rejected() {
        let mut input = &b"{\"a\":1}\nup"[..];
        let mut framing = Framing::default();
        assert!(framing.next(&mut input).unwrap().is_some());
        assert!(framing.next(&mut input).is_err());
    }
}
