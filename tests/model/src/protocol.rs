//! The protocol of calls that workers run, as a state machine: the rows of the database, what each node and worker remembers, and every
//! step that one of them can take.
//!
//! A step is one statement of the database with what its node does at the answer. Steps of different nodes interleave in every order, so
//! that a node may stand still at any point, for as long as it likes. The database is linearizable.

use std::fmt::Debug;

use stateright::{Model, Property};

use crate::state::{
    Claim, Doing, End, Faults, Holder, MAX_ATTEMPTS, Node, Offer, OfferState, Row, Run, State, Status, Step, Worker,
};

/// The rules that a model can leave out, to show that the exploration finds the fault that each of them prevents.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Only the owner of a call that has not ended offers it (`write_offers`).
    pub offers_need_the_owner: bool,
    /// A node that was declared lost adopts nothing before its runs of calls that others own have ended (`Recovery::adopt_lost`).
    pub adoption_awaits_foreign_runs: bool,
    /// The claim of a worker that waits is stored with the start of its attempt, or not at all (`CallRun::start_with_claim`).
    pub starts_have_their_claims: bool,
    /// A lease expires only after the start of its attempt is recorded (`Stores::expire_lease`).
    pub expiry_needs_the_start: bool,
    /// A call has one stored result, also that it has none (the unique index of `inbox`).
    pub results_are_unique: bool,
    /// An offer that nobody has claimed is withdrawn before its call ends (`WorkerPermits::or_withdraw`, `LastResult::find_worker`).
    pub end_withdraws_the_offer: bool,
    /// The offer of a call that ends without a result is deleted right before its end (`Settler::delete_offer`).
    pub end_deletes_the_offer: bool,
    /// A call that is resumed ends with the result that is stored, if one is (`Recovery::resume` reads the inbox first).
    pub stored_results_come_first: bool,
    /// A node that has adopted a call becomes the owner of its offer only while it owns the call (`Stores::take_over_offers`).
    pub takeover_is_one_statement: bool,
}

impl Rules {
    /// The rules of the code.
    pub const ALL: Self = Self {
        offers_need_the_owner: true,
        adoption_awaits_foreign_runs: true,
        starts_have_their_claims: true,
        expiry_needs_the_start: true,
        results_are_unique: true,
        end_withdraws_the_offer: true,
        end_deletes_the_offer: true,
        stored_results_come_first: true,
        takeover_is_one_statement: true,
    };
}

/// A world to explore.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// For each call, whether its tool may run again.
    pub repeatable: Vec<bool>,
    pub nodes: usize,
    pub workers: usize,
    pub faults: Faults,
    pub rules: Rules,
}

/// What becomes of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is made, and its sender is answered.
    Done,
    /// It is made, and the answer is lost.
    Unanswered,
    /// It is not made, and its sender knows.
    Failed,
    /// Its sender gives up, and the server makes it later.
    Delayed,
}

