//! Parser for upstream servers in `mcpServers` objects, in `[upstreams.NAME]` of the settings, and in
//! `POST /upstreams`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Upstream, UpstreamTransport};
use crate::domain::decode::DecodeError;
use crate::domain::json::{pointer_token, type_name};
use crate::domain::process::EnvValue;
use crate::domain::secret::SecretRef;
use crate::domain::tool::OutputCheck;

/// Maximum length of a server name. With a dot and the name of a tool it must fit in a tool name.
const MAX_NAME: usize = 64;
/// All supported members.
const KNOWN: [&str; 15] = [
    "type",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "pin",
    "output_check",
    "disabled",
    "enabled",
    "description",
];

/// A server declared in the settings or in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Declared {
    /// The server is enabled.
    Enabled(Upstream),
    /// The server is disabled.
    Disabled,
}

/// Returns the prefix for the names of a server's tools. Files of other programs can contain any name, so invalid
/// characters become `_`.
///
/// # Errors
/// Returns an error if the name is empty or too long.
pub fn server_name(text: &str) -> Result<String, String> {
    let letter = |letter: char| if is_letter(letter) { letter } else { '_' };
    let name: String = text.trim().chars().map(letter).collect();
    check_name(&name).map(|()| name)
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_letter);
    if is_name { Ok(()) } else { Err(format!("must be 1 to {MAX_NAME} of A-Z, a-z, 0-9, `_` and `-`")) }
}

/// Parses a server of the settings or of a file. Unknown members are rejected if `strict`; files of other programs
/// contain many.
///
/// # Errors
/// Returns an error for the first invalid member.
pub fn read_settings(members: &Map<String, Value>, strict: bool) -> Result<Declared, DecodeError> {
    if let Some(name) = members.keys().find(|name| strict && !KNOWN.contains(&name.as_str())) {
        return Err(fault(format!("/{}", pointer_token(name)), format!("unknown field `{name}`")));
    }
    if flag(members, "disabled")? == Some(true) || flag(members, "enabled")? == Some(false) {
        return Ok(Declared::Disabled);
    }
    let url = ["url", "serverUrl", "httpUrl"].into_iter().find(|name| members.contains_key(*name));
    let is_http = match kind(members)? {
        Some(kind) => kind == Kind::Http,
        None => url.is_some() && !members.contains_key("command"),
    };
    let transport = if is_http {
        let Some(url) = url else { return Err(fault("/url", "is required: the URL of an HTTP server")) };
        UpstreamTransport::Http { url: required(members, url)?, headers: values(members, "headers")? }
    } else {
        let command = required(members, "command").map_err(|error| DecodeError {
            message: format!("{}: a program, or `url` instead", error.message),
            ..error
        })?;
        UpstreamTransport::Stdio {
            command,
            args: args(members)?,
            env: values(members, "env")?,
            cwd: text(members, "cwd")?,
        }
    };
    let upstream = Upstream {
        transport,
        pin: flag(members, "pin")?.unwrap_or(false),
        output_check: output_check(members)?,
        expands: true,
    };
    Ok(Declared::Enabled(upstream))
}

/// Parses a server that is registered over the API, and its name. Only HTTP servers can be registered.
///
/// # Errors
/// Returns an error for the first invalid member.
pub fn read_registered(value: &Value) -> Result<(String, Upstream), DecodeError> {
    let Value::Object(members) = value else {
        return Err(fault("", format!("must be an object, not {}", type_name(value))));
    };
    for name in ["command", "args", "env", "cwd"] {
        if members.contains_key(name) {
            let message = "a server that is a program can only be declared in the settings of the service";
            return Err(fault(format!("/{name}"), message));
        }
    }
    const ACCEPTED: [&str; 7] = ["name", "type", "transport", "url", "headers", "pin", "output_check"];
    if let Some(name) = members.keys().find(|name| !ACCEPTED.contains(&name.as_str())) {
        return Err(fault(format!("/{}", pointer_token(name)), format!("unknown field `{name}`")));
    }
    let name = required(members, "name")?;
    check_name(&name).map_err(|message| fault("/name", message))?;
    if kind(members)? == Some(Kind::Stdio) {
        let place = if members.contains_key("type") { "/type" } else { "/transport" };
        let message =
            "must be \"http\"; a server that is a program can only be declared in the settings of the service";
        return Err(fault(place, message));
    }
    let upstream = Upstream {
        transport: UpstreamTransport::Http { url: required(members, "url")?, headers: values(members, "headers")? },
        pin: flag(members, "pin")?.unwrap_or(false),
        output_check: output_check(members)?,
        expands: false,
    };
    Ok((name, upstream))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
}

