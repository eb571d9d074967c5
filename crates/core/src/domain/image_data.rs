//! Base64 of images as tools write it: with line breaks, with the URL-safe alphabet, without padding, or as a data URL.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The media type of an unknown kind of image.
const UNKNOWN: &str = "application/octet-stream";

/// Accepts missing padding and nonzero trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes the data of an image with the media type that its tool gave, if any. Returns base64 as in RFC 4648, section
/// 4, and the media type. An unknown media type is detected from the bytes.
///
/// # Errors
/// Returns the reason as a clause if the data is invalid.
pub fn read(data: String, mime_type: Option<String>) -> Result<(String, String), &'static str> {
    if let Ok(bytes) = STANDARD.decode(&data) {
        // Stored blocks are already in this form and are not changed.
        let mime_type = mime_type.unwrap_or_else(|| media_type(&bytes).unwrap_or(UNKNOWN).to_owned());
        return Ok((data, mime_type));
    }
    let bytes = decode(&data)?;
    let known = mime_type.filter(|mime_type| !mime_type.trim().is_empty());
    let mime_type = media_type(&bytes).map(str::to_owned).or(known).unwrap_or_else(|| UNKNOWN.to_owned());
    Ok((STANDARD.encode(bytes), mime_type))
}

fn decode(data: &str) -> Result<Vec<u8>, &'static str> {
    let data = data.trim_ascii();
    let payload = match data.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        None => Cow::Borrowed(data),
        Some(_) => {
            let (header, payload) = data.split_once(',').ok_or("its data URL has no data")?;
            let is_base64 = header.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64"));
            if !is_base64 {
                return Err("its data URL is not in base64");
            }
            unescaped(payload)
        }
    };
    let plain = payload.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    });
    LENIENT.decode(plain.collect::<Vec<u8>>()).map_err(|_| "its data is not base64")
}

/// Decodes the three base64 characters that URLs escape.
fn unescaped(payload: &str) -> Cow<'_, str> {
    if !payload.contains('%') {
        return payload.into();
    }
    let mut text = payload.to_owned();
    for (escape, character) in [("%2B", "+"), ("%2b", "+"), ("%2F", "/"), ("%2f", "/"), ("%3D", "="), ("%3d", "=")] {
        text = text.replace(escape, character);
    }
    text.into()
}

/// Detects the media type from the first bytes of an image.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contains both characters in which the alphabets differ, and needs padding.
    const BYTES: &[u8] = b"\x89PNG\r\n\x1a\nx\xfb\xff\xbf?";

    fn png() -> (String, String) {
        (STANDARD.encode(BYTES), "image/png".to_owned())
    }

    #[test]
    fn lenient_base64_and_data_urls_are_read() {
        let (plain, _) = png();
        let url_safe = plain.replace('+', "-").replace('/', "_");
        assert!(plain.contains('+') && plain.contains('/') && plain.ends_with('='));
        let escaped = plain.replace('+', "%2B").replace('/', "%2f").replace('=', "%3D");
        for data in [
            plain.clone(),
            format!(" {}\r\n {}\n", &plain[..7], &plain[7..]),
            plain.trim_end_matches('=').to_owned(),
            url_safe.clone(),
            url_safe.trim_end_matches('=').to_owned(),
            format!("data:image/jpeg;base64,{plain}"),
            format!("DATA:;Base64,{url_safe}"),
            format!("data:image/png;name=a.png;base64,{escaped}"),
        ] {
            assert_eq!(read(data.clone(), None), Ok(png()), "{data}");
        }
    }

    #[test]
    fn given_type_stays_where_the_data_is_plain() {
        let kept = ("AA==".to_owned(), "image/x-own".to_owned());
        assert_eq!(read("AA==".into(), Some("image/x-own".into())), Ok(kept));
        assert_eq!(read("AA==".into(), Some(" ".into())), Ok(("AA==".into(), " ".into())));
        assert_eq!(read("AA==".into(), None), Ok(("AA==".into(), UNKNOWN.into())));
        assert_eq!(read("AA".into(), Some(" ".into())), Ok(("AA==".into(), UNKNOWN.into())));
        assert_eq!(read("AA".into(), Some("image/x-own".into())).unwrap().1, "image/x-own");
    }

    #[test]
    fn unreadable_data_is_an_error() {
        for data in ["!", "A", "data:image/png;base64", "data:image/svg+xml,%3Csvg%3E", "data:image/png;base64,é", "ü"]
        {
            assert!(read(data.into(), None).is_err(), "{data}");
        }
    }
}
