//! What a server is given: its texts with what they stand for, and which of them nobody is to see.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::domain::process::EnvValue;
use crate::domain::upstream::{Upstream, UpstreamTransport};
use crate::executor::Secrets;

/// Words in the names of variables whose values are secrets.
const TELLING: [&str; 9] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL", "PRIVATE", "COOKIE", "DSN"];
/// What every program is given of the service's own environment: what MCP's own SDKs give, temporary files and the language,
/// and how it reaches the network: proxies and certificates.
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

/// A server with everything put in.
pub struct ResolvedServer {
    /// How it is reached.
    pub reached: ResolvedTransport,
    /// The values that nobody is to see.
    pub secrets: Vec<Value>,
}

/// How a server is reached, with everything put in.
pub enum ResolvedTransport {
    /// A program.
    Stdio {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its whole environment.
        env: BTreeMap<String, String>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// An address.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Puts everything in.
///
/// # Errors
/// What is not there; never a value.
pub fn fill(
    upstream: &Upstream,
    secrets: &Secrets,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ResolvedServer, String> {
    let mut filler = Resolver { expands: upstream.expands, secrets, environment, hidden: Vec::new() };
    let reached = match &upstream.transport {
        UpstreamTransport::Stdio { command, args, env, cwd } => {
            let mut argv = vec![filler.text(command)?];
            for argument in args {
                argv.push(filler.text(argument)?);
            }
            let inherited = INHERITED.into_iter().filter_map(|name| Some((name.to_owned(), environment(name)?)));
            let mut whole: BTreeMap<String, String> = inherited.collect();
            whole.values().for_each(|value| filler.hide_credentials(value));
            for (name, value) in env {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err("env: there is a name that no variable can have".to_owned());
                }
                let value = filler.value(value, is_telling(name))?;
                whole.insert(name.clone(), value);
            }
            let cwd = cwd.as_deref().map(|cwd| filler.text(cwd)).transpose()?;
            ResolvedTransport::Stdio { argv, env: whole, cwd }
        }
        UpstreamTransport::Http { url, headers } => {
            let url = filler.text(url)?;
            let mut whole = BTreeMap::new();
            for (name, value) in headers {
                whole.insert(name.clone(), filler.value(value, true)?);
            }
            ResolvedTransport::Http { url, headers: whole }
        }
    };
    Ok(ResolvedServer { reached, secrets: filler.hidden })
}

/// Whether a variable of this name holds a secret.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    TELLING.iter().any(|word| name.contains(word))
}

/// The user and the password in an address, as in many of databases and proxies.
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
            // `Bearer …`: the second word alone is the secret as well.
            if let Some((_, credential)) = value.split_once(' ') {
                self.hide(credential);
            }
        }
        Ok(value)
    }

    /// Hides an address with a user or a password, and those themselves.
    fn hide_credentials(&mut self, address: &str) {
        if let Some(user_info) = user_info(address) {
            self.hide(address);
            self.hide(user_info);
        }
    }

    fn hide(&mut self, value: &str) {
        self.hidden.push(Value::String(value.to_owned()));
    }

    /// `${NAME}`, `${env:NAME}` and `${NAME:-default}`: the secret of that name, else the variable, else the default.
    fn text(&mut self, text: &str) -> Result<String, String> {
        if !self.expands {
            return Ok(text.to_owned());
        }
        let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once("${") {
            filled.push_str(before);
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
            match (found, default) {
                (Some(found), _) => {
                    self.hide(&found);
                    filled.push_str(&found);
                }
                (None, Some(default)) => filled.push_str(default),
                (None, None) => {
                    return Err(format!(
                        "`${{{name}}}` is not set; the operator of this service sets it as TOOLPOST_SECRET_{name} or as {name}"
                    ));
                }
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::upstream::{Declared, read_settings};

    fn filled(value: Value) -> Result<ResolvedServer, String> {
        let Ok(Declared::Enabled(upstream)) = read_settings(value.as_object().unwrap(), true) else {
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
    fn texts_are_filled_and_what_was_put_in_is_hidden() {
        let given = filled(json!({"command": "${BIN:-run}", "args": ["--user=${WHO}", "${", "a${env:WHO}b"],
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
    fn every_header_is_a_secret_and_what_is_missing_is_named() {
        let given = filled(json!({"url": "https://h/${WHO}", "headers": {"Authorization": "Bearer ${KEY}"}})).unwrap();
        let ResolvedTransport::Http { url, headers } = given.reached else { panic!("an address") };
        assert_eq!((url.as_str(), headers["Authorization"].as_str()), ("https://h/somebody", "Bearer of-a-secret"));
        assert!(given.secrets.contains(&json!("Bearer of-a-secret")) && given.secrets.contains(&json!("of-a-secret")));
        let missing = filled(json!({"command": "${NOWHERE}"})).err().unwrap();
        assert!(missing.contains("${NOWHERE}") && missing.contains("TOOLPOST_SECRET_NOWHERE"), "{missing}");
    }
}
