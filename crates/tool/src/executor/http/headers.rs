//! Declared headers and credentials.

use base64::Engine;
use reqwest::header::{HeaderName, HeaderValue};

use super::styles::Styles;
use super::template::{Arguments, Template};
use crate::executor::secrets::{Secrets, is_valid_secret_name};
use toolpost_core::domain::json::pointer_token;
use toolpost_core::domain::serialization::RESERVED_HEADERS;
use toolpost_core::domain::tool::HttpAuth;

/// A header whose value may contain placeholders.
#[derive(Debug, Clone)]
pub struct HeaderTemplate {
    /// Name in lower case.
    pub name: HeaderName,
    /// JSON Pointer of the declaration within the executor's object.
    pub pointer: String,
    /// Template of the value.
    pub value: Template,
}

impl HeaderTemplate {
    /// Parses a declared header.
    ///
    /// # Errors
    /// Returns a message if the name or value is invalid, or if the service sets this header.
    pub fn parse(name: &str, value: &str) -> Result<Self, String> {
        let pointer = format!("/headers/{}", pointer_token(name));
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("\"{name}\" is not a valid header name"))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(format!("the header {name} is set by the service"));
        }
        let value = Template::parse(value)?;
        // Checks all parts of the value except the arguments.
        let literal = value.names().map(|name| (name.to_owned(), "x".into())).collect();
        match value.render(&literal).map(|text| header_value(&text)) {
            Ok(Ok(_)) => Ok(Self { name, pointer, value }),
            Ok(Err(fault)) => Err(format!("the value {fault}")),
            Err(_) => Err("the value is not a valid header value".to_owned()),
        }
    }

    /// Returns the declared value if it has no placeholders.
    #[must_use]
    pub fn fixed(&self) -> Option<HeaderValue> {
        let render = || self.render(&Arguments::new(), &Styles::default()).ok().flatten();
        self.value.names().next().is_none().then(render).flatten()
    }

    /// Renders the value, with non-ASCII characters as UTF-8; `None` if an argument is absent and the header is
    /// omitted.
    ///
    /// # Errors
    /// Returns a message that names the header if its value is invalid.
    pub fn render(&self, arguments: &Arguments, styles: &Styles) -> Result<Option<HeaderValue>, String> {
        let write = |name: &str, value: &_| styles.text(name, value, str::to_owned);
        let Ok(text) = self.value.render_with(arguments, write) else { return Ok(None) };
        let names: Vec<&str> = self.value.names().collect();
        let named = |fault| format!("the value of the header {}, built from {}, {fault}", self.name, names.join(", "));
        let mut value = header_value(&text).map_err(named)?;
        // The value may contain a preset, which must not appear in a log.
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Creates a header value that is received unchanged. Leading and trailing blanks are rejected, because receivers
/// remove them (RFC 9110, section 5.5).
fn header_value(text: &str) -> Result<HeaderValue, &'static str> {
    if text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']) {
        return Err("cannot begin or end with a blank");
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| "cannot contain line breaks or other control characters")
}

/// Checks credentials. Errors are added to `faults`.
pub fn check_auth(auth: &HttpAuth, faults: &mut Vec<(String, String)>) {
    let (pointer, secret) = match auth {
        HttpAuth::Bearer { token } => ("/auth/token/secret", token),
        HttpAuth::Basic { username, password } => {
            if username.contains(':') || username.chars().any(char::is_control) {
                let fault = "a user name must not contain colons or control characters (RFC 7617)";
                faults.push(("/auth/username".to_owned(), fault.to_owned()));
            }
            ("/auth/password/secret", password)
        }
    };
    if !is_valid_secret_name(&secret.secret) {
        let fault = "the name of a secret must have 1 to 128 letters, digits and underscores, as in MAIL_API_KEY";
        faults.push((pointer.to_owned(), fault.to_owned()));
    }
}

/// Builds the value of the `Authorization` header. Secrets are looked up for every request, so a changed secret needs no
/// restart.
///
/// # Errors
/// Returns a message that names the secret and never contains its value.
pub fn authorization(auth: &HttpAuth, secrets: &Secrets) -> Result<HeaderValue, String> {
    let (name, text) = match auth {
        HttpAuth::Bearer { token } => (&token.secret, format!("Bearer {}", secrets.get(&token.secret)?)),
        HttpAuth::Basic { username, password } => {
            let pair = format!("{username}:{}", secrets.get(&password.secret)?);
            (&password.secret, format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
        }
    };
    let mut value =
        header_value(&text).map_err(|fault| format!("the secret \"{name}\" is not a valid credential: it {fault}"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolpost_core::domain::secret::SecretRef;

    #[test]
    fn header_without_its_argument_is_omitted() {
        let header = HeaderTemplate::parse("X-Note", "n: {a}").unwrap();
        let of = |value| header.render(json!({"a": value}).as_object().unwrap(), &Styles::default());
        assert_eq!(of(json!("é\tb")).unwrap().unwrap().as_bytes(), "n: é\tb".as_bytes());
        assert_eq!(of(json!(null)), Ok(None));
        for bad in ["a\r\nX-Evil: 1", "a\nb", "\u{0}", "\u{7f}", "x "] {
            assert!(of(json!(bad)).unwrap_err().starts_with("the value of the header x-note, built from a, cannot"));
        }
    }

    #[test]
    fn names_and_values_are_checked_when_they_are_declared() {
        for (name, value) in [
            ("Host", "x"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("CONNECTION", "x"),
            ("Webhook-Signature", "x"),
            ("a b", "x"),
            ("", "x"),
            ("é", "x"),
            ("x", "a\r\nb"),
            ("x", " a"),
            ("x", "{"),
            ("x", "{a} "),
        ] {
            assert!(HeaderTemplate::parse(name, value).is_err(), "{name}: {value}");
        }
    }

    #[test]
    fn credentials_contain_secrets_and_are_never_shown() {
        let secrets = Secrets::new(|name| match name {
            "T" => Some("tok".to_owned()),
            "BROKEN" => Some("a\nhidden".to_owned()),
            _ => None,
        });
        let bearer = |name: &str| HttpAuth::Bearer { token: SecretRef { secret: name.into() } };
        let value = authorization(&bearer("T"), &secrets).unwrap();
        assert_eq!(value.as_bytes(), b"Bearer tok");
        assert!(value.is_sensitive() && !format!("{value:?}").contains("tok"));
        let basic = HttpAuth::Basic { username: "u".into(), password: SecretRef { secret: "T".into() } };
        assert_eq!(authorization(&basic, &secrets).unwrap().as_bytes(), b"Basic dTp0b2s=");
        assert_eq!(
            authorization(&bearer("NONE"), &secrets).unwrap_err(),
            "the secret \"NONE\" is not set; the operator of this service can set it as TOOLPOST_SECRET_NONE"
        );
        let broken = authorization(&bearer("BROKEN"), &secrets).unwrap_err();
        assert!(broken.contains("\"BROKEN\"") && !broken.contains("hidden"));
    }
}