/// A step. `run` is the index of one of the node's runs of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client posts a call (`accept`).
    Accept { node: usize, call: usize },
    /// A node starts an attempt that a worker gets which waits at it (`WorkerPermits::start`). Unless it is `Done`, the worker is gone
    /// after the commit: the statement that gives the call back fails, or comes later.
    Start { node: usize, call: usize, run: usize, worker: usize, sent: Fate },
    /// A node writes an offer (`OfferWriter::write`).
    Offer { node: usize, call: usize, run: usize, sent: Fate },
    /// The server makes a statement whose sender has given up.
    Late { claim: Claim },
    /// A worker asks a node for a call.
    Poll { worker: usize, node: usize },
    /// A node gives a waiting call to a worker that waits at it (`Stores::claim`). With `Delayed`, the worker is gone, and the statement
    /// that gives the call back comes later (`Claims::undelivered`).
    Claim { worker: usize, call: usize, sent: Fate },
    /// The owner reads the row of an offer (`WorkerPermits::await_claim`).
    Look { node: usize, call: usize, run: usize },
    /// The owner records the start of an attempt (`CallRun::start_outside`).
    RecordStart { node: usize, call: usize, run: usize },
    /// A worker posts its result at a node (`ControlPlane::answer_of_worker`).
    Post { worker: usize, node: usize },
    /// A worker dies with its call, and starts again.
    Die { worker: usize },
    /// The owner reads a stored result (`Inbox::process_messages_of`).
    ReadInbox { node: usize, call: usize, run: usize },
    /// The lease of a worker ends (`LeaseWatch::look`).
    Expire { node: usize, call: usize, run: usize },
    /// The call is cancelled before a worker has it (`WorkerPermits::or_withdraw`).
    Cancel { node: usize, call: usize, run: usize },
    /// The owner refuses later results (`LastResult::find_posted`).
    Refuse { node: usize, call: usize, run: usize },
    /// The owner commits the end of the call (`Settler::commit`).
    Settle { node: usize, call: usize, run: usize },
    /// The offer of a call that has ended is deleted (`Stores::delete_ended_offers`).
    DeleteOffer { call: usize },
    /// A node that has adopted a call checks that it owns it (`Stores::take_over_offers`).
    CheckOwner { node: usize, call: usize, run: usize },
    /// The node becomes the owner of the offer, and reads it (`Recovery::offers_of`).
    Rejoin { node: usize, call: usize, run: usize },
    /// A node dies.
    Crash { node: usize },
    /// A node finds that another one has sent no heartbeat (`Stores::expire_node`).
    DeclareLost { node: usize },
    /// A node that was declared lost sends a heartbeat (`Recovery::beat`).
    Return { node: usize },
    /// A node that was declared lost has ended all runs of calls that others own (`Recovery::adopt_lost`).
    Know { node: usize },
    /// A node adopts a call of a lost node (`Stores::adopt`).
    Adopt { node: usize, call: usize },
    /// A node ends a run of a call that another node owns (`Recovery::stop_adopted`).
    Leave { node: usize, call: usize, run: usize },
    /// A node resumes a call of its own that does not run (`Recovery::orphaned`).
    Resume { node: usize, call: usize },
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let calls = self.repeatable.len();
        vec![State {
            rows: vec![None; calls],
            offers: vec![None; calls],
            inbox: vec![None; calls],
            stored: vec![None; calls],
            leases: vec![true; self.nodes],
            nodes: vec![Node { is_up: true, runs: vec![Vec::new(); calls], has_unknown_calls: false }; self.nodes],
            workers: vec![Worker::Idle; self.workers],
            late: Vec::new(),
            faults: self.faults,
            starts: vec![[0; MAX_ATTEMPTS]; calls],
            has_late_start: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for call in 0..self.repeatable.len() {
            self.actions_of_call(state, call, actions);
        }
        for (node, memory) in state.nodes.iter().enumerate() {
            if memory.is_up {
                if state.faults.crashes > 0 {
                    actions.push(Action::Crash { node });
                }
                if !state.leases[node] {
                    actions.push(Action::Return { node });
                }
                let is_own = |call: usize| state.rows[call].as_ref().is_none_or(|row| row.node == node);
                let mut runs = memory.runs.iter().enumerate().filter(|(_, runs)| !runs.is_empty());
                if memory.has_unknown_calls && runs.all(|(call, _)| is_own(call)) {
                    actions.push(Action::Know { node });
                }
            }
            // A node that has died sends no heartbeat. One that lives may stand still, or be cut off.
            // Only a node that has just sent its own heartbeat looks for lost ones.
            let mut others = (0..self.nodes).filter(|other| *other != node);
            let is_watched = others.any(|other| state.nodes[other].is_up && state.leases[other]);
            if state.leases[node] && is_watched && (!memory.is_up || state.faults.losses > 0) {
                actions.push(Action::DeclareLost { node });
            }
        }
        actions.extend(state.late.iter().map(|&claim| Action::Late { claim }));
        for (worker, doing) in state.workers.iter().enumerate() {
            let nodes = || (0..self.nodes).filter(|node| state.nodes[*node].is_up);
            match doing {
                Worker::Idle => actions.extend(nodes().map(|node| Action::Poll { worker, node })),
                Worker::Waiting(at) if !state.nodes[*at].is_up => {
                    actions.extend(nodes().map(|node| Action::Poll { worker, node }));
                }
                Worker::Waiting(_) => {}
                Worker::Working(_) => {
                    actions.extend(nodes().map(|node| Action::Post { worker, node }));
                    if state.faults.deaths > 0 {
                        actions.push(Action::Die { worker });
                    }
                }
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.step(&mut state, action);
        (state != *before).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        !state.offers.iter().flatten().any(|offer| is_last(offer.attempt))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a call that may not be repeated is started once", |model: &Self, state: &State| {
                let calls = model.repeatable.iter().zip(&state.starts);
                calls.filter(|(is_repeatable, _)| !**is_repeatable).all(|(_, starts)| starts.iter().sum::<u8>() <= 1)
            }),
            Property::always("an attempt is started once", |_: &Self, state: &State| {
                state.starts.iter().flatten().all(|starts| *starts <= 1)
            }),
            Property::always("a call that has ended is not started", |_: &Self, state: &State| !state.has_late_start),
            Property::always("no attempt is offered that has started", |_: &Self, state: &State| {
                let offers = state
                    .offers
                    .iter()
                    .zip(&state.starts)
                    .filter_map(|(offer, starts)| Some((offer.as_ref()?, starts)));
                offers
                    .into_iter()
                    .all(|(offer, starts)| offer.held != OfferState::Waiting || starts[usize::from(offer.attempt)] == 0)
            }),
            Property::always("a stored result is the end of its call", |_: &Self, state: &State| {
                state.rows.iter().zip(&state.stored).all(|(row, stored)| {
                    match (row.as_ref().map(|row| row.status), *stored) {
                        (Some(Status::Ended(end)), Some(stored)) => end == End::Result(stored),
                        _ => true,
                    }
                })
            }),
            Property::eventually("each call ends", |_: &Self, state: &State| {
                let has_ended =
                    |row: &Option<Row>| row.as_ref().is_some_and(|row| matches!(row.status, Status::Ended(_)));
                let is_at_boundary = state.offers.iter().flatten().any(|offer| is_last(offer.attempt + 1));
                state.rows.iter().all(has_ended) || is_at_boundary
            }),
        ]
    }
}

