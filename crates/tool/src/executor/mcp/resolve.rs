//! Resolution of placeholders in the declaration of a server, and the list of its secrets.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::executor::Secrets;
use toolpost_core::domain::process::EnvValue;
use toolpost_core::domain::upstream::{Upstream, UpstreamTransport};

/// Words in names of variables whose values are secret.
const SECRET_WORDS: [&str; 9] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "PRIVATE", "COOKIE", "DSN"];
/// Variables of the service that every program inherits: the variables of the MCP SDKs, and others for temporary
/// files, the language, proxies and certificates.
const INHERITED: [&str; 20] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// A server with resolved placeholders.
pub struct ResolvedServer {
    /// The resolved transport.
    pub reached: ResolvedTransport,
    /// The values to redact.
    pub secrets: Vec<Value>,
}

/// The transport of a server with resolved placeholders.
pub enum ResolvedTransport {
    /// A program on standard input and output.
    Stdio {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The complete environment.
        env: BTreeMap<String, String>,
        /// The working directory.
        cwd: Option<String>,
    },
    /// A Streamable HTTP server.
    Http {
        /// The URL of the server.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Resolves all placeholders of a server.
///
/// # Errors
/// Returns a message, never with a value, if a secret or variable is not set or a variable name is invalid.
pub fn fill(
    upstream: &Upstream,
    secrets: &Secrets,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ResolvedServer, String> {
    let mut resolver = Resolver { expands: upstream.expands, secrets, environment, hidden: Vec::new() };
    let reached = match &upstream.transport {
        UpstreamTransport::Stdio { command, args, env, cwd } => {
            let words = [command].into_iter().chain(args);
            let argv = words.map(|word| resolver.text(word)).collect::<Result<_, _>>()?;
            let inherited = INHERITED.into_iter().filter_map(|name| Some((name.to_owned(), environment(name)?)));
            let mut whole: BTreeMap<String, String> = inherited.collect();
            whole.values().for_each(|value| resolver.hide_credentials(value));
            for (name, value) in env {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err("env: a variable name is invalid".to_owned());
                }
                let value = resolver.value(value, is_secret_name(name))?;
                whole.insert(name.clone(), value);
            }
            let cwd = cwd.as_deref().map(|cwd| resolver.text(cwd)).transpose()?;
            ResolvedTransport::Stdio { argv, env: whole, cwd }
        }
        UpstreamTransport::Http { url, headers } => {
            let url = resolver.text(url)?;
            let headers = headers.iter().map(|(name, value)| Ok((name.clone(), resolver.value(value, true)?)));
            ResolvedTransport::Http { url, headers: headers.collect::<Result<_, String>>()? }
        }
    };
    Ok(ResolvedServer { reached, secrets: resolver.hidden })
}

/// Returns `true` if a variable of this name usually holds a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns the user and password of an address, as used for databases and proxies.
fn user_info(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    rest.rsplit_once('@').map(|(user_info, _)| user_info)
}

struct Resolver<'a> {
    expands: bool,
    secrets: &'a Secrets,
    environment: &'a dyn Fn(&str) -> Option<String>,
    hidden: Vec<Value>,
}

impl Resolver<'_> {
    fn value(&mut self, value: &EnvValue, is_secret: bool) -> Result<String, String> {
        let value = match value {
            EnvValue::Secret(secret) => {
                let value = self.secrets.get(&secret.secret)?;
                self.hide(&value);
                return Ok(value);
            }
            EnvValue::Text(text) => self.text(text)?,
        };
        if is_secret || user_info(&value).is_some() {
            self.hide(&value);
            // In `Bearer …`, the second word alone is a secret as well.
            if let Some((_, credential)) = value.split_once(' ') {
                self.hide(credential);
            }
        }
        Ok(value)
    }

    /// Hides an address that contains a user or password, and these parts on their own.
    fn hide_credentials(&mut self, address: &str) {
        if let Some(user_info) = user_info(address) {
            self.hide(address);
            self.hide(user_info);
        }
    }

