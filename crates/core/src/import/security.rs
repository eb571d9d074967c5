//! Assigns the given credentials to operations, by the security requirements of the document.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::credentials::{Credential, CredentialKind};
use super::reference::{self, text};
use super::version::Version;
use super::{ImportError, Warning};
use crate::domain::json;

/// The security requirements of a document, and the given credentials.
pub struct Security<'d> {
    document: &'d Value,
    schemes: Option<&'d Map<String, Value>>,
    everywhere: Option<&'d Value>,
    /// Whether the document has any security requirement; otherwise, all credentials are always sent.
    has_requirements: bool,
    given: &'d [Credential],
    used: Vec<Cell<bool>>,
}

impl<'d> Security<'d> {
    /// Reads the security schemes of a document.
    ///
    /// # Errors
    /// Returns an [`ImportError`] if two credentials set the same parameter.
    pub fn new(
        document: &'d Value,
        version: Version,
        members: &'d Map<String, Value>,
        has_requirements: bool,
        given: &'d [Credential],
    ) -> Result<Self, ImportError> {
        for (index, one) in given.iter().enumerate() {
            if given[..index].iter().any(|other| one.conflicts_with(other)) {
                let message = format!("{one} sets the same parameter as another credential");
                return Err(ImportError::option("auth", format!("/{index}"), message));
            }
        }
        let schemes = match version {
            Version::V2 => reference::member(members, "securityDefinitions"),
            Version::V30 | Version::V31 => reference::member(members, "components")
                .and_then(|components| components.map_or(Ok(None), |all| reference::member(all, "securitySchemes"))),
        };
        let everywhere = members.get("security").filter(|security| !security.is_null());
        let used = given.iter().map(|_| Cell::new(false)).collect();
        let has_requirements = has_requirements || everywhere.is_some();
        Ok(Self { document, schemes: schemes.unwrap_or_default(), everywhere, has_requirements, given, used })
    }

    /// Returns the credentials for an operation, and a warning if credentials are missing.
    ///
    /// # Errors
    /// Returns the reason if a security requirement is invalid.
    pub fn of_operation(
        &self,
        operation: &'d Map<String, Value>,
    ) -> Result<(Vec<&'d Credential>, Option<String>), String> {
        if !self.has_requirements {
            return Ok((self.select(|_| true), None));
        }
        let own = operation.get("security").filter(|security| !security.is_null());
        let alternatives = match own.or(self.everywhere) {
            None => return Ok((Vec::new(), None)),
            Some(Value::Array(alternatives)) => alternatives,
            Some(other) => return Err(format!("`security` must be an array, not {}", json::type_name(other))),
        };
        let mut is_optional = alternatives.is_empty();
        for alternative in alternatives {
            let Value::Object(schemes) = alternative else {
                return Err(format!("a security requirement must be an object, not {}", json::type_name(alternative)));
            };
            is_optional |= schemes.is_empty();
            let found: Option<Vec<usize>> = schemes.keys().map(|scheme| self.fitting(scheme)).collect();
            if let Some(found) = found.filter(|found| !found.is_empty()) {
                return Ok((self.select(|index| found.contains(&index)), None));
            }
        }
        if is_optional {
            return Ok((Vec::new(), None));
        }
        let all: Vec<String> = alternatives.iter().take(5).map(|one| self.describe(one)).collect();
        let message = format!(
            "it requires credentials, {}, but none were given: calls may be rejected (`auth`, --auth)",
            all.join(" or ")
        );
        Ok((Vec::new(), Some(message)))
    }

    /// Returns warnings about credentials that no operation uses.
    pub fn unused(&self) -> Vec<Warning> {
        let unused = self.given.iter().zip(&self.used).filter(|(_, used)| !used.get());
        let message =
            |credential: &Credential| format!("{credential} matches no operation's security scheme and is not used");
        unused.map(|(credential, _)| Warning { operation: None, message: message(credential) }).collect()
    }