/// Returns `true` for the attempt with which the exploration ends.
fn is_last(attempt: u8) -> bool {
    usize::from(attempt) + 1 >= MAX_ATTEMPTS
}

impl Protocol {
    fn actions_of_call(&self, state: &State, call: usize, actions: &mut Vec<Action>) {
        let faulty = state.faults.lost_answers > 0;
        let Some(row) = &state.rows[call] else {
            let up = (0..self.nodes).filter(|node| state.nodes[*node].is_up && state.leases[*node]);
            return actions.extend(up.map(|node| Action::Accept { node, call }));
        };
        let has_ended = matches!(row.status, Status::Ended(_));
        if has_ended && state.offers[call].is_some() {
            actions.push(Action::DeleteOffer { call });
        }
        for (worker, doing) in state.workers.iter().enumerate() {
            if let Worker::Waiting(_) = doing
                && state.offers[call].as_ref().is_some_and(|offer| offer.held == OfferState::Waiting)
            {
                actions.push(Action::Claim { worker, call, sent: Fate::Done });
                if faulty {
                    actions.push(Action::Claim { worker, call, sent: Fate::Unanswered });
                    actions.push(Action::Claim { worker, call, sent: Fate::Delayed });
                }
            }
        }
        for (node, memory) in state.nodes.iter().enumerate().filter(|(_, memory)| memory.is_up) {
            // A node that was declared lost may not know.
            if !has_ended && !memory.has_unknown_calls {
                if !state.leases[row.node] && row.node != node {
                    actions.push(Action::Adopt { node, call });
                }
                if row.node == node && memory.runs[call].is_empty() {
                    actions.push(Action::Resume { node, call });
                }
            }
            for (run, at) in memory.runs[call].iter().enumerate() {
                if row.node != node || has_ended {
                    actions.push(Action::Leave { node, call, run });
                }
                self.actions_of_run(state, (node, call, run), at, actions);
            }
        }
    }

