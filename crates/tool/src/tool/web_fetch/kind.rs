//! Detection of the type and the character encoding of a page.

use std::sync::LazyLock;

use encoding_rs::{Encoding, UTF_8};
use regex::bytes::Regex;

use crate::executor::http::Page;

/// Length of the beginning that is searched for the type and the encoding, in bytes.
const SNIFFED_BYTES: usize = 1024;

/// Textual media types outside `text/`.
const TEXTUAL: [&str; 10] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/sql",
    "application/x-ndjson",
    "application/ndjson",
    "application/x-sh",
];

/// The kind of a page, which decides how it is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A web page, which is converted.
    Html,
    /// Text, which is returned unchanged.
    Text,
    /// An image, which is returned as an image.
    Image,
    /// Any other content, which is rejected.
    Other,
}

impl Kind {
    pub fn of(page: &Page) -> Self {
        let essence = page.media_type.as_str();
        match essence {
            "text/html" | "application/xhtml+xml" => Self::Html,
            "image/svg+xml" => Self::Text,
            _ if essence.starts_with("image/") => Self::Image,
            _ if essence.starts_with("text/") || TEXTUAL.contains(&essence) => Self::Text,
            _ if essence.ends_with("+json") || essence.ends_with("+xml") => Self::Text,
            "" => Self::from_content(&page.bytes),
            _ => Self::Other,
        }
    }

    /// Guesses the kind if the server sent no media type.
    fn from_content(bytes: &[u8]) -> Self {
        let beginning = &bytes[..bytes.len().min(SNIFFED_BYTES)];
        let start = beginning.trim_ascii_start().to_ascii_lowercase();
        if start.starts_with(b"<!doctype html") || start.starts_with(b"<html") {
            Self::Html
        } else if beginning.contains(&0) || std::str::from_utf8(bytes).is_err() {
            Self::Other
        } else {
            Self::Text
        }
    }
}

/// Decodes a page. The encoding is that of a byte order mark, else of the server, else of the page itself, else UTF-8.
/// Invalid bytes are replaced.
pub fn decode(page: &Page) -> String {
    static DECLARED: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?i-u)<meta[^>]{0,200}charset\s*=\s*["']?\s*([a-z0-9_:-]{1,40})"#).ok());
    let named = page.charset.as_deref().and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared = || {
        let beginning = &page.bytes[..page.bytes.len().min(SNIFFED_BYTES)];
        let label = DECLARED.as_ref()?.captures(beginning)?.get(1)?;
        // A page whose beginning is readable as ASCII is not UTF-16, even if it claims to be.
        Encoding::for_label(label.as_bytes()).map(Encoding::output_encoding)
    };
    let encoding = named.or_else(declared).unwrap_or(UTF_8);
    // `decode` also detects a byte order mark.
    encoding.decode(&page.bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(media_type: &str, charset: Option<&str>, bytes: &[u8]) -> Page {
        let url = url::Url::parse("http://h/").unwrap();
        let charset = charset.map(str::to_owned);
        Page { url, status: 200, media_type: media_type.into(), charset, bytes: bytes.into() }
    }

    #[test]
    fn kind_comes_from_media_type_or_content() {
        for (media_type, bytes, kind) in [
            ("text/html", &b""[..], Kind::Html),
            ("application/xhtml+xml", b"", Kind::Html),
            ("application/ld+json", b"", Kind::Text),
            ("text/markdown", b"", Kind::Text),
            ("image/webp", b"", Kind::Image),
            ("image/svg+xml", b"", Kind::Text),
            ("application/pdf", b"", Kind::Other),
            ("application/octet-stream", b"text", Kind::Other),
            ("", b" \n<!DOCTYPE HTML><p>", Kind::Html),
            ("", b"{\"a\":1}", Kind::Text),
            ("", b"\x00\x01", Kind::Other),
            ("", b"\xff\xfe", Kind::Other),
        ] {
            assert_eq!(Kind::of(&page(media_type, None, bytes)), kind, "{media_type}");
        }
    }

    #[test]
    fn encoding_is_detected_from_all_sources() {
        let of = |charset, bytes: &[u8]| decode(&page("text/html", charset, bytes));
        assert_eq!(of(Some("iso-8859-1"), b"caf\xe9"), "café");
        assert_eq!(of(None, b"<meta charset=\"windows-1252\">caf\xe9"), "<meta charset=\"windows-1252\">café");
        let old = b"<META http-equiv=\"Content-Type\" content=\"text/html; charset=Shift_JIS\">\x93\xfa";
        assert!(of(None, old).ends_with('日'));
        assert_eq!(of(Some("latin1"), b"\xef\xbb\xbf\xc3\xa9"), "é", "a byte order mark takes precedence");
        assert_eq!(of(Some("klingon"), "é\u{0}".as_bytes()), "é\u{0}");
        assert_eq!(of(None, b"a\xff"), "a\u{fffd}");
        assert_eq!(of(None, b"<meta charset=utf-16>\xc3\xa9"), "<meta charset=utf-16>é");
    }
}