fn kind(members: &Map<String, Value>) -> Result<Option<Kind>, DecodeError> {
    for name in ["type", "transport"] {
        let Some(kind) = text(members, name)? else { continue };
        let plain: String = kind.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        return match plain.as_str() {
            "stdio" | "local" => Ok(Some(Kind::Stdio)),
            "http" | "streamablehttp" | "remote" => Ok(Some(Kind::Http)),
            "sse" => Err(fault(
                format!("/{name}"),
                "HTTP+SSE servers of 2024-11-05 are not supported: use the server's Streamable HTTP address (usually \
                 `/mcp` instead of `/sse`) and \"type\": \"http\"",
            )),
            _ => Err(fault(format!("/{name}"), "must be \"stdio\" or \"http\"")),
        };
    }
    Ok(None)
}

fn fault(pointer: impl Into<String>, message: impl Into<String>) -> DecodeError {
    DecodeError { pointer: pointer.into(), message: message.into() }
}

/// Returns a member, or `None` if it is absent or `null`.
fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members.get(name).filter(|value| !value.is_null())
}

fn wrong(name: &str, what: &str, found: &Value) -> DecodeError {
    fault(format!("/{name}"), format!("must be {what}, not {}", type_name(found)))
}

fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, DecodeError> {
    match member(members, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(name, "a string", other)),
    }
}

fn required(members: &Map<String, Value>, name: &str) -> Result<String, DecodeError> {
    let text = text(members, name)?.filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| fault(format!("/{name}"), "is required"))
}

fn flag(members: &Map<String, Value>, name: &str) -> Result<Option<bool>, DecodeError> {
    match member(members, name) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(wrong(name, "true or false", other)),
    }
}

fn output_check(members: &Map<String, Value>) -> Result<OutputCheck, DecodeError> {
    match text(members, "output_check")?.as_deref() {
        None | Some("warn") => Ok(OutputCheck::Warn),
        Some("strict") => Ok(OutputCheck::Strict),
        Some(_) => Err(fault("/output_check", "must be \"warn\" or \"strict\"")),
    }
}

fn args(members: &Map<String, Value>) -> Result<Vec<String>, DecodeError> {
    let args = match member(members, "args") {
        None => return Ok(Vec::new()),
        Some(Value::Array(args)) => args,
        Some(other) => return Err(wrong("args", "an array of strings", other)),
    };
    let read = args.iter().enumerate().map(|(place, argument)| match argument {
        Value::String(argument) if !argument.contains('\0') => Ok(argument.clone()),
        Value::String(_) => Err(fault(format!("/args/{place}"), "must not contain U+0000")),
        other => Err(wrong(&format!("args/{place}"), "a string", other)),
    });
    read.collect()
}

