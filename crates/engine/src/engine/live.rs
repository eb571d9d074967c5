//! The reachable calls of this node, and the signals that reach them while they wait or run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::arguments::stream::ArgumentStream;
use crate::call_table::CallTable;
use crate::registry::Entry;
use toolpost_core::domain::Tenant;
use toolpost_tool::executor::{Emitter, ResultSlot};

/// What reaches a call from outside of its run: one value, shared by the run and by everybody who reaches the call.
#[derive(Debug)]
pub struct CallSignals {
    /// The tenant of the call.
    pub tenant: Tenant,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Receives the reports of the tool.
    pub emitter: Emitter,
    /// Receives a posted result.
    pub posted: ResultSlot,
    /// Notified when the approval of the call may have changed.
    pub decided: Notify,
    /// The stream of the arguments, if they are streamed.
    pub arguments: Option<ArgumentStream>,
    /// `true` if a token was sent to the tool. Reports then require the token.
    pub has_token: bool,
    /// `true` if the call may accept a posted result.
    pub accepts_posted_result: bool,
    taken_over: AtomicBool,
}

impl CallSignals {
    /// Creates the signals of a call of this tool, which is missing if the call is rejected.
    pub fn new(tenant: Tenant, entry: Option<&Entry>, emitter: Emitter, arguments: Option<ArgumentStream>) -> Self {
        Self {
            tenant,
            cancel: CancellationToken::new(),
            emitter,
            posted: ResultSlot::default(),
            decided: Notify::new(),
            arguments,
            has_token: entry.is_some_and(|entry| entry.definition.has_token()),
            accepts_posted_result: entry.is_some_and(accepts_posted_result),
            taken_over: AtomicBool::new(false),
        }
    }

    /// Ends the run, because another node has adopted the call.
    pub fn leave_to_adopter(&self) {
        self.taken_over.store(true, Ordering::Release);
        self.cancel.cancel();
    }

    /// Returns `true` if the run ends because another node has adopted the call.
    pub fn is_taken_over(&self) -> bool {
        self.taken_over.load(Ordering::Acquire)
    }
}

/// All reachable calls of this node.
pub type LiveCalls = CallTable<Arc<CallSignals>>;

/// Returns `true` if calls of the tool may end with a posted result.
pub(super) fn accepts_posted_result(entry: &Entry) -> bool {
    entry.works_outside() || entry.definition.has_token()
}

impl LiveCalls {
    /// Returns the signals of a tenant's call, if it is reachable on this node.
    pub fn get_of(&self, tenant: &Tenant, id: Uuid) -> Option<Arc<CallSignals>> {
        self.get(id).filter(|signals| signals.tenant == *tenant)
    }

    /// Ends the run of a call that another node has adopted. Returns `false` if the call does not run here.
    pub fn leave_to_adopter(&self, id: Uuid) -> bool {
        self.get(id).inspect(|signals| signals.leave_to_adopter()).is_some()
    }

    /// Returns the signals of a call of any tenant, if it is reachable on this node.
    pub fn get(&self, id: Uuid) -> Option<Arc<CallSignals>> {
        self.calls().get(&id).cloned()
    }
}
