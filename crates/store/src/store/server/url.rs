//! Database URLs of Postgres in the syntax of libpq, with several hosts. No message contains a password.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::store::StoreError;

/// Default timeout for a connection to one of several hosts. A host that drops all packets delays a start so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum of `connect_timeout`, in seconds.
const MAX_CONNECT_TIMEOUT: u64 = 60;

/// Parameters that are passed on to sqlx, which checks their values.
const PASSED_ON: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "application_name",
    "options",
    "dbname",
    "user",
    "password",
];

/// The condition that a server must fulfil, as in libpq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAttrs {
    /// Every server that accepts connections.
    Any,
    /// A server on which transactions can write.
    ReadWrite,
    /// A server that is not a standby.
    Primary,
}

/// One host of the URL.
#[derive(Debug, Clone)]
pub struct Host {
    /// The host and the port, for messages.
    pub name: String,
    /// The options for connections to this host.
    pub options: PgConnectOptions,
}

/// A parsed URL.
#[derive(Debug, Clone)]
pub struct PgUrl {
    /// The hosts in the order of the URL; at least one.
    pub hosts: Vec<Host>,
    /// The condition for the server.
    pub attrs: SessionAttrs,
    /// Timeout for a connection to one host.
    pub connect_timeout: Duration,
}

/// Returns `true` if the URL has a scheme of Postgres.
#[must_use]
pub fn is_postgres(url: &str) -> bool {
    after_scheme(url).is_some()
}

fn after_scheme(url: &str) -> Option<&str> {
    url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))
}

/// The parts of a URL as they are written, percent-encoded.
#[derive(Default)]
struct Parts<'u> {
    login: Option<&'u str>,
    hosts: Vec<(String, Option<u16>)>,
    database: Option<&'u str>,
    passed_on: Vec<&'u str>,
    attrs: Option<SessionAttrs>,
    connect_timeout: Option<Duration>,
}

impl PgUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Returns [`StoreError::PostgresUrl`], which names the invalid part.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let parts = Parts::of(after_scheme(url).unwrap_or(url)).map_err(|fault| StoreError::PostgresUrl { fault })?;
        let attrs = parts.attrs.unwrap_or(match parts.hosts.len() {
            // A standby would refuse the writes of the service, so several hosts mean: the one that accepts them.
            2.. => SessionAttrs::ReadWrite,
            _ => SessionAttrs::Any,
        });
        let hosts = parts.options().map_err(|fault| StoreError::PostgresUrl { fault })?;
        Ok(Self { hosts, attrs, connect_timeout: parts.connect_timeout.unwrap_or(CONNECT_TIMEOUT) })
    }

    /// Returns `true` if the service has to find out which host to use, or whether the only host may be used.
    #[must_use]
    pub fn is_monitored(&self) -> bool {
        self.hosts.len() > 1 || self.attrs != SessionAttrs::Any
    }

    /// Names the application of all connections.
    #[must_use]
    pub fn with_application_name(mut self, name: &str) -> Self {
        for host in &mut self.hosts {
            host.options = host.options.clone().application_name(name).disable_statement_logging();
        }
        self
    }
}

impl<'u> Parts<'u> {
    fn of(rest: &'u str) -> Result<Self, String> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = match rest.split_once('/') {
            Some((authority, database)) => (authority, Some(database).filter(|name| !name.is_empty())),
            None => (rest, None),
        };
        if database.is_some_and(|name| name.contains('@')) {
            return Err("its user name or password has an unencoded `/`; write %2F".to_owned());
        }
        if authority.contains('#') {
            return Err("its user name or password has an unencoded `#`; write %23".to_owned());
        }
        if query.contains('@') && !authority.contains('@') && database.is_none() {
            return Err("its user name or password has an unencoded `?`, or a parameter an unencoded `@`; write %3F \
                        and %40"
                .to_owned());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let hosts = if hosts.is_empty() {
            Vec::new()
        } else {
            hosts.split(',').map(host_and_port).collect::<Result<_, _>>()?
        };
        let mut parts = Self { login, hosts, database, ..Self::default() };
        parts.read_parameters(query)?;
        Ok(parts)
    }

    fn read_parameters(&mut self, query: &'u str) -> Result<(), String> {
        let mut hosts: Option<(&str, Cow<'_, str>)> = None;
        let mut ports: Option<Cow<'_, str>> = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, raw) = pair.split_once('=').ok_or("a parameter has no `=`")?;
            let key = percent_decode_str(key).decode_utf8().map_err(|_| "the name of a parameter is not UTF-8")?;
            let value = || decoded(raw, &key);
            match &*key {
                "target_session_attrs" => self.attrs = Some(attrs(&value()?)?),
                "connect_timeout" => self.connect_timeout = Some(timeout(&value()?)?),
                "host" | "hostaddr" if hosts.is_some() => {
                    return Err("it has more than one `host` or `hostaddr`".to_owned());
                }
                "host" => hosts = Some(("host", value()?)),
                "hostaddr" => hosts = Some(("hostaddr", value()?)),
                "port" => ports = Some(value()?),
                name if PASSED_ON.contains(&name) || name.starts_with("options[") => self.passed_on.push(pair),
                name => return Err(format!("unknown parameter `{name}`")),
            }
        }
        if let Some((key, hosts)) = hosts {
            self.replace_hosts(key, &hosts)?;
        }
        ports.map_or(Ok(()), |ports| self.set_ports(&ports))
    }

