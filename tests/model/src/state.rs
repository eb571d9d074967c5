//! What the database, the nodes and the workers know.

/// One more than the highest attempt. A world in which an attempt has this number is not explored further.
pub const MAX_ATTEMPTS: usize = 4;

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Nodes that die.
    pub crashes: u8,
    /// Nodes that are declared lost although they live.
    pub losses: u8,
    /// Statements that fail, or whose answer does.
    pub lost_answers: u8,
    /// Leases that end although the worker is at work.
    pub expiries: u8,
    /// Workers that die with a call.
    pub deaths: u8,
    /// Cancellations.
    pub cancels: u8,
}

/// The work of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub call: usize,
    pub attempt: u8,
    pub worker: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Result(Doing),
    Unknown,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Wait,
    Doing,
    Ended(End),
}

/// A row of `tool_calls`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub status: Status,
    pub node: usize,
    pub attempt: u8,
    pub seq: u8,
}

/// A row of `worker_calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    pub attempt: u8,
    pub held: OfferState,
    pub node: usize,
}

/// The state of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfferState {
    Waiting,
    Claimed { worker: usize },
    Answered,
}

/// A claim of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub call: usize,
    pub attempt: u8,
    pub worker: usize,
}

/// A run of a call at a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub step: Step,
    /// The number of the last event that this run has read or written.
    pub seq: u8,
    /// The last attempt that this run knows to have begun.
    pub attempt: u8,
    pub holder: Holder,
}

/// What a node knows of the worker of its call (`engine::offers::Holder`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    Unknown,
    /// The node has given this attempt to a worker, and may accept the result in memory.
    Claimed(u8),
    /// A result may be stored, so the row decides about this attempt.
    ByRow(u8),
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Offer { attempt: u8, is_first: bool },
    Await { attempt: u8 },
    Run { attempt: u8, is_recorded: bool },
    Refuse(End),
    Settle(End),
    CheckOwner,
    Rejoin,
}

impl Run {
    pub fn at(step: Step, seq: u8) -> Self {
        Self { step, seq, attempt: 0, holder: Holder::Unknown }
    }

    /// Notes that this node has given an attempt to a worker (`Offers::note_claim`).
    pub fn note_claim(&mut self, attempt: u8) {
        if self.holder != Holder::ByRow(attempt) {
            self.holder = Holder::Claimed(attempt);
        }
    }

    /// Returns `true` if this node may accept a result in memory (`Offers::accept`). Otherwise the row decides from now on.
    pub fn accepts(&mut self, attempt: u8) -> bool {
        let may = matches!(self.step, Step::Await { .. } | Step::Run { .. });
        if may && self.holder == Holder::Claimed(attempt) {
            return true;
        }
        if self.holder == Holder::Unknown {
            self.holder = Holder::ByRow(attempt);
        }
        false
    }
}

/// The memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub is_up: bool,
    /// The runs of each call: one, unless a rule is left out.
    pub runs: Vec<Vec<Run>>,
    /// Whether this node may have runs of calls that others have adopted, or own calls that it does not run.
    pub has_unknown_calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Worker {
    Idle,
    /// Waits at a node.
    Waiting(usize),
    Working(Doing),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub rows: Vec<Option<Row>>,
    pub offers: Vec<Option<Offer>>,
    /// The rows of `inbox` of the kind `result`: the end that the call will have.
    pub inbox: Vec<Option<End>>,
    /// The result of each call that a node has stored for its worker.
    pub stored: Vec<Option<Doing>>,
    /// The rows of `nodes`.
    pub leases: Vec<bool>,
    pub nodes: Vec<Node>,
    pub workers: Vec<Worker>,
    /// Statements that take a claim back, and that the server makes later.
    pub late: Vec<Claim>,
    pub faults: Faults,
    /// How often each attempt of each call was given to a worker.
    pub starts: Vec<[u8; MAX_ATTEMPTS]>,
    /// Whether a worker was given a call that had ended.
    pub has_late_start: bool,
}
