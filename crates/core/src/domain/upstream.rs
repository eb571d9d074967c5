//! Declarations of upstream MCP servers, and their parser for `mcpServers` objects, for `[upstreams.NAME]` of the
//! settings, and for `POST /upstreams`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::decode::DecodeError;
use super::json::{pointer_token, type_name};
use super::process::EnvValue;
use super::secret::SecretRef;
use super::tool::OutputCheck;

/// An upstream MCP server. `Debug` does not print its settings, because any of them can be a secret.
#[derive(Clone, PartialEq)]
pub struct Upstream {
    /// The transport.
    pub transport: UpstreamTransport,
    /// Whether a tool whose definition changes is quarantined until it is accepted.
    pub pin: bool,
    /// The effect of a result that does not match the output schema of its tool.
    pub output_check: OutputCheck,
    /// Whether `${NAME}` in texts is replaced by a secret or an environment variable of the service. Only servers
    /// declared in the settings may use this.
    pub expands: bool,
}

/// The transport to an upstream server.
#[derive(Clone, PartialEq)]
pub enum UpstreamTransport {
    /// A program that communicates over standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, in addition to the variables that every program needs.
        env: BTreeMap<String, EnvValue>,
        /// Its working directory. Default: the working directory of the service.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, EnvValue>,
    },
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstream").field("pin", &self.pin).finish_non_exhaustive()
    }
}

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
pub enum DeclaredServer {
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
pub fn read_settings(members: &Map<String, Value>, strict: bool) -> Result<DeclaredServer, DecodeError> {
    if let Some(name) = members.keys().find(|name| strict && !KNOWN.contains(&name.as_str())) {
        return Err(fault(format!("/{}", pointer_token(name)), format!("unknown field `{name}`")));
    }
    if flag(members, "disabled")? == Some(true) || flag(members, "enabled")? == Some(false) {
        return Ok(DeclaredServer::Disabled);
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
    Ok(DeclaredServer::Enabled(upstream))
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
        let pointer = if members.contains_key("type") { "/type" } else { "/transport" };
        let message =
            "must be \"http\"; a server that is a program can only be declared in the settings of the service";
        return Err(fault(pointer, message));
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

/// Reads a member, or returns `None` if it is absent or `null`. `expected` describes its type.
fn member<'a, T>(
    members: &'a Map<String, Value>,
    name: &str,
    expected: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, DecodeError> {
    let Some(value) = members.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let read = read(value).map(Some);
    read.ok_or_else(|| fault(format!("/{name}"), format!("must be {expected}, not {}", type_name(value))))
}

fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, DecodeError> {
    member(members, name, "a string", |value| value.as_str().map(str::to_owned))
}

fn required(members: &Map<String, Value>, name: &str) -> Result<String, DecodeError> {
    let text = text(members, name)?.filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| fault(format!("/{name}"), "is required"))
}

fn flag(members: &Map<String, Value>, name: &str) -> Result<Option<bool>, DecodeError> {
    member(members, name, "true or false", Value::as_bool)
}

fn output_check(members: &Map<String, Value>) -> Result<OutputCheck, DecodeError> {
    match text(members, "output_check")?.as_deref() {
        None | Some("warn") => Ok(OutputCheck::Warn),
        Some("strict") => Ok(OutputCheck::Strict),
        Some(_) => Err(fault("/output_check", "must be \"warn\" or \"strict\"")),
    }
}

fn args(members: &Map<String, Value>) -> Result<Vec<String>, DecodeError> {
    let args = member(members, "args", "an array of strings", Value::as_array)?;
    let read = args.into_iter().flatten().enumerate().map(|(index, argument)| {
        let wrong = |message| fault(format!("/args/{index}"), message);
        let text = argument.as_str().ok_or_else(|| wrong(format!("must be a string, not {}", type_name(argument))))?;
        if text.contains('\0') { Err(wrong("must not contain U+0000".to_owned())) } else { Ok(text.to_owned()) }
    });
    read.collect()
}

/// Parses texts and secrets by name. An invalid value can be a secret, so it is not quoted in the error.
fn values(members: &Map<String, Value>, name: &str) -> Result<BTreeMap<String, EnvValue>, DecodeError> {
    let found = member(members, name, "an object", Value::as_object)?;
    let mut values = BTreeMap::new();
    for (key, value) in found.into_iter().flatten() {
        let value = match value {
            Value::String(text) if !text.contains('\0') => EnvValue::Text(text.clone()),
            Value::Number(number) => EnvValue::Text(number.to_string()),
            Value::Bool(flag) => EnvValue::Text(flag.to_string()),
            other => {
                let reference = other.as_object().filter(|members| members.len() == 1);
                let secret = reference.and_then(|members| members.get("secret")?.as_str());
                let pointer = || format!("/{name}/{}", pointer_token(key));
                let secret = secret.ok_or_else(|| fault(pointer(), "must be a string or {\"secret\": \"NAME\"}"))?;
                EnvValue::Secret(SecretRef { secret: secret.to_owned() })
            }
        };
        values.insert(key.clone(), value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<DeclaredServer, DecodeError> {
        read_settings(value.as_object().unwrap(), false)
    }

    #[test]
    fn files_of_other_programs_are_accepted() {
        let stdio = json!({"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b", "N": 1}, "autoApprove": []});
        let DeclaredServer::Enabled(Upstream {
            transport: UpstreamTransport::Stdio { command, args, env, cwd }, ..
        }) = read(stdio).unwrap()
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
            let DeclaredServer::Enabled(Upstream { transport: UpstreamTransport::Http { url, .. }, .. }) = read else {
                panic!("{http}")
            };
            assert_eq!(url, "https://h/mcp");
        }
        assert_eq!(read(json!({"command": "x", "disabled": true})).unwrap(), DeclaredServer::Disabled);
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
