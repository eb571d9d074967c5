//! Which version of OpenAPI a document is.

use serde_json::{Map, Value};

use super::ImportError;
use crate::domain::json;

/// What differs between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0: schemas of its own.
    V30,
    /// OpenAPI 3.1, and 3.2 as far as it is the same: JSON Schema 2020-12.
    V31,
}

impl Version {
    /// The version of a document.
    ///
    /// # Errors
    /// What is no OpenAPI document, or one of another version.
    pub fn of(document: &Value) -> Result<(Self, &Map<String, Value>), ImportError> {
        let Value::Object(members) = document else {
            let found = json::type_name(document);
            return Err(ImportError::new("", format!("an OpenAPI document is an object, not {found}")));
        };
        // YAML takes 2.0 for a number.
        let text = |name: &str| match members.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let (name, found) = match (text("openapi"), text("swagger")) {
            (Some(version), _) => ("openapi", version),
            (None, Some(version)) => ("swagger", version),
            (None, None) => {
                let message =
                    "this is no OpenAPI document: it says neither `openapi` nor `swagger`, which hold the version";
                return Err(ImportError::new("", message));
            }
        };
        let is = |version: &str| found == version || found.starts_with(&format!("{version}."));
        let version = match name {
            "swagger" if is("2.0") || found == "2" => Self::V2,
            "openapi" if is("3.0") => Self::V30,
            "openapi" if is("3.1") || is("3.2") => Self::V31,
            _ => {
                let message = format!("{name} \"{}\" is not known; 2.0, 3.0 and 3.1 are", json::shorten(&found, 40));
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
            assert_eq!(Version::of(&document).unwrap().0, version);
        }
        for (document, pointer) in [
            (json!([]), ""),
            (json!({}), ""),
            (json!({"openapi": {}}), ""),
            (json!({"swagger": "1.2"}), "/swagger"),
            (json!({"openapi": "4.0.0"}), "/openapi"),
            (json!({"openapi": "2.0"}), "/openapi"),
        ] {
            assert_eq!(Version::of(&document).unwrap_err().pointer, pointer, "{document}");
        }
    }
}
