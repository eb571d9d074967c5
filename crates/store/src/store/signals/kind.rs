//! The kinds of signals, and what each of them wakes. A new kind is a variant of [`Signal`], a name in [`KINDS`], a
//! field of [`Receivers`] and an arm of [`Receivers::deliver`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::hints::{Hint, Hints, Wakeups};
use toolpost_core::domain::Tenant;

/// A session: its tenant and its id.
pub type SessionKey = (Tenant, Arc<str>);

/// A queue of calls for workers: its tenant and its name.
pub type QueueKey = (Tenant, Arc<str>);

/// A hint to the other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Signal {
    /// Anything may have changed. Replaces a number of signals that is too large.
    Everything,
    /// The node is present. Sent periodically.
    Presence {
        /// Whether the node watches the commits of other nodes.
        watches: bool,
    },
    /// The version of the tools has changed.
    Tools,
    /// A node uses the tools and rules of this version.
    Confirmed {
        /// The name of the node.
        node: String,
        /// The version.
        version: i64,
    },
    /// The version of the API keys has changed.
    Keys,
    /// The paused tools have changed.
    Pauses,
    /// A node needs what others hold of a budget.
    Budgets,
    /// A call has a new message.
    Inbox {
        /// The call; `None` for any call.
        call: Option<Uuid>,
    },
    /// The state of a session has changed.
    Session {
        /// The tenant and the id of the session; `None` for any session.
        session: Option<(String, String)>,
    },
    /// A queue has a call for workers.
    Work {
        /// The tenant and the name of the queue; `None` for any queue.
        queue: Option<(String, String)>,
    },
    /// The journal of the node has committed.
    Commits,
}

/// The names of all kinds, for metrics.
pub const KINDS: [&str; 11] = [
    "everything",
    "presence",
    "tools",
    "confirmed",
    "keys",
    "pauses",
    "budgets",
    "inbox",
    "session",
    "work",
    "commits",
];

impl Signal {
    /// Returns the name of the kind, which [`KINDS`] contains.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Presence { .. } => "presence",
            Self::Tools => "tools",
            Self::Confirmed { .. } => "confirmed",
            Self::Keys => "keys",
            Self::Pauses => "pauses",
            Self::Budgets => "budgets",
            Self::Inbox { .. } => "inbox",
            Self::Session { .. } => "session",
            Self::Work { .. } => "work",
            Self::Commits => "commits",
        }
    }

    /// Returns the signal of the same kind that covers all arguments, for when there are too many.
    #[must_use]
    pub fn without_arguments(self) -> Self {
        match self {
            Self::Inbox { .. } => Self::Inbox { call: None },
            Self::Session { .. } => Self::Session { session: None },
            Self::Work { .. } => Self::Work { queue: None },
            other => other,
        }
    }
}

/// The receivers of this node.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    pub tools: Wakeups,
    pub keys: Wakeups,
    pub pauses: Wakeups,
    pub budgets: Wakeups,
    pub commits: Wakeups,
    pub inbox: Hints<Uuid>,
    pub sessions: Hints<SessionKey>,
    pub work: Hints<QueueKey>,
}

impl Receivers {
    /// Wakes the receivers of a signal.
    pub fn deliver(&self, signal: Signal) {
        match signal {
            Signal::Everything => self.deliver_everything(),
            Signal::Presence { .. } | Signal::Confirmed { .. } => {}
            Signal::Tools => self.tools.wake(),
            Signal::Keys => self.keys.wake(),
            Signal::Pauses => self.pauses.wake(),
            Signal::Budgets => self.budgets.wake(),
            Signal::Inbox { call } => self.inbox.publish(call.map_or(Hint::Any, Hint::Of)),
            Signal::Session { session } => {
                let key = session.map(|(tenant, id)| (Tenant::stored(&tenant), id.into()));
                self.sessions.publish(key.map_or(Hint::Any, Hint::Of));
            }
            Signal::Work { queue } => {
                let key = queue.map(|(tenant, name)| (Tenant::stored(&tenant), name.into()));
                self.work.publish(key.map_or(Hint::Any, Hint::Of));
            }
            Signal::Commits => self.commits.wake(),
        }
    }

    fn deliver_everything(&self) {
        // Names every field, so that the compiler finds a forgotten one.
        let Self { tools, keys, pauses, budgets, commits, inbox, sessions, work } = self;
        [tools, keys, pauses, budgets, commits].into_iter().for_each(Wakeups::wake);
        inbox.publish(Hint::Any);
        sessions.publish(Hint::Any);
        work.publish(Hint::Any);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wake_all_signal_wakes_every_receiver() {
        let receivers = Receivers::default();
        let mut wakeups =
            [&receivers.tools, &receivers.keys, &receivers.pauses, &receivers.budgets, &receivers.commits]
                .map(Wakeups::wakeup);
        let (mut inbox, mut sessions) = (receivers.inbox.subscribe(), receivers.sessions.subscribe());
        let mut work = receivers.work.subscribe();
        receivers.deliver(Signal::Everything);
        for wakeup in &mut wakeups {
            wakeup.woken().await;
        }
        assert_eq!((inbox.recv().await, sessions.recv().await), (Hint::Any, Hint::Any));
        assert_eq!(work.recv().await, Hint::Any);
    }

    #[test]
    fn every_kind_has_the_name_of_its_wire_form() {
        let signals = [
            Signal::Everything,
            Signal::Presence { watches: true },
            Signal::Tools,
            Signal::Confirmed { node: "n".to_owned(), version: 1 },
            Signal::Keys,
            Signal::Pauses,
            Signal::Budgets,
            Signal::Inbox { call: Some(Uuid::nil()) },
            Signal::Session { session: None },
            Signal::Work { queue: None },
            Signal::Commits,
        ];
        let names = signals.map(|signal| serde_json::to_value(signal).unwrap()["kind"].as_str().unwrap().to_owned());
        assert_eq!(names, KINDS);
    }
}
