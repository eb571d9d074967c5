//! The OpenAPI version of a document.

use serde_json::{Map, Value};

use super::ImportError;
use crate::domain::json;

/// The supported versions, as far as they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0, which has its own schema dialect.
    V30,
    /// OpenAPI 3.1, and the compatible part of 3.2: JSON Schema 2020-12.
    V31,
}

impl Version {
    /// Returns the version and the members of a document.
    ///
    /// # Errors
    /// Returns an [`ImportError`] if it is not an OpenAPI document or its version is not supported.
    pub fn detect(document: &Value) -> Result<(Self, &Map<String, Value>), ImportError> {
        let Value::Object(members) = document else {
            let found = json::type_name(document);
            return Err(ImportError::new("", format!("an OpenAPI document must be an object, not {found}")));
        };
        // YAML parses an unquoted 2.0 as a number.
        let text = |name: &str| match members.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let (name, found) = match (text("openapi"), text("swagger")) {
            (Some(version), _) => ("openapi", version),
            (None, Some(version)) => ("swagger", version),
            (None, None) => {
                let message = "not an OpenAPI document: it has no version in `openapi` or `swagger`";
                return Err(ImportError::new("", message));
            }
        };
        let is = |version: &str| found == version || found.starts_with(&format!("{version}."));
        let version = match name {
            "swagger" if is("2.0") || found == "2" => Self::V2,
            "openapi" if is("3.0") => Self::V30,
            "openapi" if is("3.1") || is("3.2") => Self::V31,
            _ => {
                let message = format!("{name} \"{}\" is not supported; use 2.0, 3.0 or 3.1", json::shorten(&found, 40));
                return Err(ImportError::new(format!("/{name}"), message));
            }
        };
        Ok((version, members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_detected() {
        for (document, version) in [
            (json!({"swagger": "2.0"}), Version::V2),
            (json!({"swagger": 2.0}), Version::V2),
            (json!({"openapi": "3.0.3"}), Version::V30),
            (json!({"openapi": "3.1.0"}), Version::V31),
            (json!({"openapi": 3.1}), Version::V31),
        ] {
            assert_eq!(Version::detect(&document).unwrap().0, version);
        }
        for (document, pointer) in [
            (json!([]), ""),
            (json!({}), ""),
            (json!({"openapi": {}}), ""),
            (json!({"swagger": "1.2"}), "/swagger"),
            (json!({"openapi": "4.0.0"}), "/openapi"),
            (json!({"openapi": "2.0"}), "/openapi"),
        ] {
            assert_eq!(Version::detect(&document).unwrap_err().pointer, pointer, "{document}");
        }
    }
}
