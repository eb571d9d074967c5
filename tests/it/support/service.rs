//! Starting and stopping a service, and adding tools written in Rust. Besides this module, only `store` imports the
//! crate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::event::Emission;
use toolpost::domain::{Clock, ContentBlock, IdGenerator, Time};
use toolpost::executor::Secrets;
use toolpost::store::Store;
use toolpost::tool::{
    BuiltinTool as Tool, InvalidArgument, Json, NoArgs, Run, ToolError, async_tool_fn, blocking_tool_fn, object,
    tool_fn,
};

use super::postgres::{self, citus};

/// The database under a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

/// A tool written in Rust.
pub type BuiltinTool = Tool;

/// Options of a service, apart from its database and port.
#[derive(Default, Clone)]
pub struct Options {
    /// `--tools DIR`.
    pub tools_dir: Option<PathBuf>,
    /// `--workspace DIR`.
    pub workspace: Option<PathBuf>,
    /// `--mcp-servers FILE`.
    pub mcp_servers: Option<PathBuf>,
    /// The values of `--egress-allow`.
    pub egress_allow: Vec<String>,
    /// Tools in addition to the four that always exist.
    pub extra: Vec<BuiltinTool>,
    /// Maximum time that a caller waits for the database, in milliseconds; a minute by default, since the disk of a busy
    /// machine may stand still for seconds.
    pub patience_ms: Option<u64>,
    /// Memory for requests in flight, in MiB.
    pub max_in_flight_mib: Option<usize>,
    /// The key that signs outgoing requests: `whsec_…`.
    pub signing_secret: Option<String>,
    /// A clock that is frozen at this time, with sequential ids.
    pub frozen_at: Option<Time>,
    /// A clock that the test controls.
    pub clock: Option<Clock>,
    /// The source of secrets; the environment by default.
    pub secrets: Option<Secrets>,
    /// Changes any other setting, after all other options.
    pub configure: Option<fn(&mut Config)>,
}

/// A fresh database. A file is deleted with the last handle, and other databases with their cluster.
#[derive(Clone)]
pub struct Database {
    pub url: String,
    _folder: Option<Arc<tempfile::TempDir>>,
}

impl Database {
    /// Creates a database with the tables of this version. It is a copy, which takes less time than to create the tables.
    pub async fn fresh(backend: Backend) -> Self {
        if let (Backend::Postgres, Some(coordinator)) = (backend, citus::coordinator()) {
            return Self::distributed(&coordinator).await;
        }
        static SQLITE: OnceCell<Vec<u8>> = OnceCell::const_new();
        static POSTGRES: OnceCell<String> = OnceCell::const_new();
        match backend {
            Backend::Sqlite => {
                let template = async || std::fs::read(Self::migrated(backend).await.file()).expect("the database");
                let copy = Self::made(backend);
                std::fs::write(copy.file(), SQLITE.get_or_init(template).await).expect("a copy of the database");
                copy
            }
            Backend::Postgres => {
                let template = POSTGRES.get_or_init(async || Self::migrated(backend).await.url).await;
                Self::at(postgres::shared().copy_database(template).await)
            }
        }
    }

    /// Creates a database without tables.
    pub async fn empty(backend: Backend) -> Self {
        tokio::task::spawn_blocking(move || Self::made(backend)).await.expect("an empty database")
    }

    /// Creates a database with the tables of this version, without connections, so that it can be copied.
    async fn migrated(backend: Backend) -> Self {
        let database = Self::empty(backend).await;
        Store::open(&database.url).await.expect("the tables").close().await;
        database
    }

    /// Returns the file of a database on SQLite.
    fn file(&self) -> &Path {
        Path::new(self.url.trim_start_matches("sqlite://"))
    }

    /// Creates a database on Citus with its tables, and distributes them as an operator does.
    async fn distributed(coordinator: &str) -> Self {
        let url = citus::create_database(coordinator).await;
        drop(Store::open(&url).await.expect("the tables"));
        let mut connection = PgConnection::connect(&url).await.expect("the coordinator");
        let script = sqlx::raw_sql(include_str!("../../../deploy/citus/distribute.sql"));
        script.execute(&mut connection).await.expect("distributed tables");
        Self::at(url)
    }

    /// Uses an existing database.
    pub fn at(url: String) -> Self {
        Self { url, _folder: None }
    }

    fn made(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the database");
                let url = format!("sqlite://{}", folder.path().join("toolpost.db").display());
                Self { url, _folder: Some(Arc::new(folder)) }
            }
            Backend::Postgres => Self { url: postgres::shared().create_database(), _folder: None },
        }
    }
}

