//! A throwaway PostgreSQL cluster: its own folder, a Unix socket in it, durable as shipped (`fsync` on), except for the shared one,
//! which no test lets crash.
//!
//! Nothing of it survives the test process, not even if that is killed: a shell (the watchdog) reads a pipe that only
//! this process holds open, and when the pipe ends it stops the server and removes the folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, io, thread};

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub mod citus;
mod replica;

pub use replica::url_of;

const USER: &str = "toolpost";

/// The script of the watchdog. Reads until the pipe ends, then resumes frozen processes, stops the server (kills it if
/// necessary) and removes the folder. `$1` is the folder, `$2` the `bin` folder of PostgreSQL.
const WATCHDOG: &str = r#"
while read -r _; do :; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -CONT $(cat "$1/frozen" 2>/dev/null) "$pid" 2>/dev/null
    "$2/pg_ctl" -D "$1/data" -m immediate -t 10 stop || kill -KILL "$pid" 2>/dev/null
fi
# A program that was just being started may still write; it gives up when its folder is gone.
for _ in 1 2 3 4 5; do
    rm -rf "$1" && [ ! -e "$1" ] && exit
    sleep 0.2
done
"#;

const SETTINGS: &str = "
listen_addresses = ''
port = 5432
max_connections = 300
shared_buffers = 64MB
max_wal_size = 256MB
fsync = on
synchronous_commit = on
";

/// Returns whether the programs of the server are installed. The first call says what is left out if not.
///
/// # Panics
/// Panics if they are not installed, and `scripts/test` runs the tests.
pub fn is_installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let is_installed = bin_folder().is_some();
        if !is_installed {
            assert!(env::var_os("TOOLPOST_TEST_PART").is_none(), "{MISSING}");
            // Written to the stream itself, as the library of the tests keeps what a test that passes prints.
            writeln!(io::stderr(), "{MISSING}; the tests that need it are left out and count as passed")
                .expect("stderr");
        }
        is_installed
    })
}

const MISSING: &str =
    "PostgreSQL's server programs (initdb, pg_ctl) are not installed: neither in PATH nor in /usr/lib/postgresql";

/// Returns the cluster that the tests of this binary share. The first call starts it. No test lets it crash, so it need not be
/// durable. With a thousand databases, the launcher of vacuum would start a process ten times a second.
pub fn shared() -> &'static PgCluster {
    static SHARED: OnceLock<PgCluster> = OnceLock::new();
    SHARED.get_or_init(|| PgCluster::with("fsync = off\nfull_page_writes = off\nautovacuum_naptime = 1h\n"))
}

/// A running cluster. Dropping it removes it.
pub struct PgCluster {
    folder: PathBuf,
    bin: PathBuf,
    owner: Option<Owner>,
    databases: AtomicU32,
    frozen: Mutex<Vec<u32>>,
    watchdog: Child,
    lifeline: Option<ChildStdin>,
}

