//! Watches all hosts of a URL, and switches the pools to the server that accepts writes.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Postgres;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::choice::{Choice, Fence, choose, fault};
use super::pools::ServerPools;
use super::probe::{Server, Sighting, ask};
use super::url::{Host, PgUrl, SessionAttrs};
use crate::store::StoreError;
use crate::store::timeout::PoolSwitch;

/// Interval between two questions to a host. A promoted server is noticed after this time.
const INTERVAL: Duration = Duration::from_millis(500);

/// The hosts of a URL, each asked by a task of its own, so that an unresponsive host does not delay the others.
#[derive(Debug)]
pub struct Monitor {
    url: PgUrl,
    fence: Fence,
    current: Option<(usize, Server)>,
    sightings: watch::Receiver<Vec<Sighting>>,
    /// The last state that was logged.
    logged: Choice,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// The pools that are switched.
#[derive(Debug)]
pub struct Switches {
    /// The pool for writes.
    pub writer: PoolSwitch<Postgres>,
    /// The pool for queries.
    pub reader: PoolSwitch<Postgres>,
}

impl Monitor {
    /// Asks all hosts and chooses the server to use. Waits for each of them, because an old primary may be the first to
    /// answer.
    ///
    /// # Errors
    /// Returns [`StoreError::NoServer`] if no host can be used.
    pub async fn start(url: PgUrl) -> Result<(Self, ServerPools), StoreError> {
        let (sender, mut sightings) = watch::channel(vec![Sighting::Unknown; url.hosts.len()]);
        let sender = Arc::new(sender);
        let watch_one = |(index, host): (usize, &Host)| {
            let work = watch_host(host.clone(), index, url.attrs, url.connect_timeout, sender.clone());
            AbortOnDropHandle::new(tokio::spawn(work))
        };
        let tasks = url.hosts.iter().enumerate().map(watch_one).collect();
        // The tasks hold the sender, so an error is impossible.
        let _ = sightings.wait_for(|all| !all.contains(&Sighting::Unknown)).await;
        let mut fence = Fence::default();
        let seen = sightings.borrow_and_update().clone();
        let choice = choose(&seen, &mut fence, None);
        let has_stranger = seen.iter().any(|one| fence.is_stranger(one));
        match choice {
            Choice::Host(index, server) if !has_stranger => {
                let pools = ServerPools::new(&url.hosts[index], url.attrs, Some(server));
                let current = Some((index, server));
                Ok((Self { url, fence, current, sightings, logged: choice, _tasks: tasks }, pools))
            }
            choice => Err(StoreError::NoServer { faults: faults(&url.hosts, &seen, fence, &choice) }),
        }
    }

    /// Switches the pools whenever another server has to be used, until the task is aborted.
    pub async fn run(mut self, switches: Switches) {
        while self.sightings.changed().await.is_ok() {
            let seen = self.sightings.borrow_and_update().clone();
            let choice = choose(&seen, &mut self.fence, self.current.map(|(index, _)| index));
            match &choice {
                Choice::Host(index, server) if self.current == Some((*index, *server)) => {}
                Choice::Host(index, server) => {
                    self.current = Some((*index, *server));
                    let pools = ServerPools::new(&self.url.hosts[*index], self.url.attrs, Some(*server));
                    switches.writer.replace(pools.writer);
                    switches.reader.replace(pools.reader);
                }
                Choice::Nothing if !self.has_lost_its_server(&seen) => {}
                Choice::Nothing | Choice::Conflict(..) => {
                    self.current = None;
                    switches.writer.refuse();
                    switches.reader.refuse();
                }
            }
            self.log(choice, &seen);
        }
    }

    /// Returns `true` if the server in use answers that it may no longer be used, or is known to be outdated. A server that
    /// does not answer may still serve its connections, or return soon.
    fn has_lost_its_server(&self, seen: &[Sighting]) -> bool {
        self.current.is_some_and(|(index, server)| {
            matches!(seen.get(index), Some(Sighting::Answered(_))) || self.fence.refuses(&server)
        })
    }

    fn log(&mut self, choice: Choice, seen: &[Sighting]) {
        if choice == self.logged {
            return;
        }
        let reasons = || faults(&self.url.hosts, seen, self.fence, &choice).join("; ");
        match &choice {
            Choice::Host(index, server) => {
                let host = &self.url.hosts[*index].name;
                tracing::warn!(host, timeline = server.timeline, "switched to another database server");
            }
            Choice::Nothing => tracing::warn!(hosts = reasons(), "no database server accepts writes"),
            Choice::Conflict(..) => {
                tracing::error!(hosts = reasons(), "two database servers claim to be the primary; none is used");
            }
        }
        self.logged = choice;
    }
}

/// Asks one host again and again, and records each new answer.
async fn watch_host(
    host: Host,
    index: usize,
    attrs: SessionAttrs,
    limit: Duration,
    sender: Arc<watch::Sender<Vec<Sighting>>>,
) {
    let mut connection = None;
    loop {
        let sighting = ask(&mut connection, &host, attrs, limit).await;
        sender.send_if_modified(|all| match all.get_mut(index) {
            Some(old) if *old != sighting => {
                *old = sighting;
                true
            }
            _ => false,
        });
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns why each host is not used, for messages.
fn faults(hosts: &[Host], seen: &[Sighting], fence: Fence, choice: &Choice) -> Vec<String> {
    let reason = |index: usize, sighting: &Sighting| match choice {
        Choice::Conflict(one, other) if [*one, *other].contains(&index) => {
            Some("it claims to be the primary, like another server on the same timeline".to_owned())
        }
        _ => fault(sighting, fence),
    };
    let named = hosts.iter().zip(seen).enumerate();
    named.filter_map(|(index, (host, one))| Some(format!("{}: {}", host.name, reason(index, one)?))).collect()
}