/// Parses texts and secrets by name. An invalid value can be a secret, so it is not quoted in the error.
fn values(members: &Map<String, Value>, name: &str) -> Result<BTreeMap<String, EnvValue>, DecodeError> {
    let found = match member(members, name) {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(found)) => found,
        Some(other) => return Err(wrong(name, "an object", other)),
    };
    let mut values = BTreeMap::new();
    for (key, value) in found {
        let place = || format!("/{name}/{}", pointer_token(key));
        let value = match value {
            Value::String(text) if !text.contains('\0') => EnvValue::Text(text.clone()),
            Value::Number(number) => EnvValue::Text(number.to_string()),
            Value::Bool(flag) => EnvValue::Text(flag.to_string()),
            Value::Object(reference) if reference.len() == 1 => match reference.get("secret").and_then(Value::as_str) {
                Some(secret) => EnvValue::Secret(SecretRef { secret: secret.to_owned() }),
                None => return Err(fault(place(), "must be a string or {\"secret\": \"NAME\"}")),
            },
            _ => return Err(fault(place(), "must be a string or {\"secret\": \"NAME\"}")),
        };
        values.insert(key.clone(), value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Declared, DecodeError> {
        read_settings(value.as_object().unwrap(), false)
    }

    #[test]
    fn files_of_other_programs_are_accepted() {
        let stdio = json!({"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b", "N": 1}, "autoApprove": []});
        let Declared::Enabled(Upstream { transport: UpstreamTransport::Stdio { command, args, env, cwd }, .. }) =
            read(stdio).unwrap()
        else {
            panic!("a program");
        };
        assert_eq!((command.as_str(), args.as_slice(), cwd), ("uvx", ["mcp-server-git".to_owned()].as_slice(), None));
        assert_eq!(env["N"], EnvValue::Text("1".into()));
        for http in [
            json!({"url": "https://h/mcp", "headers": {"Authorization": "Bearer x"}}),
            json!({"type": "http", "url": "https://h/mcp"}),
            json!({"type": "streamable-http", "url": "https://h/mcp"}),
            json!({"transport": "streamableHttp", "httpUrl": "https://h/mcp"}),
            json!({"serverUrl": "https://h/mcp", "disabled": false}),
        ] {
            let read = read(http.clone()).unwrap();
            let Declared::Enabled(Upstream { transport: UpstreamTransport::Http { url, .. }, .. }) = read else {
                panic!("{http}")
            };
            assert_eq!(url, "https://h/mcp");
        }
        assert_eq!(read(json!({"command": "x", "disabled": true})).unwrap(), Declared::Disabled);
        assert_eq!(server_name("My server (1)").unwrap(), "My_server__1_");
        assert!(server_name(" ").is_err() && server_name(&"x".repeat(65)).is_err());
    }

    #[test]
    fn invalid_members_are_reported_with_their_path() {
        for (value, pointer, message) in [
            (json!({}), "/command", "is required"),
            (json!({"type": "http"}), "/url", "is required"),
            (json!({"type": "sse", "url": "https://h/sse"}), "/type", "Streamable HTTP"),
            (json!({"type": "pigeon", "url": "https://h"}), "/type", "\"stdio\" or \"http\""),
            (json!({"command": "x", "args": "y"}), "/args", "an array of strings"),
            (json!({"command": "x", "args": [1]}), "/args/0", "a string"),
            (json!({"command": "x", "env": {"A": ["s3cret"]}}), "/env/A", "{\"secret\": \"NAME\"}"),
            (json!({"command": "x", "output_check": "no"}), "/output_check", "strict"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert_eq!(error.pointer, pointer, "{value}");
            assert!(error.message.contains(message) && !error.message.contains("s3cret"), "{value}: {error}");
        }
        let strict = read_settings(json!({"command": "x", "arsg": []}).as_object().unwrap(), true).unwrap_err();
        assert_eq!(strict.pointer, "/arsg");
    }

    #[test]
    fn programs_cannot_be_registered_over_the_api() {
        let good = json!({"name": "remote", "url": "https://h/mcp", "headers": {"X": {"secret": "KEY"}}, "pin": true});
        let (name, upstream) = read_registered(&good).unwrap();
        assert_eq!((name.as_str(), upstream.pin, upstream.expands), ("remote", true, false));
        for (value, pointer) in [
            (json!({"name": "a", "command": "sh"}), "/command"),
            (json!({"name": "a", "type": "stdio", "url": "https://h"}), "/type"),
            (json!({"name": "a.b", "url": "https://h"}), "/name"),
            (json!({"name": "a"}), "/url"),
            (json!({"name": "a", "url": "https://h", "disabled": true}), "/disabled"),
            (json!([]), ""),
        ] {
            assert_eq!(read_registered(&value).unwrap_err().pointer, pointer, "{value}");
        }
    }
}