    fn actions_of_run(
        &self,
        state: &State,
        (node, call, run): (usize, usize, usize),
        at: &Run,
        actions: &mut Vec<Action>,
    ) {
        let faulty = state.faults.lost_answers > 0;
        match at.step {
            Step::Offer { is_first, .. } => {
                let waits = |worker: &usize| is_first && state.workers[*worker] == Worker::Waiting(node);
                for worker in (0..self.workers).filter(waits) {
                    let sent: &[Fate] =
                        if faulty { &[Fate::Done, Fate::Unanswered, Fate::Delayed] } else { &[Fate::Done] };
                    actions.extend(sent.iter().map(|&sent| Action::Start { node, call, run, worker, sent }));
                }
                let sent: &[Fate] = if faulty { &[Fate::Done, Fate::Unanswered, Fate::Failed] } else { &[Fate::Done] };
                actions.extend(sent.iter().map(|&sent| Action::Offer { node, call, run, sent }));
                self.may_cancel(state, (node, call, run), actions);
            }
            Step::Await { .. } => {
                actions.push(Action::Look { node, call, run });
                actions.push(Action::ReadInbox { node, call, run });
                self.may_cancel(state, (node, call, run), actions);
            }
            Step::Run { is_recorded, .. } => {
                if !is_recorded {
                    actions.push(Action::RecordStart { node, call, run });
                }
                actions.push(Action::ReadInbox { node, call, run });
                actions.push(Action::Expire { node, call, run });
            }
            Step::Refuse(_) => actions.push(Action::Refuse { node, call, run }),
            Step::Settle(_) => actions.push(Action::Settle { node, call, run }),
            Step::CheckOwner => actions.push(Action::CheckOwner { node, call, run }),
            Step::Rejoin => actions.push(Action::Rejoin { node, call, run }),
        }
    }

