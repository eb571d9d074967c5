//! Credentials for requests, as given with `--auth` and `auth`. They contain the names of secrets, never their values.

use std::fmt;
use std::str::FromStr;

/// The place of a secret in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// `Authorization: Bearer …`.
    Bearer {
        /// The name of the secret that holds the token.
        secret: String,
    },
    /// `Authorization: Basic …`.
    Basic {
        /// The user name.
        username: String,
        /// The name of the secret that holds the password.
        secret: String,
    },
    /// A header.
    Header {
        /// The name of the header.
        name: String,
        /// The name of the secret.
        secret: String,
    },
    /// A query parameter.
    Query {
        /// The name of the parameter.
        name: String,
        /// The name of the secret.
        secret: String,
    },
    /// A cookie.
    Cookie {
        /// The name of the cookie.
        name: String,
        /// The name of the secret.
        secret: String,
    },
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
        let (kind, rest) = text.split_once(':').ok_or(InvalidCredential)?;
        let (name, secret) = match kind {
            "bearer" => ("", rest),
            _ => rest.rsplit_once(':').ok_or(InvalidCredential)?,
        };
        let is_name = (1..=128).contains(&secret.len())
            && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_named = kind == "bearer" || (!name.is_empty() && !name.contains(['{', '}', ':']));
        if !is_name || !is_named || name.chars().any(char::is_control) {
            return Err(InvalidCredential);
        }
        let (name, secret) = (name.to_owned(), secret.to_owned());
        match kind {
            "bearer" => Ok(Self::Bearer { secret }),
            "basic" => Ok(Self::Basic { username: name, secret }),
            "header" => Ok(Self::Header { name, secret }),
            "query" => Ok(Self::Query { name, secret }),
            "cookie" => Ok(Self::Cookie { name, secret }),
            _ => Err(InvalidCredential),
        }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer { secret } => write!(formatter, "bearer:{secret}"),
            Self::Basic { username, secret } => write!(formatter, "basic:{username}:{secret}"),
            Self::Header { name, secret } => write!(formatter, "header:{name}:{secret}"),
            Self::Query { name, secret } => write!(formatter, "query:{name}:{secret}"),
            Self::Cookie { name, secret } => write!(formatter, "cookie:{name}:{secret}"),
        }
    }
}

impl Credential {
    /// Returns `true` if the credential sets the named parameter in `place` (`header`, `query` or `cookie`).
    #[must_use]
    pub fn sets(&self, place: &str, parameter: &str) -> bool {
        match self {
            Self::Bearer { .. } | Self::Basic { .. } => {
                place == "header" && parameter.eq_ignore_ascii_case("authorization")
            }
            Self::Header { name, .. } => place == "header" && parameter.eq_ignore_ascii_case(name),
            Self::Query { name, .. } => place == "query" && parameter == name,
            Self::Cookie { name, .. } => place == "cookie" && parameter == name,
        }
    }

    /// Returns `true` if both credentials set the same parameter.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        match other {
            Self::Bearer { .. } | Self::Basic { .. } => self.sets("header", "authorization"),
            Self::Header { name, .. } => self.sets("header", name),
            Self::Query { name, .. } => self.sets("query", name),
            Self::Cookie { name, .. } => self.sets("cookie", name),
        }
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
