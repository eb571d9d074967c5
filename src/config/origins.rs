//! Origins of web pages, as browsers write them.

use serde::{Deserialize, Deserializer};
use url::Url;

/// Parses origins. An origin that a browser never sends is rejected here, because its pages would be refused silently.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.iter().map(|text| origin(text).map_err(serde::de::Error::custom)).collect()
}

fn origin(text: &str) -> Result<String, String> {
    let refused = || {
        format!(
            "\"{text}\" is not a valid origin: use a scheme, a host and optionally a port, for example \
            https://a.example.com"
        )
    };
    let url = Url::parse(text.trim()).map_err(|_| refused())?;
    let has_only_origin = matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none();
    let has_login = !url.username().is_empty() || url.password().is_some();
    if !has_only_origin || has_login || url.fragment().is_some() {
        return Err(refused());
    }
    Ok(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_normalized_like_in_browsers() {
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
