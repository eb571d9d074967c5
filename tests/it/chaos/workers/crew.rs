//! Worker processes. Each one reaches every node over a network of its own, and notes its runs in a file.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::super::WorkNotes;
use crate::oracle::PostedResult;
use crate::support::counter::Run;
use crate::support::fixture::project_file;
use crate::support::killable::Killable;
use crate::support::network::{Network, NetworkState};
use crate::support::tcp_proxy::TcpProxy;

/// The number of runs after which the numbers of another process begin.
const NUMBERS: usize = 100_000;

/// The workers of a scene. Killed on drop.
pub struct Crew {
    workers: Vec<Worker>,
    folder: tempfile::TempDir,
}

struct Worker {
    child: Option<Child>,
    /// The network to each node.
    networks: Vec<Network>,
    proxies: Vec<TcpProxy>,
}

/// A call whose worker keeps it until [`Crew::release`].
#[derive(Debug, Clone)]
pub struct HeldCall {
    pub worker: usize,
    /// The number of the run.
    pub number: usize,
    /// The id of the call.
    pub id: String,
    /// The idempotency key of its request.
    pub key: String,
}

impl Crew {
    /// Starts workers of these nodes.
    pub async fn start(nodes: &[Killable], count: usize) -> Self {
        let mut crew = Self { workers: Vec::new(), folder: tempfile::tempdir().unwrap() };
        for number in 0..count {
            let networks: Vec<Network> = nodes.iter().map(|_| Network::whole()).collect();
            let mut proxies = Vec::new();
            for (node, network) in nodes.iter().zip(&networks) {
                proxies.push(TcpProxy::over(node.address(), network).await);
            }
            crew.workers.push(Worker { child: None, networks, proxies });
            crew.launch(number);
        }
        crew
    }

    /// Starts a worker that does not run. Its name is that of the process before.
    pub fn launch(&mut self, number: usize) {
        let (lives, holding) = (self.notes_of(number).count(), self.holding());
        let worker = &mut self.workers[number];
        assert!(worker.child.is_none(), "it runs already");
        let notes = self.folder.path().join(format!("worker-{number}.{lives}"));
        fs::File::create_new(&notes).unwrap();
        let first = (number * 1_000 + lives) * NUMBERS;
        let mut command = Command::new("python3");
        command.arg("-I").arg(project_file("tests/it/chaos/workers/worker.py"));
        command.arg(format!("worker-{number}")).arg(first.to_string()).arg(notes).arg(holding);
        command.args(worker.proxies.iter().map(TcpProxy::address)).stdin(Stdio::null()).stdout(Stdio::null());
        worker.child = Some(command.spawn().expect("python3 runs"));
    }

    /// Kills a worker with SIGKILL, also a stopped one.
    pub fn kill(&mut self, number: usize) {
        let mut child = self.workers[number].child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a worker a signal, such as `STOP`.
    pub fn signal(&self, number: usize, name: &str) {
        let id = self.workers[number].child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Sets the state of a worker's networks to all nodes.
    pub fn connect(&self, number: usize, state: NetworkState) {
        self.workers[number].networks.iter().for_each(|network| network.set(state));
    }

    /// Sets the state of a worker's network to one node.
    pub fn connect_to(&self, number: usize, node: usize, state: NetworkState) {
        self.workers[number].networks[node].set(state);
    }

    /// Lets workers keep the first attempts of calls with the route `hold`.
    pub fn hold(&self) {
        fs::write(self.holding(), "").unwrap();
    }

    /// Lets workers finish all calls that they hold.
    pub fn release(&self) {
        fs::remove_file(self.holding()).unwrap();
    }

    /// Returns the held call of this key.
    pub fn held(&self, key: &str) -> Option<HeldCall> {
        let of = |(worker, line): (usize, Value)| {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            Some(HeldCall { worker, number: number_of(&line["held"])?, id: text("id"), key: text("key") })
        };
        self.lines().filter_map(of).find(|held| held.key == key)
    }

    /// Returns whether the result of a run was ignored, once its worker has a response.
    pub fn was_ignored(&self, number: usize) -> Option<bool> {
        self.noted().posted.into_iter().find(|posted| posted.number == number).map(|posted| posted.is_ignored)
    }

    /// Kills all workers and returns what they have noted.
    pub fn finish(mut self) -> WorkNotes {
        for worker in &mut self.workers {
            let status = worker.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert_eq!(status, None, "a worker has ended");
        }
        (0..self.workers.len()).for_each(|number| self.kill(number));
        self.noted()
    }

    fn noted(&self) -> WorkNotes {
        let mut noted = WorkNotes { runs: Vec::new(), posted: Vec::new() };
        for (_, line) in self.lines() {
            let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
            if let Some(number) = number_of(&line["run"]) {
                let attempt = line["attempt"].as_u64().unwrap_or_default();
                noted.runs.push(Run { number, id: text("id"), name: text("name"), attempt });
            } else if let Some(number) = number_of(&line["posted"]) {
                let status = line["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or_default();
                let (is_ignored, is_first) = (line["ignored"] == true, line["is_first"] == true);
                noted.posted.push(PostedResult { number, id: text("id"), status, is_ignored, is_first });
            }
        }
        noted
    }

    /// Reads the notes of all workers, with their numbers. The end of a file may be a line that is being written.
    fn lines(&self) -> impl Iterator<Item = (usize, Value)> {
        let files = (0..self.workers.len()).flat_map(|number| self.notes_of(number).map(move |path| (number, path)));
        files.flat_map(|(number, path)| {
            let text = fs::read_to_string(path).unwrap();
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            whole.lines().map(|line| (number, serde_json::from_str(line).expect("a note"))).collect::<Vec<_>>()
        })
    }

    /// Returns the files of a worker's processes so far.
    fn notes_of(&self, number: usize) -> impl Iterator<Item = PathBuf> {
        let folder = self.folder.path().to_owned();
        (0..).map(move |life| folder.join(format!("worker-{number}.{life}"))).take_while(|path| path.exists())
    }

    /// Returns the file whose existence lets workers hold calls.
    fn holding(&self) -> PathBuf {
        self.folder.path().join("holding")
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in self.workers.iter_mut().filter_map(|worker| worker.child.as_mut()) {
            // It may have ended.
            let _ = (child.kill(), child.wait());
        }
    }
}

fn number_of(value: &Value) -> Option<usize> {
    value.as_u64()?.try_into().ok()
}
