//! Servers that are declared in the settings or in an `mcpServers` file, the format of other MCP clients.

use std::collections::BTreeMap;
use std::path::Path;

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use crate::domain::json;
use crate::domain::upstream::{DeclaredServer, Upstream, read_settings, server_name};

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Names of the member with the servers.
const MEMBERS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

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

    fn add(&mut self, name: &str, declared: Result<DeclaredServer, String>) -> Result<(), String> {
        let cleaned =
            server_name(name).map_err(|fault| format!("the name \"{}\" {fault}", json::shorten(name, 100)))?;
        let declared = match declared {
            Ok(DeclaredServer::Disabled) => return Ok(()),
            Ok(DeclaredServer::Enabled(upstream)) => Ok(upstream),
            Err(fault) => Err(fault),
        };
        if self.0.insert(cleaned.clone(), declared).is_some() {
            return Err(format!("duplicate server name \"{cleaned}\""));
        }
        Ok(())
    }
}

/// Reads the member `mcpServers` of a file. Other programs call it `servers` (VS Code), `context_servers` (Zed), or keep it
/// in a member `mcp`.
fn servers_of(path: &Path) -> Result<Map<String, Value>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let value = parse(&bytes)?;
    let Value::Object(mut members) = value else {
        return Err(format!("it must be an object, not {}", json::type_name(&value)));
    };
    match named_servers(&mut members) {
        Some((_, Value::Object(servers))) => Ok(servers),
        Some((name, other)) => Err(format!("its {name} must be an object, not {}", json::type_name(&other))),
        None => Err("it has no \"mcpServers\"".to_owned()),
    }
}

fn named_servers(members: &mut Map<String, Value>) -> Option<(&'static str, Value)> {
    let own = |members: &mut Map<String, Value>| {
        MEMBERS.into_iter().find_map(|name| members.shift_remove(name).map(|servers| (name, servers)))
    };
    own(members).or_else(|| own(members.get_mut("mcp")?.as_object_mut()?))
}

/// Parses JSON, also with comments, commas behind the last member, and a byte order mark, which editors and other
/// programs write.
fn parse(bytes: &[u8]) -> Result<Value, String> {
    const OPTIONS: ParseOptions = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let fault = |error: &dyn std::fmt::Display| format!("it is not valid JSON: {error}");
    let text = std::str::from_utf8(bytes).map_err(|error| fault(&error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let plain = json::parse(text.as_bytes());
    plain.or_else(|_| jsonc_parser::parse_to_serde_value(text, &OPTIONS).map_err(|error| fault(&error)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::upstream::UpstreamTransport;

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
    fn files_as_editors_write_them_are_read() {
        for text in [
            "{\n  // The servers\n  \"servers\": {\"git\": {\"command\": \"uvx\", \"args\": [\"a//b\",],},},\n  \"inputs\": [], /* none */\n}",
            "\u{feff}{\"mcpServers\": {\"git\": {\"command\": \"uvx\", \"args\": [\"a//b\"]}}}",
            "{\"mcp\": {\"servers\": {\"git\": {\"command\": \"uvx\", \"args\": [\"a//b\"]}}}}",
            "{\"context_servers\": {\"git\": {\"command\": \"uvx\", \"args\": [\"a//b\"]}}}\n// end\n",
        ] {
            let Declarations(found) = of_file(text).unwrap();
            let UpstreamTransport::Stdio { args, .. } = &found["git"].as_ref().unwrap().transport else {
                panic!("{text}")
            };
            assert_eq!(json!(args), json!(["a//b"]), "{text}");
        }
        for (text, reason) in [
            ("{'mcpServers': {}}", "not valid JSON"),
            ("{\"mcpServers\": {} \"x\": 1}", "not valid JSON"),
            ("{\"mcpServers\": {}} {}", "not valid JSON"),
            ("{\"servers\": [],}", "its servers must be an object"),
            ("// nothing", "must be an object, not null"),
            (&"[".repeat(100_000), "not valid JSON"),
        ] {
            let error = of_file(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
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