    fn may_cancel(&self, state: &State, (node, call, run): (usize, usize, usize), actions: &mut Vec<Action>) {
        if state.faults.cancels > 0 {
            actions.push(Action::Cancel { node, call, run });
        }
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Late { .. }
            | Action::Poll { .. }
            | Action::Claim { .. }
            | Action::Post { .. }
            | Action::Die { .. } => self.step_of_claim(state, action),
            Action::Accept { node, call } => {
                state.rows[call] = Some(Row { status: Status::Wait, node, attempt: 0, seq: 1 });
                state.nodes[node].runs[call].push(Run::at(Step::Offer { attempt: 1, is_first: true }, 1));
            }
            Action::DeleteOffer { call } => state.offers[call] = None,
            Action::Crash { node } => {
                let memory = &mut state.nodes[node];
                memory.is_up = false;
                memory.runs.iter_mut().for_each(Vec::clear);
                state.faults.crashes -= 1;
            }
            Action::DeclareLost { node } => {
                state.leases[node] = false;
                if state.nodes[node].is_up {
                    state.faults.losses -= 1;
                }
            }
            Action::Return { node } => {
                state.leases[node] = true;
                state.nodes[node].has_unknown_calls = self.rules.adoption_awaits_foreign_runs;
            }
            Action::Know { node } => state.nodes[node].has_unknown_calls = false,
            Action::Adopt { node, call } => {
                if let Some(row) = &mut state.rows[call] {
                    row.node = node;
                }
            }
            Action::Resume { node, call } => self.resume(state, node, call),
            _ => self.step_of_run(state, action),
        }
    }

    /// Makes a step of a worker or a claim.
    fn step_of_claim(&self, state: &mut State, action: Action) {
        match action {
            Action::Late { claim } => {
                self.unclaim(state, claim);
                state.late.retain(|late| *late != claim);
            }
            Action::Poll { worker, node } => state.workers[worker] = Worker::Waiting(node),
            Action::Claim { worker, call, sent } => self.claim(state, worker, call, sent),
            Action::Post { worker, node } => self.post(state, worker, node),
            Action::Die { worker } => {
                state.workers[worker] = Worker::Idle;
                state.faults.deaths -= 1;
            }
            _ => {}
        }
    }

    /// Makes a step of a run.
    fn step_of_run(&self, state: &mut State, action: Action) {
        match action {
            Action::Start { node, call, run, worker, sent } => self.start(state, (node, call, run), worker, sent),
            Action::Offer { node, call, run, sent } => self.offer(state, (node, call, run), sent),
            Action::Look { node, call, run } => Self::look(state, (node, call, run)),
            Action::RecordStart { node, call, run } => {
                let at = &mut state.nodes[node].runs[call][run];
                let Step::Run { attempt, ref mut is_recorded } = at.step else { return };
                *is_recorded = true;
                at.seq += 1;
                let seq = at.seq;
                if !Self::write(state, (node, call), (attempt, seq), Status::Doing) {
                    state.nodes[node].runs[call].remove(run);
                }
            }
            Action::ReadInbox { node, call, run } => {
                let is_owner = state.rows[call].as_ref().is_some_and(|row| row.node == node);
                if let Some(end) = state.inbox[call].filter(|_| is_owner) {
                    state.nodes[node].runs[call][run].step = Step::Settle(end);
                }
            }
            Action::Expire { node, call, run } => self.expire(state, (node, call, run)),
            Action::Cancel { node, call, run } => self.cancel(state, (node, call, run)),
            Action::Refuse { node, call, run } => self.refuse(state, (node, call, run)),
            Action::Settle { node, call, run } => {
                let Run { step, seq, .. } = state.nodes[node].runs[call].remove(run);
                let Step::Settle(end) = step else { return };
                let attempt = match end {
                    End::Result(doing) => doing.attempt,
                    End::Unknown | End::Cancelled => state.rows[call].as_ref().map_or(0, |row| row.attempt),
                };
                let is_written = Self::write(state, (node, call), (attempt, seq + 1), Status::Ended(end));
                if is_written && self.rules.end_deletes_the_offer && !matches!(end, End::Result(_)) {
                    state.offers[call] = None;
                }
            }
            Action::CheckOwner { node, call, run } => {
                let is_owner = state.rows[call].as_ref().is_some_and(|row| row.node == node);
                let offer = state.offers[call];
                let at = &mut state.nodes[node].runs[call][run];
                at.step = match offer {
                    Some(_) if is_owner && !self.rules.takeover_is_one_statement => Step::Rejoin,
                    Some(_) if is_owner => return self.step(state, Action::Rejoin { node, call, run }),
                    _ => Self::entry_point(None, at.attempt),
                };
            }
            Action::Rejoin { node, call, run } => {
                if let Some(offer) = &mut state.offers[call] {
                    offer.node = node;
                }
                let offer = state.offers[call];
                let at = &mut state.nodes[node].runs[call][run];
                at.step = Self::entry_point(offer, at.attempt);
            }
            Action::Leave { node, call, run } => drop(state.nodes[node].runs[call].remove(run)),
            _ => {}
        }
    }

    /// Writes a row, unless the fence forbids it: the row must be the node's, not ended, and not further.
    fn write(state: &mut State, (node, call): (usize, usize), (attempt, seq): (u8, u8), status: Status) -> bool {
        let Some(row) = &mut state.rows[call] else { return false };
        let may =
            row.node == node && !matches!(row.status, Status::Ended(_)) && row.attempt <= attempt && row.seq < seq;
        if may {
            *row = Row { status, node, attempt, seq };
        }
        may
    }

    /// Starts the first attempt with the claim of a worker.
    fn start(&self, state: &mut State, (node, call, run): (usize, usize, usize), worker: usize, sent: Fate) {
        let Run { step: Step::Offer { attempt, .. }, seq, .. } = state.nodes[node].runs[call][run] else { return };
        let claim = Claim { call, attempt, worker };
        if sent != Fate::Done {
            state.faults.lost_answers -= 1;
        }
        if !Self::write(state, (node, call), (attempt, seq + 1), Status::Doing) {
            // Another node owns the call.
            state.nodes[node].runs[call].remove(run);
            if !self.rules.starts_have_their_claims {
                Self::give(state, node, claim);
            }
            return;
        }
        state.offers[call] = Some(Offer { attempt, held: OfferState::Claimed { worker }, node });
        let at = &mut state.nodes[node].runs[call][run];
        (at.step, at.seq, at.attempt) = (Step::Run { attempt, is_recorded: true }, seq + 1, attempt);
        at.note_claim(attempt);
        match sent {
            Fate::Done => Self::give(state, node, claim),
            Fate::Delayed => state.late.push(claim),
            Fate::Unanswered | Fate::Failed => {}
        }
    }

    fn offer(&self, state: &mut State, (node, call, run): (usize, usize, usize), sent: Fate) {
        let Step::Offer { attempt, .. } = state.nodes[node].runs[call][run].step else { return };
        let is_owner =
            state.rows[call].as_ref().is_some_and(|row| row.node == node && !matches!(row.status, Status::Ended(_)));
        let may = is_owner || !self.rules.offers_need_the_owner;
        if sent != Fate::Done {
            state.faults.lost_answers -= 1;
        }
        if may && sent != Fate::Failed {
            match &mut state.offers[call] {
                None => state.offers[call] = Some(Offer { attempt, held: OfferState::Waiting, node }),
                Some(stored) => {
                    stored.node = node;
                    if stored.attempt < attempt {
                        (stored.attempt, stored.held) = (attempt, OfferState::Waiting);
                    }
                }
            }
        }
        if sent != Fate::Done {
            state.nodes[node].runs[call][run].step = Step::Offer { attempt, is_first: false };
            return;
        }
        let Some(stored) = state.offers[call].filter(|_| may) else {
            // Another node owns the call.
            state.nodes[node].runs[call].remove(run);
            return;
        };
        let is_waiting = stored.held == OfferState::Waiting && stored.attempt <= attempt;
        let is_recorded = state.nodes[node].runs[call][run].attempt >= attempt;
        state.nodes[node].runs[call][run].step =
            if is_waiting { Step::Await { attempt } } else { Step::Run { attempt, is_recorded } };
    }

    /// Gives a call to a worker that waits at a node, and notes it if the node owns the call.
    fn give(state: &mut State, node: usize, claim: Claim) {
        let Claim { call, attempt, worker, .. } = claim;
        state.workers[worker] = Worker::Working(Doing { call, attempt, worker });
        let starts = &mut state.starts[call][usize::from(attempt)];
        *starts = starts.saturating_add(1);
        state.has_late_start |= state.rows[call].as_ref().is_some_and(|row| matches!(row.status, Status::Ended(_)));
        for run in &mut state.nodes[node].runs[call] {
            run.note_claim(attempt);
        }
    }

    fn unclaim(&self, state: &mut State, claim: Claim) {
        if let Some(offer) = &mut state.offers[claim.call]
            && offer.attempt == claim.attempt
            && let OfferState::Claimed { worker } = offer.held
            && worker == claim.worker
        {
            offer.held = OfferState::Waiting;
        }
    }

    fn claim(&self, state: &mut State, worker: usize, call: usize, sent: Fate) {
        let Worker::Waiting(node) = state.workers[worker] else { return };
        let Some(offer) = &mut state.offers[call] else { return };
        offer.held = OfferState::Claimed { worker };
        let claim = Claim { call, attempt: offer.attempt, worker };
        match sent {
            Fate::Done => Self::give(state, node, claim),
            Fate::Unanswered | Fate::Failed => state.faults.lost_answers -= 1,
            Fate::Delayed => {
                state.faults.lost_answers -= 1;
                state.late.push(claim);
            }
        }
    }

    fn look(state: &mut State, (node, call, run): (usize, usize, usize)) {
        let offer = state.offers[call];
        let at = &mut state.nodes[node].runs[call][run];
        let Step::Await { attempt } = at.step else { return };
        let is_recorded = at.attempt >= attempt;
        match offer {
            None => at.step = Step::Offer { attempt, is_first: false },
            Some(offer) if offer.held == OfferState::Waiting && offer.attempt <= attempt => {}
            Some(_) => at.step = Step::Run { attempt, is_recorded },
        }
    }

    fn post(&self, state: &mut State, worker: usize, node: usize) {
        let Worker::Working(doing) = state.workers[worker] else { return };
        let Doing { call, attempt, .. } = doing;
        state.workers[worker] = Worker::Idle;
        for run in &mut state.nodes[node].runs[call] {
            if run.accepts(attempt) {
                run.step = Step::Settle(End::Result(doing));
                return;
            }
        }
        let Some(row) = &state.rows[call] else { return };
        let has_ended = matches!(row.status, Status::Ended(_));
        if let Some(offer) = &mut state.offers[call]
            && offer.attempt == attempt
            && matches!(offer.held, OfferState::Claimed { .. })
            && !has_ended
            && (state.inbox[call].is_none() || !self.rules.results_are_unique)
        {
            offer.held = OfferState::Answered;
            state.inbox[call] = Some(End::Result(doing));
            state.stored[call] = Some(doing);
        }
    }

    fn expire(&self, state: &mut State, (node, call, run): (usize, usize, usize)) {
        let Step::Run { attempt, is_recorded } = state.nodes[node].runs[call][run].step else { return };
        let Some(offer) = state.offers[call] else {
            // The watch finds no row: its attempt is lost.
            return self.lose(state, (node, call, run), attempt);
        };
        if offer.attempt != attempt {
            return self.lose(state, (node, call, run), attempt);
        }
        let OfferState::Claimed { worker } = offer.held else { return };
        let is_at_work = state.workers[worker] == Worker::Working(Doing { call, attempt, worker });
        if is_at_work && state.faults.expiries == 0 {
            return;
        }
        let row = state.rows[call].as_ref();
        let is_recorded = is_recorded && row.is_some_and(|row| row.status == Status::Doing);
        let is_owner = offer.node == node && row.is_some_and(|row| row.node == node);
        if !is_owner || (self.rules.expiry_needs_the_start && !is_recorded) {
            return;
        }
        if is_at_work {
            state.faults.expiries -= 1;
        }
        state.offers[call] = self.repeatable[call].then_some(Offer {
            attempt: (attempt + 1).min(MAX_ATTEMPTS as u8 - 1),
            held: OfferState::Waiting,
            node,
        });
        self.lose(state, (node, call, run), attempt);
    }

    /// Continues after a worker has lost an attempt.
    fn lose(&self, state: &mut State, (node, call, run): (usize, usize, usize), attempt: u8) {
        let at = &mut state.nodes[node].runs[call][run];
        at.holder = Holder::Unknown;
        at.attempt = at.attempt.max(attempt);
        at.step = match self.repeatable[call] {
            true => Step::Offer { attempt: (attempt + 1).min(MAX_ATTEMPTS as u8 - 1), is_first: false },
            false => Step::Refuse(End::Unknown),
        };
    }

    fn cancel(&self, state: &mut State, (node, call, run): (usize, usize, usize)) {
        state.faults.cancels -= 1;
        let is_owner = state.rows[call].as_ref().is_some_and(|row| row.node == node);
        let at = &mut state.nodes[node].runs[call][run];
        at.step = Step::Settle(End::Cancelled);
        if self.rules.end_withdraws_the_offer
            && is_owner
            && let Some(offer) = &mut state.offers[call]
        {
            // A lost node may have made it.
            offer.node = node;
            if offer.held == OfferState::Waiting {
                state.offers[call] = None;
            } else {
                // A worker has it. Its result counts if it is stored before the end.
                at.step = Step::Refuse(End::Cancelled);
            }
        }
    }

    fn refuse(&self, state: &mut State, (node, call, run): (usize, usize, usize)) {
        let Step::Refuse(end) = state.nodes[node].runs[call][run].step else { return };
        let may =
            state.rows[call].as_ref().is_some_and(|row| row.node == node && !matches!(row.status, Status::Ended(_)));
        if may && (state.inbox[call].is_none() || !self.rules.results_are_unique) {
            state.inbox[call] = Some(end);
        }
        state.nodes[node].runs[call][run].step = Step::Settle(state.inbox[call].unwrap_or(end));
    }

    fn resume(&self, state: &mut State, node: usize, call: usize) {
        let Some(row) = &state.rows[call] else { return };
        let step = match row.status {
            _ if self.rules.stored_results_come_first
                && let Some(end) = state.inbox[call] =>
            {
                Step::Settle(end)
            }
            Status::Wait => Step::Offer { attempt: row.attempt + 1, is_first: false },
            _ => Step::CheckOwner,
        };
        let run = Run { attempt: row.attempt, ..Run::at(step, row.seq) };
        state.nodes[node].runs[call].push(run);
    }

    /// Returns how a run continues that a worker had before, by the offer that is found (`entry_point_at_worker` of the recovery).
    fn entry_point(offer: Option<Offer>, recorded: u8) -> Step {
        match offer {
            Some(offer) if offer.attempt > recorded => {
                Step::Offer { attempt: (recorded + 1).min(MAX_ATTEMPTS as u8 - 1), is_first: false }
            }
            // The attempt is answered, waits for another worker, or is lost.
            Some(_) | None => Step::Run { attempt: recorded, is_recorded: true },
        }
    }
}
