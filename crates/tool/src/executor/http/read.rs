//! Reading of bodies within a size limit and by media type.

use encoding_rs::{Encoding, UTF_8};
use reqwest::Response;
use reqwest::header::{self, HeaderMap, HeaderName};

use super::fault::Fault;
use toolpost_core::domain::{ToolOutput, json};

/// Maximum size of a response, in bytes.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// JSON above this size is parsed on a blocking thread, because it would delay other tasks.
const PARSE_INLINE_BYTES: usize = 256 * 1024;

/// Textual media types outside of `text/`.
const TEXTUAL: [&str; 12] = [
    "application/xml",
    "application/javascript",
    "application/ecmascript",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/sql",
    "application/graphql",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-www-form-urlencoded",
];

/// Runs `work` for an input of this size, on a blocking thread if the input is large. Returns `None` if that thread
/// fails.
pub async fn run_sized<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if bytes <= PARSE_INLINE_BYTES {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

/// Parses an input of this size, on a blocking thread if it is large.
pub async fn parsed<T: Send + 'static>(bytes: usize, parse: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    run_sized(bytes, parse).await.ok_or_else(|| Fault::terminal("the response could not be read"))
}

/// Creates the fault for a response larger than [`MAX_ANSWER_BYTES`].
pub fn too_large() -> Fault {
    Fault::terminal(format!("the response is larger than {MAX_ANSWER_BYTES} bytes (16 MiB)"))
}

/// An error while reading a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The body exceeds the limit.
    TooLarge,
    /// The connection was closed before the end of the body.
    Incomplete,
}

/// Reads a body completely. Fails as soon as the announced or received length exceeds `max_bytes`, so that the caller
/// drops the connection.
pub async fn body(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, BodyError> {
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| BodyError::Incomplete)? {
        if bytes.len() + chunk.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Reads at most `limit` bytes from the beginning of a body, as text for error messages. Returns an empty text if the
/// body is not text.
pub async fn beginning(mut response: Response, limit: usize) -> String {
    if check_encoding(response.headers()).is_err() {
        return String::new();
    }
    let media = Media::of(response.headers());
    let mut bytes = Vec::new();
    while bytes.len() < limit
        && let Ok(Some(chunk)) = response.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(limit);
    if media.is_text() || media.essence.is_empty() {
        media.charset().decode(&bytes).0.into_owned()
    } else {
        String::new()
    }
}

/// Rejects encoded responses. The service requests no encoding and decodes none, so a small response cannot expand to a
/// huge one.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), Fault> {
    match text_of(headers, &header::CONTENT_ENCODING).trim() {
        "" | "identity" => Ok(()),
        other => Err(Fault::terminal(format!(
            "the response is compressed ({}), although only uncompressed responses were requested",
            json::shorten(other, 100)
        ))),
    }
}

fn text_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A media type (RFC 9110, section 8.3.1).
#[derive(Debug, PartialEq)]
pub struct Media {
    /// Type and subtype, in lower case; empty if unknown.
    pub essence: String,
    /// The `charset` parameter, if any.
    pub charset: Option<String>,
}

impl Media {
    /// Reads the media type from the headers of a response.
    pub fn of(headers: &HeaderMap) -> Self {
        Self::parse(text_of(headers, &header::CONTENT_TYPE))
    }

    fn parse(text: &str) -> Self {
        let mut parts = text.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts
            .filter_map(|parameter| parameter.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
            .map(|(_, value)| value.trim().trim_matches('"').to_owned());
        Self { essence, charset }
    }

    fn is_json(&self) -> bool {
        self.essence == "application/json" || self.essence == "text/json" || self.essence.ends_with("+json")
    }

    fn is_text(&self) -> bool {
        self.is_json()
            || self.essence.starts_with("text/")
            || self.essence.ends_with("+xml") && !self.essence.starts_with("image/")
            || TEXTUAL.contains(&self.essence.as_str())
    }

    fn charset(&self) -> &'static Encoding {
        self.charset.as_deref().and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8)
    }

    /// Converts a complete body of this type.
    ///
    /// # Errors
    /// Returns a message for the model if the type is not supported or the body does not match its type.
    pub fn read(&self, bytes: Vec<u8>) -> Result<ToolOutput, String> {
        if bytes.is_empty() {
            return Ok(ToolOutput::Nothing);
        }
        if self.is_json() {
            if self.charset() == UTF_8
                && let Err(error) = std::str::from_utf8(&bytes)
            {
                return read_damaged(&bytes).ok_or_else(|| {
                    format!("the response is declared as JSON but is not valid UTF-8 from byte {}", error.valid_up_to())
                });
            }
            let text = self.decode(bytes)?;
            return ToolOutput::of_json(text)
                .map_err(|(_, error)| format!("the response is declared as JSON but is not valid JSON: {error}"));
        }
        if self.essence.starts_with("image/") {
            return Ok(ToolOutput::Image { bytes, mime_type: self.essence.clone() });
        }
        if self.is_text() {
            return self.decode(bytes).map(ToolOutput::Text);
        }
        if self.essence.is_empty() {
            let text = self.decode(bytes)?;
            return Ok(ToolOutput::of_json(text).unwrap_or_else(|(text, _)| ToolOutput::Text(text)));
        }
        let (essence, length) = (json::shorten(&self.essence, 100), bytes.len());
        Err(format!("the response is {length} bytes of {essence}, which is not text, JSON or an image"))
    }

    /// Decodes text in its charset, by default UTF-8, without a byte order mark.
    fn decode(&self, bytes: Vec<u8>) -> Result<String, String> {
        let encoding = match &self.charset {
            Some(label) => Encoding::for_label(label.as_bytes())
                .ok_or_else(|| format!("the response is in an unknown charset, \"{}\"", json::shorten(label, 100)))?,
            None => UTF_8,
        };
        let wrong = || format!("the response is not valid text in its charset ({})", encoding.name());
        if encoding == UTF_8 {
            let text = String::from_utf8(bytes).map_err(|_| wrong())?;
            return Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
        }
        let (text, _, malformed) = encoding.decode(&bytes);
        if malformed { Err(wrong()) } else { Ok(text.into_owned()) }
    }
}

