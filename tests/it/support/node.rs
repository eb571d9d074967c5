//! The real program as a service that can receive signals, be killed, and be restarted on its database.

use std::ops::Deref;

use super::{Backend, Client, Database};
use crate::cli::program::{Home, Program, ProgramOutput};

/// A running `toolpost serve`; dereferences to its [`Client`]. Killed on drop.
pub struct Node {
    program: Option<Program>,
    home: Home,
    database: Database,
    settings: Vec<(String, String)>,
    client: Client,
}

impl Deref for Node {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Node {
    /// Starts a node on a fresh database, with these settings in addition to the defaults of all tests.
    pub async fn start(backend: Backend, settings: &[(&str, &str)]) -> Self {
        Self::on(Database::fresh(backend).await, settings).await
    }

    /// Starts a node on a database that other nodes may use.
    pub async fn on(database: Database, settings: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(owned).collect();
        let mut node =
            Self { program: None, home: Home::new(), database, settings, client: Client::new("http://127.0.0.1:1") };
        node.start_again().await;
        node
    }

    /// Starts another node on the same database with the same settings.
    pub async fn second(&self) -> Self {
        let settings: Vec<_> = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Self::on(self.database.clone(), &settings).await
    }

    /// Starts the program, which must not be running.
    pub async fn start_again(&mut self) {
        assert!(self.program.is_none(), "it runs");
        let mut command = self.home.command(&["serve"]);
        command.env("TOOLPOST_LISTEN", "127.0.0.1:0").env("TOOLPOST_EGRESS_ALLOW", "127.0.0.1");
        command.env("TOOLPOST_DATABASE_URL", &self.database.url);
        // A busy machine would make commits slow.
        command.env("TOOLPOST__STORE__MAX_SHARDS", "1");
        // The disk of a busy machine may not respond for seconds.
        command.env("TOOLPOST__STORE__PATIENCE_MS", "60000");
        // A lost node is noticed soon, but a slow machine does not lose its node.
        command.env("TOOLPOST__NODE__HEARTBEAT_MS", "200").env("TOOLPOST__NODE__LEASE_MS", "3000");
        command.envs(self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let starting = tokio::task::spawn_blocking(move || {
            let mut program = Program::start(&mut command);
            let line = program.out("toolpost listening on ");
            (program, line)
        });
        let (program, line) = starting.await.expect("the program starts");
        self.client = Client::new(line.trim_start_matches("toolpost listening on "));
        self.program = Some(program);
    }

    /// Returns the URL of the database.
    pub fn database_url(&self) -> &str {
        &self.database.url
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.program.as_ref().expect("it runs").id()
    }

    /// Sends the process a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        self.program.as_ref().expect("it runs").signal(name);
    }

    /// Kills the process as a power failure would.
    pub async fn kill(&mut self) {
        self.signal("KILL");
        assert_eq!(self.end().await.code, None);
    }

    /// Waits until the process exits and returns its output.
    pub async fn end(&mut self) -> ProgramOutput {
        let program = self.program.take().expect("it runs");
        tokio::task::spawn_blocking(move || program.end()).await.expect("the program ends")
    }
}
