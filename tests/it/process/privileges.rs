//! The user of a program, and its Unix sockets without the network.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, succeeded};

/// Connects to the Unix sockets in its arguments (`@` marks an abstract socket) and prints each result.
const CONNECTS: &str = "import socket, sys
for name in sys.argv[1:]:
  address = '\\0' + name[1:] if name.startswith('@') else name
  try:
    with socket.socket(socket.AF_UNIX) as one: one.connect(address)
    print('reached', end=' ')
  except PermissionError: print('denied', end=' ')
  except OSError as error: print(error, end=' ')
";

fn is_root() -> bool {
    // The owner of new files of this process.
    use std::os::unix::fs::MetadataExt;
    tempfile::tempdir().unwrap().path().metadata().unwrap().uid() == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn program_without_the_network_reaches_no_unix_socket() {
    let app = service().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _named = UnixListener::bind(&path).unwrap();
    let name = mark().replace('/', "_");
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let (path, name) = (path.display().to_string(), format!("@{name}"));
    let argv = ["python3", "-c", CONNECTS, &path, &name];
    for (tool, sandbox) in [("denied", "best_effort"), ("required", "required")] {
        app.register(program(tool, &argv, json!({"network": "deny", "sandbox": sandbox}))).await;
        let call = app.call(tool, json!({})).await;
        match call["details"]["sandbox"]["unix_sockets"].as_str() {
            Some("denied") => assert_eq!(succeeded(&call), "denied denied ", "{call:#}"),
            // The kernel does not support seccomp, and the report says so.
            other => assert!(sandbox == "required" || other == Some("not_enforced"), "{call:#}"),
        }
    }
    app.register(program("allowed", &argv, json!({"network": "allow"}))).await;
    let call = app.call("allowed", json!({})).await;
    assert!(succeeded(&call).starts_with("reached "), "{call:#}");
    assert_eq!(call["details"]["sandbox"]["unix_sockets"], "allowed");
    app.register(program("open", &argv, json!({"network": "allow", "sandbox": "off"}))).await;
    assert_eq!(succeeded(&app.call("open", json!({})).await), "reached reached ");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_without_the_network_cannot_bypass_that() {
    let app = service().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _log = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let script = format!(
        "import ctypes, errno, os, socket
def tried(what):
  try: what(); return 'done'
  except PermissionError: return 'denied'
def pair(kind):
  a, b = socket.socketpair(socket.AF_UNIX, kind)
  if kind == socket.SOCK_DGRAM: a.sendto(b'x', '{}')
def ring():
  libc = ctypes.CDLL(None, use_errno=True)
  if libc.syscall(425, 0, 0) < 0 and ctypes.get_errno() == errno.EPERM: raise PermissionError
print(tried(lambda: pair(socket.SOCK_STREAM)), tried(lambda: pair(socket.SOCK_DGRAM)), tried(ring), end='')",
        path.display()
    );
    app.register(program("around", &["python3", "-c", &script], json!({"network": "deny"}))).await;
    let call = app.call("around", json!({})).await;
    if call["details"]["sandbox"]["unix_sockets"] == "denied" {
        assert_eq!(succeeded(&call), "done denied denied", "{call:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_keeps_no_capabilities() {
    let app = service().await;
    for sandbox in ["best_effort", "off"] {
        let call = shell_with(&app, "exec grep ^Cap /proc/self/status", json!({"sandbox": sandbox})).await;
        let lines: Vec<&str> = succeeded(&call).lines().collect();
        assert_eq!(lines.len(), 5, "{call:#}");
        for line in lines {
            // Without root, a process cannot change its bounding set.
            if is_root() || !line.starts_with("CapBnd") {
                assert!(line.ends_with("\t0000000000000000"), "{line}");
            }
        }
        assert_eq!(call["details"]["sandbox"]["no_capabilities"], true, "{call:#}");
    }
    if is_root() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::chown(&file, Some(4321), Some(4321)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        failed(&shell(&app, &format!("cat {}", file.display())).await, "TOOL_EXECUTION_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_runs_as_the_configured_user() {
    let configure: fn(&mut Config) = |config| {
        open(config);
        config.process.user = "4321:1234".into();
    };
    let options = Options { configure: Some(configure), ..Options::default() };
    if !is_root() {
        // Only root can change the user; otherwise the start fails.
        let mut config = Config::default();
        config.store.database_url = "sqlite::memory:".into();
        configure(&mut config);
        let refused = toolpost::app::App::builder(config).start().await.err().map(|error| error.to_string());
        assert!(refused.unwrap().contains("process.user"));
        return;
    }
    let app = App::start_with(Backend::Sqlite, options).await;
    let script = "id -u; id -g; id -G; echo x > file && cat file; grep -h CapBnd /proc/self/status; stat -c %u .";
    for network in ["allow", "deny"] {
        let call = shell_with(&app, script, json!({"network": network})).await;
        let expected = "4321\n1234\n1234\nx\nCapBnd:\t0000000000000000\n4321\n";
        assert_eq!(succeeded(&call), expected, "{call:#}");
        assert_eq!(call["details"]["sandbox"]["uid"], 4321);
    }
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("secret"), "x").unwrap();
    fs::set_permissions(own.path().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    failed(&shell(&app, &format!("cat {}/secret", own.path().display())).await, "TOOL_EXECUTION_ERROR");
    // The program still ends with its call.
    let mark = mark();
    app.register(program("family", &["sh", "-c", "sleep 1000 & wait"], json!({"env": {"MARK": mark}}))).await;
    let call = app.accepted(json!({"name": "family", "wait": "accepted"})).await;
    wait_for_some(&mark, 2).await;
    app.cancel(&call).await;
    wait_for_none(&mark).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_user_is_rejected_at_start() {
    for user in ["root", "0:0", "no_such_user_here", "a:b"] {
        let mut config = Config::default();
        config.store.database_url = "sqlite::memory:".into();
        config.process.user = user.into();
        let refused = toolpost::app::App::builder(config).start().await.err().map(|error| error.to_string());
        assert!(refused.unwrap().starts_with("process.user: "), "{user}");
    }
}