/// A running service in this process, on 127.0.0.1 with a free port and its own database. Stopped on drop.
pub struct Service {
    address: SocketAddr,
    options: Options,
    database: Database,
    store: Store,
    drain: CancellationToken,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Service {
    /// Starts a service on a fresh database and waits until it is ready.
    pub async fn start(backend: Backend) -> Self {
        Self::start_with(backend, Options::default()).await
    }

    /// Starts a service as [`Service::start`] does, with options.
    pub async fn start_with(backend: Backend, options: Options) -> Self {
        Self::on(Database::fresh(backend).await, options).await
    }

    /// Starts a service on an existing database.
    pub async fn start_at(url: String, options: Options) -> Self {
        Self::on(Database::at(url), options).await
    }

    async fn on(database: Database, options: Options) -> Self {
        let mut config = Config::default();
        config.store.database_url.clone_from(&database.url);
        config.store.patience_ms = options.patience_ms.unwrap_or(60_000);
        // A busy machine would make commits slow, and then events of one node would come from several shards.
        config.store.max_shards = 1;
        config.server.max_in_flight_mib = options.max_in_flight_mib.unwrap_or(config.server.max_in_flight_mib);
        config.egress.allow.clone_from(&options.egress_allow);
        if let Some(folder) = &options.tools_dir {
            config.tools.dir = folder.display().to_string();
        }
        if let Some(folder) = &options.workspace {
            config.workspace.dir = folder.display().to_string();
        }
        if let Some(file) = &options.mcp_servers {
            config.mcp_servers.file = file.display().to_string();
        }
        if let Some(secret) = &options.signing_secret {
            config.server.signing_secret.0.clone_from(secret);
        }
        if let Some(configure) = options.configure {
            configure(&mut config);
        }
        let mut builder = options.extra.iter().cloned().fold(App::builder(config), |builder, tool| builder.tool(tool));
        if let Some(secrets) = options.secrets.clone() {
            builder = builder.secrets(secrets);
        }
        if let Some(time) = options.frozen_at {
            builder = builder.clock(Clock::manual(time), IdGenerator::counted());
        }
        if let Some(clock) = &options.clock {
            builder = builder.clock(clock.clone(), IdGenerator::random());
        }
        let app = builder.start().await.expect("the service starts");
        let store = app.store.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let drain = CancellationToken::new();
        let server = tokio::spawn(toolpost::http::serve(app, listener, drain.clone()));
        Self { address, options, database, store, drain, server: Some(server) }
    }

    /// Stops gracefully (running calls finish), then starts again on the same database with the same options.
    pub async fn restart(mut self) -> Self {
        self.drain.cancel();
        if let Some(server) = self.server.take() {
            server.await.expect("the service does not panic").expect("the service stops well");
        }
        Self::on(self.database.clone(), self.options.clone()).await
    }

    /// Starts another service on the same database with the same options. SQLite allows one service only.
    pub async fn second(&self) -> Self {
        Self::on(self.database.clone(), self.options.clone()).await
    }

    /// Returns the service's own store, for tests that make the database fail.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the URL of the database.
    pub fn database_url(&self) -> &str {
        &self.database.url
    }

    /// Returns the URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
struct TextArgs {
    text: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct NumberArgs {
    n: i64,
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
struct TypedArgs {
    city: String,
    days: Option<u8>,
}

struct StrictTool;

impl toolpost::tool::Tool for StrictTool {
    const NAME: &'static str = "picky";
    type Args = NumberArgs;
    type Output = i64;

    fn validate(&self, args: &NumberArgs) -> Result<(), Vec<InvalidArgument>> {
        if args.n % 2 == 0 { Ok(()) } else { Err(vec![InvalidArgument::at("/n", "must be even")]) }
    }

    async fn call(&self, args: NumberArgs, _: Run) -> Result<i64, ToolError> {
        Ok(args.n)
    }
}

async fn reports(_: NoArgs, run: Run) -> Result<&'static str, ToolError> {
    run.tip("one");
    run.params([("a", json!({"x": 1})), ("list", json!([1, 2]))]);
    run.metadata([("m", json!({"x": 1}))]);
    let content = vec![ContentBlock::Text("half way".into())];
    run.emit(Emission { content, details: object([("step", 1)]) }).await;
    run.tip("two");
    run.params([("a", json!({"y": 2})), ("list", json!([3]))]);
    run.metadata([("m", json!({"y": 2}))]);
    Ok("reported")
}

/// Returns the tools in Rust that `rust_tools.rs` uses:
///
/// - `panics {}`: panics with the message `secret-panic-text`.
/// - `fails {}`: returns an error whose message is `no such city`.
/// - `blocks {text}`: a synchronous body on a blocking thread; returns `text` as text.
/// - `picky {n: integer}`: the schema allows any integer; its own validation rejects odd numbers at `/n` with the
///   message `must be even`; returns `n` as a number.
/// - `reports {}`: not read-only. In this order: status `{tip: "one", params: {"a": {"x": 1}, "list": [1, 2]}, metadata:
///   {"m": {"x": 1}}}`; an emission `{content: [text "half way"], details: {"step": 1}}`; status `{tip: "two", params: {"a":
///   {"y": 2}, "list": [3]}, metadata: {"m": {"y": 2}}}`; returns the text `reported`.
/// - `typed {city: String, days: Option<u8>}`: arguments by `#[derive(JsonSchema, Deserialize)]`; returns `{"city", "days"}`.
pub fn rust_tools() -> Vec<BuiltinTool> {
    vec![
        tool_fn("panics", "Panics.", |_: NoArgs| -> Result<(), ToolError> { panic!("secret-panic-text") }),
        tool_fn("fails", "Fails.", |_: NoArgs| -> Result<(), ToolError> { Err("no such city".into()) }),
        blocking_tool_fn("blocks", "Blocks.", |args: TextArgs, _| Ok(args.text)),
        BuiltinTool::new(StrictTool),
        async_tool_fn("reports", "Reports.", reports),
        tool_fn("typed", "Has typed arguments.", |args: TypedArgs| Ok(Json(args))),
    ]
}
