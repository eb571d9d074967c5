//! A real nginx with the shipped configuration, in its own folder and on its own ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use tokio::net::{TcpSocket, TcpStream};

use super::authority;
use crate::support::fixture::project_file;
use crate::support::{Client, assert_surface, eventually};

/// The header of responses that names the node; after a retry, the last of several.
pub const NODE_HEADER: &str = "x-node";

/// An nginx in front of a service. Stopped on drop.
pub struct Nginx {
    master: Child,
    folder: tempfile::TempDir,
    shipped: Port,
    plain: Port,
}

/// A bound port that never listens. While it is held, the system gives it to no other socket.
struct Port {
    address: SocketAddr,
    _held: TcpSocket,
}

impl Port {
    fn of_its_own() -> Self {
        let held = TcpSocket::new_v4().unwrap();
        held.set_reuseaddr(true).unwrap();
        held.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self { address: held.local_addr().unwrap(), _held: held }
    }
}

impl Nginx {
    /// Starts nginx in front of one service, and waits until it accepts connections.
    pub async fn before(service: &Client) -> Self {
        Self::before_all(&[service]).await
    }

    /// Starts nginx in front of several nodes, to which it forwards the requests in turn, and waits until it accepts
    /// connections.
    pub async fn before_all(nodes: &[&Client]) -> Self {
        let (shipped, plain) = (Port::of_its_own(), Port::of_its_own());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("toolpost.conf"), configuration(nodes, shipped.address)).unwrap();
        fs::write(folder.path().join("nginx.conf"), around(folder.path(), plain.address)).unwrap();
        assert_surface();
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
        let program = program.into_iter().find(|path| Path::new(path).exists()).unwrap_or("nginx");
        let errors = fs::File::create(folder.path().join("errors")).unwrap();
        let master = Command::new(program)
            .args(["-p", path(folder.path()), "-c", path(&folder.path().join("nginx.conf")), "-e", "stderr"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error} (Debian: apt-get install nginx-light)"));
        let address = shipped.address;
        let nginx = Self { master, folder, shipped, plain };
        eventually("nginx", async || TcpStream::connect(address).await.ok()).await;
        nginx
    }

    /// Forwards requests to these nodes from now on, as `nginx -s reload` does. Requests that already run end at their
    /// nodes.
    pub async fn reload(&self, nodes: &[&Client]) {
        let before = self.accepting();
        fs::write(self.folder.path().join("toolpost.conf"), configuration(nodes, self.shipped.address)).unwrap();
        self.signal("HUP");
        eventually("the new configuration of nginx", async || {
            let now = self.accepting();
            (!now.is_empty() && now.iter().all(|worker| !before.contains(worker))).then_some(())
        })
        .await;
    }

    /// Returns the process ids of the workers that accept connections.
    fn accepting(&self) -> Vec<String> {
        let master = self.master.id();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
        let title = |id: &str| fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let workers = children.split_whitespace().filter(|id| {
            let title = title(id);
            title.contains("worker process") && !title.contains("shutting down")
        });
        workers.map(str::to_owned).collect()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.master.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent to nginx");
    }

    /// Returns the URL of the service with its prefix, for a client.
    pub fn url(&self) -> String {
        format!("http://{}/toolpost", self.shipped.address)
    }

    /// Returns a client of the service through the shipped configuration.
    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// Returns a client of the service through a configuration that only forwards requests.
    pub fn plain(&self) -> Client {
        Client::new(&format!("http://{}", self.plain.address))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master stops its workers.
        self.signal("TERM");
        let _ = self.master.wait();
        if thread::panicking() {
            eprintln!("nginx said:\n{}", fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default());
        }
    }
}

/// Reads the shipped configuration.
pub fn shipped() -> String {
    fs::read_to_string(project_file("deploy/nginx/toolpost.conf")).unwrap()
}

/// Returns the shipped configuration with only its addresses replaced.
fn configuration(nodes: &[&Client], listen: SocketAddr) -> String {
    let text = shipped();
    for replaced in ["server 127.0.0.1:8080;", "listen 80;"] {
        assert_eq!(text.matches(replaced).count(), 1, "{replaced}");
    }
    let servers: Vec<String> = nodes.iter().map(|node| format!("server {};", authority(node))).collect();
    text.replace("server 127.0.0.1:8080;", &servers.join(" ")).replace("listen 80;", &format!("listen {listen};"))
}

/// Returns the surrounding configuration: one worker, all files in one folder, a header with the node, and a read timeout
/// of one second instead of a minute, which the shipped configuration must override.
fn around(folder: &Path, plain: SocketAddr) -> String {
    let folder = folder.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders: String = kinds.iter().map(|kind| format!("    {kind}_temp_path {folder}/{kind};\n")).collect();
    format!(
        "daemon off;\nuser root;\npid {folder}/pid;\nerror_log stderr warn;\nevents {{}}\nhttp {{\n    \
         access_log off;\n    add_header {NODE_HEADER} $upstream_addr always;\n{folders}    proxy_read_timeout 1s;\n    \
         include {folder}/toolpost.conf;\n    \
         server {{\n        listen {plain};\n        location / {{ proxy_pass http://toolpost/; }}\n    }}\n}}\n"
    )
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
