//! Servers that are declared in the settings or in an `mcpServers` file, the format of other MCP clients.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::domain::json;
use crate::domain::upstream::{Declared, Upstream, read_settings, server_name};

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Servers by name, each valid or with the reason why it is invalid. Disabled servers are omitted.
#[derive(Debug, Default)]
pub struct Declarations(pub BTreeMap<String, Result<Upstream, String>>);

impl Declarations {
    /// Reads the servers of the settings, and of the file if `file` is not blank. An invalid server does not affect the
    /// others.
    ///
    /// # Errors
    /// Returns the reason if the file or a name is invalid.
    pub fn read(settings: &BTreeMap<String, Map<String, Value>>, file: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for (name, members) in settings {
            found.add(name, read_settings(members, true).map_err(|error| error.to_string()))?;
        }
        if !file.trim().is_empty() {
            let path = Path::new(file.trim());
            let fault = |reason: String| format!("{}: {reason}", path.display());
            for (name, members) in servers_of(path).map_err(fault)? {
                let declared = match &members {
                    Value::Object(members) => read_settings(members, false).map_err(|error| error.to_string()),
                    other => Err(format!("must be an object, not {}", json::type_name(other))),
                };
                found.add(&name, declared).map_err(fault)?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, name: &str, declared: Result<Declared, String>) -> Result<(), String> {
        let cleaned =
            server_name(name).map_err(|fault| format!("the name \"{}\" {fault}", json::shorten(name, 100)))?;
        let declared = match declared {
            Ok(Declared::Disabled) => return Ok(()),
            Ok(Declared::Enabled(upstream)) => Ok(upstream),
            Err(fault) => Err(fault),
        };
        if self.0.insert(cleaned.clone(), declared).is_some() {
            return Err(format!("duplicate server name \"{cleaned}\""));
        }
        Ok(())
    }
}

/// Reads the member `mcpServers` of a file, which some programs call `servers`.
fn servers_of(path: &Path) -> Result<Map<String, Value>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let value = json::parse(&bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    let Value::Object(mut members) = value else {
        return Err(format!("it must be an object, not {}", json::type_name(&value)));
    };
    let named = ["mcpServers", "servers"].into_iter().find_map(|name| members.shift_remove(name));
    match named {
        Some(Value::Object(servers)) => Ok(servers),
        Some(other) => Err(format!("its mcpServers must be an object, not {}", json::type_name(&other))),
        None => Err("it has no \"mcpServers\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_file(text: &str) -> Result<Declarations, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        std::fs::write(&path, text).unwrap();
        Declarations::read(&BTreeMap::new(), path.to_str().unwrap())
    }

    #[test]
    fn mcp_json_file_is_parsed_and_invalid_servers_are_skipped() {
        let text = json!({"mcpServers": {"git": {"command": "uvx"}, "old one": {"type": "sse", "url": "https://h/sse"},
            "off": {"command": "x", "disabled": true}, "odd": 5}});
        let Declarations(found) = of_file(&text.to_string()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["git", "odd", "old_one"]);
        assert!(found["git"].is_ok() && found["odd"].is_err());
        assert!(found["old_one"].as_ref().unwrap_err().contains("Streamable HTTP"));
        assert!(of_file("{\"servers\": {}}").unwrap().0.is_empty());
    }

    #[test]
    fn invalid_file_is_reported_with_its_name() {
        for (text, reason) in [
            ("{", "not valid JSON"),
            ("[]", "must be an object"),
            ("{}", "no \"mcpServers\""),
            (r#"{"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "x"}}}"#, "duplicate server name \"a_b\""),
        ] {
            let error = of_file(text).unwrap_err();
            assert!(error.contains(reason) && error.contains("mcp.json"), "{error}");
        }
        assert!(Declarations::read(&BTreeMap::new(), "/nowhere/mcp.json").is_err());
    }

    #[test]
    fn typo_in_the_settings_is_reported() {
        let members = json!({"command": "x", "arg": []});
        let settings = BTreeMap::from([("a".to_owned(), members.as_object().unwrap().clone())]);
        let Declarations(found) = Declarations::read(&settings, "").unwrap();
        assert!(found["a"].as_ref().unwrap_err().contains("/arg"));
    }
}
