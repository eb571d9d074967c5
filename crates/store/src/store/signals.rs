//! Signals between the nodes that share one PostgreSQL, over `LISTEN` and `NOTIFY`.
//!
//! A signal is a hint that rows have changed. It contains no data: its receiver reads the rows, which are the truth. A
//! signal may be lost, so every receiver also polls. After a gap, such as a new connection, a receiver is woken once,
//! because anything may have happened.
//!
//! Signals are sent by a task of their own over a connection of their own, never in a transaction that writes: `NOTIFY`
//! holds a lock of the whole database until its transaction has committed. On SQLite, signals are delivered to no other
//! process.
//!
//! To add a kind, add it to `signals/kind.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Db;
use toolpost_core::domain::Tenant;

mod commits;
mod confirmations;
mod hints;
mod kind;
mod listener;
mod outbox;
mod payload;
mod sender;

pub use commits::CommitSignals;
pub use hints::{Hint, HintReceiver, Wakeup};
pub use kind::{KINDS, QueueKey, SessionKey};

use confirmations::Confirmations;
use kind::{Receivers, Signal};
use outbox::Outbox;

/// The channel of `NOTIFY`.
const CHANNEL: &str = "toolpost";
/// The name of the two connections in `pg_stat_activity`.
const APPLICATION: &str = "toolpost-signals";
/// Maximum time for which [`Signals::close`] waits until pending signals are sent.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to the signals of this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Signals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    receivers: Receivers,
    confirmations: Confirmations,
    counts: SignalCounts,
    stop: CancellationToken,
    /// The task that sends signals, once it is started.
    sender: Mutex<Option<JoinHandle<()>>>,
}

/// The counts of signals since the start.
#[derive(Debug, Default)]
pub struct SignalCounts {
    sent: [AtomicU64; KINDS.len()],
    received: [AtomicU64; KINDS.len()],
    reconnects: AtomicU64,
}

impl Signals {
    /// Creates the signals of a process. Nothing is sent or received before [`Signals::start`].
    #[must_use]
    pub fn new(db: &Db) -> Self {
        let is_shared = matches!(db, Db::Postgres(_));
        Self(Arc::new(Inner {
            outbox: Outbox::new(is_shared),
            receivers: Receivers::default(),
            confirmations: Confirmations::default(),
            counts: SignalCounts::default(),
            stop: CancellationToken::new(),
            sender: Mutex::default(),
        }))
    }

    /// Starts to send and to receive signals as this node, until [`Signals::close`]. Does nothing on SQLite.
    pub fn start(&self, db: &Db, node: Arc<str>) {
        let Db::Postgres(pools) = db else { return };
        self.0.confirmations.start(node.clone());
        let sender = tokio::spawn(sender::run(self.clone(), pools.clone(), node.clone()));
        tokio::spawn(listener::run(self.clone(), pools.clone(), node));
        *self.0.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }

    /// Sends the pending signals, and then stops to send and to receive. A process that never started, such as a
    /// command, sends its signals here.
    pub async fn close(&self, db: &Db) {
        self.0.stop.cancel();
        let sender = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        let last = async {
            match (sender, db) {
                (Some(sender), _) => drop(sender.await),
                (None, Db::Postgres(pools)) => sender::send_pending(self, pools).await,
                (None, Db::Sqlite(_)) => {}
            }
        };
        // The other nodes poll if this fails.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, last).await;
    }

    /// Reports that tools, groups, presets, hooks, upstream servers or pins have changed.
    pub fn notify_tools(&self) {
        self.0.outbox.push(Signal::Tools);
    }

    /// Confirms that this node uses the tools and rules of this version.
    pub fn confirm_tools(&self, version: i64) {
        if let Some(node) = self.0.confirmations.node() {
            self.0.outbox.push(Signal::Confirmed { node: node.to_string(), version });
        }
    }

    /// Returns the name of this node if other nodes can confirm changes to it.
    #[must_use]
    pub(super) fn confirming_node(&self) -> Option<&Arc<str>> {
        self.0.confirmations.node().filter(|_| !self.0.stop.is_cancelled())
    }

    /// Waits until these nodes use the tools and rules of this version. Returns `false` if one of them has not confirmed it
    /// in time.
    pub(super) async fn await_confirmed(&self, nodes: &[String], version: i64) -> bool {
        self.0.confirmations.wait(nodes, version).await
    }

    /// Reports that API keys have changed.
    pub fn notify_keys(&self) {
        self.0.outbox.push(Signal::Keys);
    }

    /// Asks the other nodes to return what they do not need of budgets.
    pub fn notify_budgets(&self) {
        self.0.outbox.push(Signal::Budgets);
    }

