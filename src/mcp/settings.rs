//! The settings of the endpoint: the hosts under which clients may reach it, the origins of web pages, and sessions.

/// Host names of this machine for local clients.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The settings of the endpoint.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Allowed host names in addition to those of this machine; `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Allowed origins of web pages, in addition to those of the allowed hosts.
    pub allowed_origins: Vec<String>,
    /// Maximum number of sessions; 0 disables sessions.
    pub sessions: usize,
}

impl Settings {
    /// Returns `true` if clients may use any host name.
    #[must_use]
    pub fn allows_any_host(&self) -> bool {
        self.allowed_hosts.iter().any(|host| host == "*")
    }

    /// Returns all allowed host names.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        LOOPBACK.iter().map(|host| (*host).to_owned()).chain(self.allowed_hosts.iter().cloned()).collect()
    }

    /// Returns the origins of web pages on the allowed hosts, and the additional origins.
    pub(super) fn origins(&self) -> Vec<String> {
        let hosts = self.hosts();
        let of_hosts = hosts.iter().filter(|host| *host != "*").flat_map(|host| {
            let is_bare_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
            let host = if is_bare_ipv6 { format!("[{host}]") } else { host.clone() };
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let any_port = if has_port { "" } else { ":*" };
            ["http", "https"].map(|scheme| format!("{scheme}://{host}{any_port}"))
        });
        of_hosts.chain(self.allowed_origins.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_host_origins_are_allowed() {
        let allowed_hosts = ["2001:db8:1:2:3:4:5:6", "tools.example.com", "a.example:8443", "*"].map(str::to_owned);
        let allowed_origins = vec!["https://app.example".to_owned()];
        let settings = Settings { allowed_hosts: allowed_hosts.to_vec(), allowed_origins, ..Settings::default() };
        let origins = settings.origins();
        for origin in [
            "http://localhost:*",
            "https://[::1]:*",
            "http://[2001:db8:1:2:3:4:5:6]:*",
            "https://tools.example.com:*",
            "https://a.example:8443",
            "https://app.example",
        ] {
            assert!(origins.iter().any(|one| one == origin), "{origin} in {origins:?}");
        }
        assert!(!origins.iter().any(|one| one.contains("//*")), "{origins:?}");
    }
}
