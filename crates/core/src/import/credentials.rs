//! Credentials for requests, as given with `--auth` and `auth`. They contain the names of secrets, never their values.

use std::fmt;
use std::str::FromStr;

/// A secret, and the place in a request where it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The kind of credential.
    pub kind: CredentialKind,
    /// The user name of `basic`, or the name of the parameter; empty for `bearer`.
    pub name: String,
    /// The name of the secret that holds the token, the password or the value.
    pub secret: String,
}

/// The kind of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// `Authorization: Bearer …`.
    Bearer,
    /// `Authorization: Basic …`.
    Basic,
    /// A header.
    Header,
    /// A query parameter.
    Query,
    /// A cookie.
    Cookie,
}

/// The error for an invalid credential. It does not repeat the text, which may contain a secret by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be bearer:SECRET, basic:USER:SECRET, header:NAME:SECRET, query:NAME:SECRET or cookie:NAME:SECRET, where \
     SECRET is the name of a secret (1 to 128 letters, digits and underscores), never its value: the value of X is in \
     TOOLPOST_SECRET_X"
)]
pub struct InvalidCredential;

impl FromStr for Credential {
    type Err = InvalidCredential;

    fn from_str(text: &str) -> Result<Self, InvalidCredential> {
        let (word, rest) = text.split_once(':').ok_or(InvalidCredential)?;
        let kind = match word {
            "bearer" => CredentialKind::Bearer,
            "basic" => CredentialKind::Basic,
            "header" => CredentialKind::Header,
            "query" => CredentialKind::Query,
            "cookie" => CredentialKind::Cookie,
            _ => return Err(InvalidCredential),
        };
        let is_bearer = kind == CredentialKind::Bearer;
        let (name, secret) = if is_bearer { ("", rest) } else { rest.rsplit_once(':').ok_or(InvalidCredential)? };
        let is_name = (1..=128).contains(&secret.len())
            && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_named = is_bearer || (!name.is_empty() && !name.contains(['{', '}', ':']));
        if !is_name || !is_named || name.chars().any(char::is_control) {
            return Err(InvalidCredential);
        }
        Ok(Self { kind, name: name.to_owned(), secret: secret.to_owned() })
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, secret } = self;
        match kind {
            CredentialKind::Bearer => write!(formatter, "bearer:{secret}"),
            CredentialKind::Basic => write!(formatter, "basic:{name}:{secret}"),
            _ => write!(formatter, "{}:{name}:{secret}", self.parameter().0),
        }
    }
}

impl Credential {
    /// Returns the location (`header`, `query` or `cookie`) and the name of the parameter that the credential sets.
    fn parameter(&self) -> (&'static str, &str) {
        match self.kind {
            CredentialKind::Bearer | CredentialKind::Basic => ("header", "authorization"),
            CredentialKind::Header => ("header", &self.name),
            CredentialKind::Query => ("query", &self.name),
            CredentialKind::Cookie => ("cookie", &self.name),
        }
    }

    /// Returns `true` if the credential sets the named parameter in `location` (`header`, `query` or `cookie`).
    pub fn sets(&self, location: &str, parameter: &str) -> bool {
        let (own_location, own) = self.parameter();
        own_location == location && (own == parameter || location == "header" && own.eq_ignore_ascii_case(parameter))
    }

    /// Returns `true` if both credentials set the same parameter.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let (location, parameter) = other.parameter();
        self.sets(location, parameter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_displayed() {
        for text in ["bearer:TOKEN", "basic:ann:PW", "header:X-Key:K", "query:api key:K", "cookie:sid:K"] {
            assert_eq!(text.parse::<Credential>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "bearer",
            "bearer:",
            "bearer:sk-live",
            "basic:PW",
            "header::K",
            "token:K",
            "digest:a:K",
            "header:a:b c",
        ] {
            assert!(text.parse::<Credential>().is_err(), "{text}");
        }
        assert!(!InvalidCredential.to_string().contains("sk-live"));
    }

    #[test]
    fn credentials_for_the_same_parameter_conflict() {
        let of = |text: &str| text.parse::<Credential>().unwrap();
        assert!(
            of("bearer:A").conflicts_with(&of("basic:u:B"))
                && of("bearer:A").conflicts_with(&of("header:AUTHORIZATION:B"))
        );
        assert!(of("query:k:A").conflicts_with(&of("query:k:B")) && !of("query:k:A").conflicts_with(&of("cookie:k:A")));
        assert!(!of("query:k:A").conflicts_with(&of("query:K:A")));
    }
}