    fn select(&self, takes: impl Fn(usize) -> bool) -> Vec<&'d Credential> {
        let taken = self.given.iter().enumerate().filter(|(index, _)| takes(*index));
        taken.inspect(|(index, _)| self.used[*index].set(true)).map(|(_, credential)| credential).collect()
    }

    fn scheme(&self, name: &str) -> Option<&'d Map<String, Value>> {
        let scheme = self.schemes?.get(name)?;
        reference::object(self.document, scheme, "").ok()
    }

    /// Returns the index of the credential that matches a scheme.
    fn fitting(&self, name: &str) -> Option<usize> {
        let scheme = self.scheme(name)?;
        let (kind, http) = (text(scheme, "type")?, text(scheme, "scheme").unwrap_or_default());
        let is_bearer =
            matches!(kind, "oauth2" | "openIdConnect") || kind == "http" && http.eq_ignore_ascii_case("bearer");
        let is_basic = kind == "basic" || kind == "http" && http.eq_ignore_ascii_case("basic");
        let key = (kind == "apiKey").then(|| (text(scheme, "in"), text(scheme, "name")));
        self.given.iter().position(|credential| match (credential, key) {
            (credential, Some((Some(location), Some(name)))) => credential.sets(location, name),
            (Credential { kind: CredentialKind::Bearer, .. }, _) => is_bearer,
            (Credential { kind: CredentialKind::Basic, .. }, _) => is_basic,
            (Credential { kind: CredentialKind::Header, .. }, _) => {
                (is_bearer || is_basic || kind == "http") && credential.sets("header", "authorization")
            }
            _ => false,
        })
    }

    /// Describes one alternative of a requirement.
    fn describe(&self, alternative: &Value) -> String {
        let names = alternative.as_object().into_iter().flat_map(Map::keys).take(5);
        let descriptions = names.map(|name| {
            let shown = json::shorten(name, 60);
            let Some(scheme) = self.scheme(name) else { return shown };
            let parts = ["type", "scheme", "in", "name"].into_iter().filter_map(|part| text(scheme, part));
            format!("{shown} ({})", json::shorten(&parts.collect::<Vec<_>>().join(" "), 80))
        });
        descriptions.collect::<Vec<_>>().join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({"components": {"securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "other": {"type": "apiKey", "in": "query", "name": "k"},
            "token": {"type": "http", "scheme": "bearer"}, "login": {"type": "http", "scheme": "Basic"},
            "flow": {"type": "oauth2"}, "cert": {"type": "mutualTLS"}}}})
    }

    fn sent(security: Value, given: &[&str]) -> (Vec<String>, bool) {
        let (document, operation) = (document(), json!({"security": security}));
        let given: Vec<Credential> = given.iter().map(|text| text.parse().unwrap()).collect();
        let security = Security::new(&document, Version::V31, document.as_object().unwrap(), true, &given).unwrap();
        let (sent, lacking) = security.of_operation(operation.as_object().unwrap()).unwrap();
        (sent.iter().map(ToString::to_string).collect(), lacking.is_some())
    }

    #[test]
    fn credentials_follow_the_security_requirements() {
        for (security, given, expected, lacks) in [
            (json!([{"key": []}]), vec!["header:x-key:K"], vec!["header:x-key:K"], false),
            (json!([{"key": []}]), vec!["bearer:T"], vec![], true),
            (json!([{"key": []}, {"flow": []}]), vec!["bearer:T"], vec!["bearer:T"], false),
            (json!([{"key": [], "other": []}]), vec!["header:X-Key:K"], vec![], true),
            (
                json!([{"key": [], "other": []}]),
                vec!["header:X-Key:K", "query:k:K"],
                vec!["header:X-Key:K", "query:k:K"],
                false,
            ),
            (json!([{"login": []}]), vec!["basic:u:P"], vec!["basic:u:P"], false),
            (json!([{"login": []}]), vec!["header:Authorization:P"], vec!["header:Authorization:P"], false),
            (json!([{"cert": []}]), vec!["bearer:T"], vec![], true),
            (json!([{}, {"token": []}]), vec![], vec![], false),
            (json!([{}, {"token": []}]), vec!["bearer:T"], vec!["bearer:T"], false),
            (json!([]), vec!["bearer:T"], vec![], false),
            (Value::Null, vec!["bearer:T"], vec![], false),
            (json!([{"nobody": []}]), vec!["bearer:T"], vec![], true),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(sent(security.clone(), &given), (expected, lacks), "{security} {given:?}");
        }
    }

    #[test]
    fn document_without_security_gets_all_credentials() {
        let (document, given) = (document(), ["bearer:T".parse().unwrap()]);
        let members = document.as_object().unwrap();
        let security = Security::new(&document, Version::V31, members, false, &given).unwrap();
        assert_eq!(security.of_operation(&Map::new()).unwrap().0.len(), 1);
        assert!(security.unused().is_empty());
        let strict = Security::new(&document, Version::V31, members, true, &given).unwrap();
        assert_eq!(strict.of_operation(&Map::new()).unwrap().0.len(), 0);
        assert!(strict.unused()[0].message.starts_with("bearer:T matches no operation"));
    }

    #[test]
    fn duplicate_credentials_are_rejected() {
        let (document, given) = (document(), ["bearer:T".parse().unwrap(), "basic:u:P".parse().unwrap()]);
        let error = Security::new(&document, Version::V31, document.as_object().unwrap(), true, &given).err().unwrap();
        assert_eq!((error.option, error.pointer.as_str()), (Some("auth"), "/1"));
    }
}