/// Parses JSON with bytes that are not UTF-8, each of which becomes U+FFFD.
fn read_damaged(bytes: &[u8]) -> Option<ToolOutput> {
    const NOTE: &str = "the result was not valid UTF-8: the invalid bytes were replaced by U+FFFD";
    match ToolOutput::of_json(String::from_utf8_lossy(bytes).into_owned()).ok()? {
        ToolOutput::Json(value) => Some(ToolOutput::Corrected(value, NOTE.to_owned())),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(content_type: &str, bytes: &[u8]) -> Result<ToolOutput, String> {
        Media::parse(content_type).read(bytes.to_vec())
    }

    fn text(text: &str) -> Result<ToolOutput, String> {
        Ok(ToolOutput::Text(text.to_owned()))
    }

    #[test]
    fn media_type_selects_the_reader() {
        let json = || Ok(ToolOutput::Json(json!({"a": 1})));
        for content_type in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", ""] {
            assert_eq!(read(content_type, br#"{"a":1}"#), json(), "{content_type}");
        }
        for content_type in ["text/plain", "text/html; charset=\"UTF-8\"", "application/xml", "application/atom+xml"] {
            assert_eq!(read(content_type, b"{\"a\":1}"), text("{\"a\":1}"), "{content_type}");
            assert_eq!(read(content_type, b""), Ok(ToolOutput::Nothing));
        }
        assert_eq!(read("", b"{a"), text("{a"));
        assert_eq!(
            read("image/PNG;x=y", &[1, 255]),
            Ok(ToolOutput::Image { bytes: vec![1, 255], mime_type: "image/png".into() })
        );
        assert_eq!(
            read("application/octet-stream", b"abc").unwrap_err(),
            "the response is 3 bytes of application/octet-stream, which is not text, JSON or an image"
        );
    }

    #[test]
    fn charset_is_honoured_and_checked() {
        assert_eq!(read("text/plain; charset=iso-8859-1", b"caf\xe9"), text("café"));
        assert_eq!(read("text/plain;charset=UTF-16LE", b"h\0i\0"), text("hi"));
        assert_eq!(read("application/json;charset=utf-16be", b"\0[\0]"), Ok(ToolOutput::Json(json!([]))));
        assert_eq!(read("text/plain", b"\xef\xbb\xbfx"), text("x"));
        for (content_type, bytes) in [
            ("text/plain", b"\xff".as_slice()),
            ("", b"\xff"),
            ("text/plain; charset=utf-16le", b"\x00\xd8"),
            ("text/plain; charset=klingon", b"x"),
        ] {
            assert!(read(content_type, bytes).unwrap_err().contains("charset"), "{content_type}");
        }
    }

    #[test]
    fn json_as_others_write_it_is_mended_with_a_note() {
        for (bytes, value) in [
            (&br#"{"a":"caf\ud83d"}"#[..], json!({"a": "caf\u{fffd}"})),
            (b"[NaN,-Infinity]", json!([null, null])),
            (b"{\"a\":\"caf\xe9\"}", json!({"a": "caf\u{fffd}"})),
            (b"{\"a\":\"\xe9\",\"n\":NaN}", json!({"a": "\u{fffd}", "n": null})),
        ] {
            let output = read("application/json", bytes).unwrap();
            assert!(
                matches!(&output, ToolOutput::Corrected(found, note) if *found == value && !note.is_empty()),
                "{output:?}"
            );
        }
        assert_eq!(read("application/json", b"\xef\xbb\xbf[1]"), Ok(ToolOutput::Json(json!([1]))));
        let error = read("application/json", b"{\"a\xff\":").unwrap_err();
        assert!(error.contains("not valid UTF-8 from byte 3"), "{error}");
    }

    #[test]
    fn invalid_json_is_an_error_with_its_position() {
        assert_eq!(
            read("application/json", b"{\"a\":}").unwrap_err(),
            "the response is declared as JSON but is not valid JSON: expected value at line 1 column 6"
        );
    }

    #[test]
    fn json_with_a_number_beyond_64_bits_is_kept_as_text_with_a_note() {
        for (body, note) in [
            ("{\"id\": 123456789012345678901234567890}\n", "an integer beyond 64 bits (line 1, column 8)"),
            ("[1e400]", "a number beyond a double"),
        ] {
            for content_type in ["application/json", ""] {
                let Ok(ToolOutput::Outcome(outcome)) = read(content_type, body.as_bytes()) else { panic!("{body}") };
                assert_eq!((outcome.output.as_str(), outcome.is_error()), (body, false));
                assert!(outcome.details["note"].as_str().unwrap().contains(note), "{:?}", outcome.details);
                assert_eq!(outcome.structured, None);
            }
        }
        let broken = read("application/json", b"{\"id\": 123456789012345678901234567890").unwrap_err();
        assert!(broken.starts_with("the response is declared as JSON but is not valid JSON"), "{broken}");
    }
}