    /// Reports that a tool was paused or resumed.
    pub fn notify_pauses(&self) {
        self.0.outbox.push(Signal::Pauses);
    }

    /// Reports a new message to a call.
    pub fn notify_inbox(&self, call: Uuid) {
        self.0.outbox.push(Signal::Inbox { call: Some(call) });
    }

    /// Reports that the state of a session has changed. Receivers on this node are notified, too.
    pub fn notify_session(&self, tenant: &Tenant, id: &str) {
        self.0.receivers.sessions.publish(Hint::Of((tenant.clone(), id.into())));
        self.0.outbox.push(Signal::Session { session: Some((tenant.as_str().to_owned(), id.to_owned())) });
    }

    /// Reports that a queue has a call for workers. Receivers on this node are notified, too.
    pub fn notify_work(&self, tenant: &Tenant, queue: &Arc<str>) {
        self.0.receivers.work.publish(Hint::Of((tenant.clone(), queue.clone())));
        self.0.outbox.push(Signal::Work { queue: Some((tenant.as_str().to_owned(), queue.to_string())) });
    }

    /// Reports that the journal of this node has committed. Never waits, and costs little: the signal is sent only if
    /// another node watches commits, and at most once per 5 ms.
    pub fn notify_commits(&self) {
        self.0.outbox.push_commits();
    }

    /// Returns the wake-up for changes of tools by other nodes.
    #[must_use]
    pub fn tools(&self) -> Wakeup {
        self.0.receivers.tools.wakeup()
    }

    /// Returns the wake-up for changes of API keys by other nodes.
    #[must_use]
    pub fn keys(&self) -> Wakeup {
        self.0.receivers.keys.wakeup()
    }

    /// Returns the wake-up for pauses and resumes of tools by other nodes.
    #[must_use]
    pub fn pauses(&self) -> Wakeup {
        self.0.receivers.pauses.wakeup()
    }

    /// Returns the wake-up for budgets and resumes of tools by other nodes.
    #[must_use]
    pub fn budgets(&self) -> Wakeup {
        self.0.receivers.budgets.wakeup()
    }

    /// Returns the calls that have messages of other nodes. A call may be on any node.
    #[must_use]
    pub fn inbox(&self) -> HintReceiver<Uuid> {
        self.0.receivers.inbox.subscribe()
    }

    /// Returns the sessions whose state has changed, on any node.
    #[must_use]
    pub fn sessions(&self) -> HintReceiver<SessionKey> {
        self.0.receivers.sessions.subscribe()
    }

    /// Returns the queues that have a call for workers, of any node.
    #[must_use]
    pub fn work(&self) -> HintReceiver<QueueKey> {
        self.0.receivers.work.subscribe()
    }

    /// Watches the commits of other nodes. Other nodes report their commits only while such a watch exists somewhere.
    #[must_use]
    pub fn commits(&self) -> CommitSignals {
        CommitSignals::new(self)
    }

    /// Returns the counts of signals.
    #[must_use]
    pub fn counts(&self) -> &SignalCounts {
        &self.0.counts
    }

    /// Delivers a signal of another node.
    fn deliver(&self, signal: Signal) {
        self.0.counts.add_received(&signal);
        match signal {
            Signal::Presence { watches } => {
                if watches {
                    self.0.outbox.commits_may_be_watched();
                }
            }
            Signal::Confirmed { node, version } => self.0.confirmations.add(node, version),
            signal => self.0.receivers.deliver(signal),
        }
    }

    /// Wakes all receivers, because signals may have been missed.
    fn deliver_everything(&self) {
        self.0.receivers.deliver(Signal::Everything);
        self.0.outbox.commits_may_be_watched();
    }

    /// Returns the signal by which this node shows that it is present.
    fn presence(&self) -> Signal {
        Signal::Presence { watches: self.0.receivers.commits.has_receivers() }
    }
}

impl SignalCounts {
    /// Returns the number of sent signals of each kind.
    pub fn sent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.sent.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Returns the number of signals of each kind that were received from other nodes.
    pub fn received(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().zip(self.received.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Returns how often the connection that receives signals was established again.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    fn add_sent(&self, signals: &[Signal]) {
        for signal in signals {
            add(&self.sent, signal);
        }
    }

    fn add_received(&self, signal: &Signal) {
        add(&self.received, signal);
    }

    fn add_reconnect(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }
}

fn add(counts: &[AtomicU64; KINDS.len()], signal: &Signal) {
    if let Some(count) = KINDS.iter().position(|kind| *kind == signal.kind()).and_then(|index| counts.get(index)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
