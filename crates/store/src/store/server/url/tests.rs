use super::*;

fn parsed(url: &str) -> PgUrl {
    PgUrl::parse(url).unwrap()
}

fn names(url: &str) -> Vec<String> {
    parsed(url).hosts.into_iter().map(|host| host.name).collect()
}

fn fault(url: &str) -> String {
    PgUrl::parse(url).unwrap_err().to_string()
}

#[test]
fn hosts_and_ports_are_read_as_in_libpq() {
    for (url, expected) in [
        ("postgres://a:5433,b:6432/db", vec!["a:5433", "b:6432"]),
        ("postgresql://u:p@a,b:6432,c/db", vec!["a:5432", "b:6432", "c:5432"]),
        ("postgres://[::1]:5433,[fe80::2]/db", vec!["[::1]:5433", "[fe80::2]:5432"]),
        ("postgres:///db?host=a,b&port=1", vec!["a:1", "b:1"]),
        ("postgres:///db?host=a,b&port=1,2", vec!["a:1", "b:2"]),
        ("postgres:///db?hostaddr=10.0.0.1,::1", vec!["10.0.0.1:5432", "[::1]:5432"]),
        ("postgres://localhost:7/db?host=/run/a,/run/b", vec!["/run/a:7", "/run/b:7"]),
        ("postgres://%2Frun%2Fa/db", vec!["/run/a:5432"]),
        ("postgres://a:/db", vec!["a:5432"]),
    ] {
        assert_eq!(names(url), expected, "{url}");
    }
}

#[test]
fn every_host_has_the_login_database_and_parameters() {
    let url = parsed("postgres://u%40x:p%2Fw@a,b:6432/d?sslmode=disable&application_name=n&connect_timeout=7");
    let hosts: Vec<_> = url.hosts.iter().map(|host| (host.options.get_host(), host.options.get_port())).collect();
    assert_eq!(hosts, [("a", 5432), ("b", 6432)]);
    assert_eq!(url.connect_timeout, Duration::from_secs(7));
    for Host { options, .. } in &url.hosts {
        assert_eq!((options.get_username(), options.get_database()), ("u@x", Some("d")));
        assert_eq!(options.get_application_name(), Some("n"));
        assert!(matches!(options.get_ssl_mode(), sqlx::postgres::PgSslMode::Disable));
        assert!(options.to_url_lossy().as_str().contains("p%2Fw"), "the password");
    }
    let socket = parsed("postgres://u@localhost:7/d?host=/run/a&user=other&dbname=e");
    let options = &socket.hosts[0].options;
    assert_eq!(options.get_socket().unwrap().to_str(), Some("/run/a"));
    assert_eq!((options.get_username(), options.get_database()), ("other", Some("e")));
}

#[test]
fn several_hosts_select_the_writable_one() {
    for (url, expected, is_monitored) in [
        ("postgres://a/d", SessionAttrs::Any, false),
        ("postgres://a,b/d", SessionAttrs::ReadWrite, true),
        ("postgres://a/d?target_session_attrs=primary", SessionAttrs::Primary, true),
        ("postgres://a,b/d?target_session_attrs=any", SessionAttrs::Any, true),
        ("postgres://a/d?target_session_attrs=read-write", SessionAttrs::ReadWrite, true),
    ] {
        assert_eq!((parsed(url).attrs, parsed(url).is_monitored()), (expected, is_monitored), "{url}");
    }
}

#[test]
fn invalid_part_is_named_and_no_password_is_shown() {
    for (url, part) in [
        ("postgres://u:secret@a:x,b/d", "the port of host `a` is not a number from 1 to 65535"),
        ("postgres://u:secret@a:0/d", "the port of host `a`"),
        ("postgres://u:secret", "the port of host `u`"),
        ("postgres://u:secret@a,,b/d", "one of its hosts is empty"),
        ("postgres://u:secret@::1/d", "write an IPv6 address in brackets"),
        ("postgres://u:secret@[::1/d", "has no `]`"),
        ("postgres://u:secret@[a]/d", "`[a]` is not an IPv6 address"),
        ("postgres://u:secret@[::1]5/d", "`5` after `]`"),
        ("postgres://u:sec/ret@a/d", "unencoded `/`"),
        ("postgres://u:sec?ret@a/d", "unencoded `?`"),
        ("postgres://u:sec#ret@a/d", "unencoded `#`"),
        ("postgres://u:secret@a/d?keepalives=1", "unknown parameter `keepalives`"),
        ("postgres://u:secret@a/d?sslmode", "a parameter has no `=`"),
        ("postgres://u:secret@a/d?sslmode=often", "often"),
        ("postgres://u:secret@a,b/d?port=1,2,3", "`port` has 3 ports for 2 hosts"),
        ("postgres://u:secret@a,b/d?port=1,x", "the port of parameter `port`"),
        ("postgres://u:secret@a,b/d?host=c,d,e", "`host` has 3 hosts"),
        ("postgres:///d?host=c,&password=secret", "host 2 of `host` is empty"),
        ("postgres:///d?hostaddr=c&password=secret", "`c` of `hostaddr` is not an IP address"),
        ("postgres://u:secret@a/d?hostaddr=1.2.3.4", "`hostaddr` next to a host"),
        ("postgres:///d?host=a&host=b&password=secret", "more than one `host`"),
        ("postgres://u:secret@a/d?target_session_attrs=standby", "because the service writes"),
        ("postgres://u:secret@a/d?target_session_attrs=best", "`target_session_attrs=best` is not one of"),
        ("postgres://u:secret@a/d?connect_timeout=0", "`connect_timeout=0` is not a number of seconds from 1 to 60"),
    ] {
        let fault = fault(url);
        assert!(fault.starts_with("invalid database URL: ") && fault.contains(part), "{url}: {fault}");
        assert!(!fault.contains("sec") || fault.contains("seconds"), "{fault}");
    }
}