    /// Takes the hosts of a parameter instead of those of the authority.
    fn replace_hosts(&mut self, key: &str, list: &str) -> Result<(), String> {
        if key == "hostaddr" && !self.hosts.is_empty() {
            return Err("`hostaddr` next to a host is not supported; write the address as the host".to_owned());
        }
        let ports: Vec<Option<u16>> = self.hosts.iter().map(|(_, port)| *port).collect();
        let names: Vec<&str> = list.split(',').collect();
        let port = |index: usize| match ports.as_slice() {
            [only] => *only,
            several => several.get(index).copied().flatten(),
        };
        if ports.len() > 1 && ports.len() != names.len() {
            return Err(format!("`{key}` has {} hosts, but the part before the path has {}", names.len(), ports.len()));
        }
        let checked = names.iter().enumerate().map(|(index, name)| {
            if name.is_empty() {
                return Err(format!("host {} of `{key}` is empty", index + 1));
            }
            if key == "hostaddr" && name.parse::<std::net::IpAddr>().is_err() {
                return Err(format!("`{name}` of `hostaddr` is not an IP address"));
            }
            Ok(((*name).to_owned(), port(index)))
        });
        self.hosts = checked.collect::<Result<_, String>>()?;
        Ok(())
    }

    /// Takes one port for all hosts, or one for each.
    fn set_ports(&mut self, list: &str) -> Result<(), String> {
        let ports = list.split(',').map(|text| port(text, "parameter `port`")).collect::<Result<Vec<u16>, _>>()?;
        if self.hosts.is_empty() {
            // The default host of libpq's environment variables.
            self.hosts = vec![(PgConnectOptions::new_without_pgpass().get_host().to_owned(), None)];
        }
        if ports.len() != 1 && ports.len() != self.hosts.len() {
            return Err(format!("`port` has {} ports for {} hosts", ports.len(), self.hosts.len()));
        }
        for (index, host) in self.hosts.iter_mut().enumerate() {
            host.1 = ports.get(index).or(ports.first()).copied();
        }
        Ok(())
    }

    /// Returns the options for each host. sqlx reads a URL with one host.
    fn options(&self) -> Result<Vec<Host>, String> {
        let database = self.database.unwrap_or_default();
        let login = self.login.map(|login| format!("{login}@")).unwrap_or_default();
        let query = self.passed_on.join("&");
        if self.hosts.is_empty() {
            let options = options(&format!("postgres:///{database}?{query}"))?;
            let name = format!("{}:{}", options.get_host(), options.get_port());
            return Ok(vec![Host { name, options }]);
        }
        let of_host = |(host, port): &(String, Option<u16>)| {
            // The password file is searched for the host and the port.
            let at = if host.contains([':', '/']) { "localhost" } else { host };
            let port_text = port.map(|port| format!(":{port}")).unwrap_or_default();
            let parsed = options(&format!("postgres://{login}{at}{port_text}/{database}?{query}"))?;
            let options = if host.starts_with('/') { parsed.socket(host) } else { parsed.host(host) };
            let port = port.unwrap_or(options.get_port());
            let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            Ok(Host { name, options: options.port(port) })
        };
        self.hosts.iter().map(of_host).collect()
    }
}

/// Reads a URL with at most one host. The error of sqlx describes the value of one parameter.
fn options(url: &str) -> Result<PgConnectOptions, String> {
    PgConnectOptions::from_str(url).map_err(|error| match error {
        sqlx::Error::Configuration(error) => error.to_string(),
        error => error.to_string(),
    })
}

/// Reads `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or("`[` of an IPv6 address has no `]`")?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("`[{address}]` is not an IPv6 address"));
            }
            (Cow::Borrowed(address), rest)
        }
        None => {
            let (host, rest) = text.find(':').map_or((text, ""), |at| text.split_at(at));
            if rest.matches(':').count() > 1 {
                return Err(format!("`{text}` is not a host with a port; write an IPv6 address in brackets"));
            }
            (decoded(host, "host")?, rest)
        }
    };
    if host.is_empty() {
        return Err("one of its hosts is empty".to_owned());
    }
    match rest.strip_prefix(':') {
        // As in libpq, an empty port is the default port.
        Some("") => Ok((host.into_owned(), None)),
        Some(text) => Ok((host.clone().into_owned(), Some(port(text, &format!("host `{host}`"))?))),
        None if rest.is_empty() => Ok((host.into_owned(), None)),
        None => Err(format!("`{rest}` after `]` is not a port")),
    }
}

fn port(text: &str, of: &str) -> Result<u16, String> {
    // The text is not shown: it is the password in `postgres://USER:PASSWORD`.
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| format!("the port of {of} is not a number from 1 to 65535"))
}

fn decoded<'t>(text: &'t str, of: &str) -> Result<Cow<'t, str>, String> {
    percent_decode_str(text).decode_utf8().map_err(|_| format!("`{of}` is not UTF-8"))
}

fn attrs(value: &str) -> Result<SessionAttrs, String> {
    match value {
        "any" => Ok(SessionAttrs::Any),
        "read-write" => Ok(SessionAttrs::ReadWrite),
        "primary" => Ok(SessionAttrs::Primary),
        "standby" | "prefer-standby" | "read-only" => {
            Err(format!("`target_session_attrs={value}` is not supported, because the service writes; use read-write"))
        }
        _ => Err(format!("`target_session_attrs={value}` is not one of read-write, primary, any")),
    }
}

fn timeout(value: &str) -> Result<Duration, String> {
    let seconds = value.parse::<u64>().ok().filter(|seconds| (1..=MAX_CONNECT_TIMEOUT).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        format!("`connect_timeout={value}` is not a number of seconds from 1 to {MAX_CONNECT_TIMEOUT}")
    })?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