/// The owner of the processes and files if the test runs as root, because PostgreSQL refuses to run as root.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl PgCluster {
    /// Creates a cluster that is durable as shipped, and starts it.
    ///
    /// # Panics
    /// Panics if PostgreSQL is not installed or does not start.
    pub fn start() -> Self {
        Self::with("")
    }

    /// Creates a cluster with more settings, and starts it.
    fn with(settings: &str) -> Self {
        let cluster = Self::prepare();
        let mut initdb = cluster.program("initdb");
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username", USER, "--pgdata"]);
        succeed(initdb.arg(cluster.data()));
        cluster.configure(settings);
        cluster.start_again();
        cluster
    }

    /// Creates the folder of a cluster, and its watchdog.
    fn prepare() -> Self {
        let bin = bin_folder().unwrap_or_else(|| panic!("{MISSING}; begin the test with requires_postgres!()"));
        let owner = Owner::needed();
        let folder = tempfile::Builder::new().prefix("toolpost-pg-").tempdir().expect("a temporary folder").keep();
        if let Some(Owner { uid, gid }) = owner {
            chown(&folder, Some(uid), Some(gid)).expect("a folder that belongs to postgres");
        }
        let mut watchdog = command("sh", owner, &folder)
            .args(["-c", WATCHDOG, "watchdog"])
            .args([&folder, &bin])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        let lifeline = watchdog.stdin.take();
        Self { folder, bin, owner, databases: AtomicU32::new(0), frozen: Mutex::default(), watchdog, lifeline }
    }

    /// Adds the settings to those that are shipped, or that were copied from a primary.
    fn configure(&self, more: &str) {
        let folder = self.folder.display();
        let own = format!("unix_socket_directories = '{folder}'\ninclude = '{folder}/standbys.conf'\n");
        let file = self.data().join("postgresql.conf");
        let shipped = fs::read_to_string(&file).expect("postgresql.conf");
        self.write_standbys("");
        fs::write(&file, shipped + SETTINGS + more + &own).expect("postgresql.conf");
    }

    /// Returns the folder of the cluster's programs.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// Returns the URL of `database`.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@localhost:5432/{database}?host={}", self.folder.display())
    }

    /// Creates an empty database for a test and returns its URL.
    pub fn create_database(&self) -> String {
        let name = self.new_name();
        let mut createdb = self.program("createdb");
        succeed(createdb.arg("--host").arg(&self.folder).args(["--port=5432", "--username", USER, &name]));
        self.url(&name)
    }

    /// Creates a copy of a database without connections and returns its URL. A statement costs less than a process.
    pub async fn copy_database(&self, url: &str) -> String {
        let template = url.split('?').next().and_then(|address| address.rsplit('/').next()).expect("a name");
        let name = self.new_name();
        let mut connection = PgConnection::connect(&self.url("postgres")).await.expect("the cluster");
        // Files are copied in half the processor time of pages, which would pass the log. Before version 15, there is no choice.
        let has_strategies = connection.server_version_num().is_some_and(|version| version >= 150_000);
        let strategy = if has_strategies { "STRATEGY file_copy" } else { "" };
        let create = format!("CREATE DATABASE {name} TEMPLATE {template} {strategy}");
        sqlx::query(AssertSqlSafe(create)).execute(&mut connection).await.expect("a copy");
        connection.close().await.expect("the end of the connection");
        self.url(&name)
    }

    fn new_name(&self) -> String {
        format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed))
    }

    /// Stops the server as a crash would: nothing is flushed, and clients are disconnected.
    pub fn stop_immediate(&self) {
        self.thaw();
        succeed(self.program("pg_ctl").arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]));
    }

    /// Starts the stopped server on the same data, and waits until it accepts connections.
    pub fn start_again(&self) {
        let log = self.folder.join("log");
        let mut start = self.program("pg_ctl");
        start.arg("-D").arg(self.data()).arg("-l").arg(&log).args(["-t", "60", "-w", "start"]);
        // The server inherits standard output, so a pipe would never be closed.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("pg_ctl");
        assert!(status.success(), "PostgreSQL did not start:\n{}", fs::read_to_string(&log).unwrap_or_default());
    }

    /// Freezes all processes of the server: connections stay open without responses. Linux only.
    pub fn freeze(&self) {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // The postmaster is stopped first, so the second pass finds all children that it forked before it stopped.
            let found = self.processes();
            if *frozen == found {
                return;
            }
            let words: Vec<String> = found.iter().map(u32::to_string).collect();
            fs::write(self.folder.join("frozen"), words.join(" ")).expect("the watchdog's list");
            signal("STOP", &found);
            *frozen = found;
            thread::yield_now();
        }
    }

    /// Resumes frozen processes.
    pub fn thaw(&self) {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if !frozen.is_empty() {
            signal("CONT", &frozen);
            frozen.clear();
            fs::remove_file(self.folder.join("frozen")).expect("the watchdog's list");
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn program(&self, name: &str) -> Command {
        command(self.bin.join(name), self.owner, &self.folder)
    }

    /// Returns the postmaster, then its children.
    fn processes(&self) -> Vec<u32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).expect("a running server");
        let postmaster = file.lines().next().and_then(|line| line.parse().ok()).expect("the postmaster's id");
        let all = fs::read_dir("/proc").expect("/proc");
        let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut children: Vec<u32> = ids.filter(|&id| parent_of(id) == Some(postmaster)).collect();
        children.sort_unstable();
        children.insert(0, postmaster);
        children
    }
}

impl Drop for PgCluster {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.watchdog.wait();
    }
}