    fn hide(&mut self, value: &str) {
        self.hidden.push(Value::String(value.to_owned()));
    }

    /// Resolves `${NAME}`, `${env:NAME}` and `${NAME:-default}`: to the secret of that name, else the variable, else
    /// the default.
    fn text(&mut self, text: &str) -> Result<String, String> {
        if !self.expands {
            return Ok(text.to_owned());
        }
        let (mut resolved, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once("${") {
            resolved.push_str(before);
            let Some((inside, after)) = behind.split_once('}') else {
                rest = &rest[before.len()..];
                break;
            };
            let inside = inside.strip_prefix("env:").unwrap_or(inside);
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            let found =
                self.secrets.get(name).ok().or_else(|| (self.environment)(name)).filter(|found| !found.is_empty());
            if let Some(found) = found {
                self.hide(&found);
                resolved.push_str(&found);
            } else {
                resolved.push_str(default.ok_or_else(|| {
                    format!(
                        "`${{{name}}}` is not set; the operator of this service can set it as TOOLPOST_SECRET_{name} \
                            or {name}"
                    )
                })?);
            }
            rest = after;
        }
        resolved.push_str(rest);
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolpost_core::domain::upstream::{DeclaredServer, read_settings};

    fn resolved(value: Value) -> Result<ResolvedServer, String> {
        let Ok(DeclaredServer::Enabled(upstream)) = read_settings(value.as_object().unwrap(), true) else {
            panic!("{value}")
        };
        let secrets = Secrets::new(|name| (name == "KEY").then(|| "of-a-secret".to_owned()));
        let environment = |name: &str| match name {
            "PATH" => Some("/bin".to_owned()),
            "WHO" => Some("somebody".to_owned()),
            "https_proxy" => Some("http://user:word@proxy:3128".to_owned()),
            "SSL_CERT_FILE" => Some("/ca.pem".to_owned()),
            "DATABASE_URL" => Some("not passed on".to_owned()),
            _ => None,
        };
        fill(&upstream, &secrets, &environment)
    }

    #[test]
    fn placeholders_are_resolved_and_their_values_hidden() {
        let given = resolved(json!({"command": "${BIN:-run}", "args": ["--user=${WHO}", "${", "a${env:WHO}b"],
            "env": {"API_KEY": "plain-key", "MODE": "fast", "K": {"secret": "KEY"}, "DB": "pg://u:p@h/d"}}));
        let ResolvedServer { reached: ResolvedTransport::Stdio { argv, env, .. }, secrets } = given.unwrap() else {
            panic!("a program")
        };
        assert_eq!(argv, ["run", "--user=somebody", "${", "asomebodyb"]);
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [("API_KEY", "plain-key"), ("DB", "pg://u:p@h/d"), ("K", "of-a-secret"), ("MODE", "fast")];
        let proxy = "http://user:word@proxy:3128";
        let inherited = [("PATH", "/bin"), ("SSL_CERT_FILE", "/ca.pem"), ("https_proxy", proxy)];
        assert_eq!(env, [expected.as_slice(), &inherited].concat());
        let own = ["somebody", "somebody", proxy, "user:word", "plain-key", "pg://u:p@h/d", "of-a-secret"];
        assert_eq!(json!(secrets), json!(own));
    }

    #[test]
    fn headers_are_secret_and_missing_variables_are_named() {
        let given =
            resolved(json!({"url": "https://h/${WHO}", "headers": {"Authorization": "Bearer ${KEY}"}})).unwrap();
        let ResolvedTransport::Http { url, headers } = given.reached else { panic!("an address") };
        assert_eq!((url.as_str(), headers["Authorization"].as_str()), ("https://h/somebody", "Bearer of-a-secret"));
        assert!(given.secrets.contains(&json!("Bearer of-a-secret")) && given.secrets.contains(&json!("of-a-secret")));
        let missing = resolved(json!({"command": "${NOWHERE}"})).err().unwrap();
        assert!(missing.contains("${NOWHERE}") && missing.contains("TOOLPOST_SECRET_NOWHERE"), "{missing}");
    }
}
