//! Origins of web pages, as browsers write them.

use serde::{Deserialize, Deserializer};
use url::Url;

/// Reads origins; what a browser would never call one is refused, or the page would be refused without a word.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|text| origin(text).map_err(serde::de::Error::custom)).collect()
}

fn origin(text: &str) -> Result<String, String> {
    let refused =
        || format!("\"{text}\" is no origin: give a scheme, a host and perhaps a port, as in https://a.example.com");
    let url = Url::parse(text.trim()).map_err(|_| refused())?;
    let is_one = matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none();
    let has_login = !url.username().is_empty() || url.password().is_some();
    if !is_one || has_login || url.fragment().is_some() {
        return Err(refused());
    }
    Ok(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for (given, meant) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("https://app.example.com:443/", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
        ] {
            assert_eq!(origin(given).as_deref(), Ok(meant));
        }
        for wrong in ["*", "app.example.com", "https://a/b", "ftp://a", "https://u@a", "https://a?b", "null", ""] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }
}