impl Owner {
    fn needed() -> Option<Self> {
        let number = |arguments: &[&str]| -> u32 {
            let Output { stdout, .. } = succeed(Command::new("id").args(arguments));
            String::from_utf8_lossy(&stdout).trim().parse().expect("a number from id")
        };
        (number(&["-u"]) == 0).then(|| Self { uid: number(&["-u", "postgres"]), gid: number(&["-g", "postgres"]) })
    }
}

/// Builds a command that runs `program` as `owner` in `folder`, without variables such as `PGPORT`.
fn command(program: impl AsRef<std::ffi::OsStr>, owner: Option<Owner>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().env("LC_ALL", "C").stdin(Stdio::null());
    command.env("PATH", env::var_os("PATH").unwrap_or_default());
    if let Some(Owner { uid, gid }) = owner {
        command.uid(uid).gid(gid);
    }
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Sends a signal through the shell, whose `kill` always exists. A process that has already ended is ignored.
fn signal(name: &str, processes: &[u32]) {
    let ids = processes.iter().map(u32::to_string);
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"kill -s "$@" 2>/dev/null"#, "kill", name]).args(ids).status().expect("sh");
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Returns the folder with `initdb` and the server: from `PATH`, otherwise the newest version in Debian's location.
fn bin_folder() -> Option<PathBuf> {
    let on_path = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .filter_map(|folder| fs::canonicalize(folder.join("initdb")).ok()?.parent().map(Path::to_path_buf))
        .find(|folder| folder.join("pg_ctl").exists());
    on_path.or_else(|| newest(Path::new("/usr/lib/postgresql")).ok().flatten())
}

fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    let versions = fs::read_dir(folder)?.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        bin.join("initdb").exists().then_some((version, bin))
    });
    Ok(versions.max().map(|(_, bin)| bin))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn databases_of_the_shared_cluster_are_empty_and_apart() {
        requires_postgres!();
        let (one, other) = (shared().create_database(), shared().create_database());
        assert_ne!(one, other);
        let mut connection = PgConnection::connect(&one).await.unwrap();
        sqlx::query("CREATE TABLE mine (n INT)").execute(&mut connection).await.unwrap();
        let mut connection = PgConnection::connect(&other).await.unwrap();
        let found: Option<String> =
            sqlx::query_scalar("SELECT to_regclass('mine')::text").fetch_one(&mut connection).await.unwrap();
        assert_eq!(found, None);
    }

    #[tokio::test]
    async fn committed_rows_outlive_a_crash_of_the_server() {
        requires_postgres!();
        let cluster = PgCluster::start();
        let url = cluster.create_database();
        let mut connection = PgConnection::connect(&url).await.unwrap();
        sqlx::query("CREATE TABLE kept (n INT)").execute(&mut connection).await.unwrap();
        sqlx::query("INSERT INTO kept VALUES (7)").execute(&mut connection).await.unwrap();

        cluster.stop_immediate();
        assert!(sqlx::query("SELECT 1").execute(&mut connection).await.is_err(), "the connection is cut off");
        assert!(PgConnection::connect(&url).await.is_err(), "nobody listens");

        cluster.start_again();
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let kept: i32 = sqlx::query_scalar("SELECT n FROM kept").fetch_one(&mut connection).await.unwrap();
        assert_eq!(kept, 7);
    }

    #[tokio::test]
    async fn frozen_server_keeps_its_connections_and_answers_once_thawed() {
        requires_postgres!();
        let cluster = PgCluster::start();
        let mut connection = PgConnection::connect(&cluster.create_database()).await.unwrap();
        cluster.freeze();
        let mut question = Box::pin(sqlx::query_scalar::<_, i32>("SELECT 1").fetch_one(&mut connection));
        assert!(timeout(Duration::from_millis(300), &mut question).await.is_err(), "nothing answers");
        cluster.thaw();
        assert_eq!(question.await.unwrap(), 1);
    }

    #[test]
    fn dropped_cluster_leaves_nothing() {
        requires_postgres!();
        let cluster = PgCluster::start();
        let (folder, processes) = (cluster.folder.clone(), cluster.processes());
        drop(cluster);
        assert!(!folder.exists());
        let lives =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains("(postgres) Z "));
        assert!(!processes.iter().any(lives));
    }
}
