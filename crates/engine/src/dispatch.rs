//! Slots for calls, assigned by priority and, within a priority, in the order of acceptance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

mod order;
mod rates;

pub use order::{CallOrder, Mode};
pub(crate) use order::{OrderGuard, OrderTicket};
pub use rates::Rates;

/// The request of a call for a slot.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// The name under which slots of the tool are counted.
    pub tool: Arc<str>,
    /// Maximum number of concurrent runs of the tool; `None` means no limit.
    pub max_concurrency: Option<u32>,
    /// `true` if the call counts towards the limit of detached calls of this node.
    pub counts: bool,
    /// Higher values are served first.
    pub priority: i32,
    /// The id of the call. Ids grow with time, so they order calls by acceptance.
    pub call: Uuid,
}

/// The slots of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Slots(Arc<Mutex<State>>);

/// The permit to run, released when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    tool: Arc<str>,
    counts: bool,
}

/// A place in the queue, given up when dropped.
#[derive(Debug)]
pub struct QueuedSlot {
    slots: Slots,
    tool: Arc<str>,
    counts: bool,
    key: Key,
    ready: oneshot::Receiver<Slot>,
}

/// Sorts by descending priority, then by acceptance.
type Key = (Reverse<i32>, Uuid);

#[derive(Debug)]
struct State {
    max_running: usize,
    /// The number of running calls that count towards the node's limit.
    running: usize,
    tools: HashMap<Arc<str>, Tool>,
}

#[derive(Debug, Default)]
struct Tool {
    running: u32,
    /// Waiting calls that do not count towards the node's limit, and waiting calls that do. A full node blocks only the latter.
    waiting: [BTreeMap<Key, Waiter>; 2],
}

#[derive(Debug)]
struct Waiter {
    max_concurrency: Option<u32>,
    ready: oneshot::Sender<Slot>,
}

impl Slots {
    /// Creates slots for at most `max_running` counting calls at once.
    pub fn new(max_running: usize) -> Self {
        Self(Arc::new(Mutex::new(State { max_running, running: 0, tools: HashMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the queue. The slot may be assigned immediately.
    pub fn queue(&self, wanted: SlotRequest) -> QueuedSlot {
        let (sender, ready) = oneshot::channel();
        let SlotRequest { tool, max_concurrency, counts, priority, call } = wanted;
        let key = (Reverse(priority), call);
        let waiter = Waiter { max_concurrency, ready: sender };
        self.state().tools.entry(tool.clone()).or_default().waiting[usize::from(counts)].insert(key, waiter);
        self.hand_out();
        QueuedSlot { slots: self.clone(), tool, counts, key, ready }
    }

    /// Returns the number of calls that wait for a slot.
    pub fn waiting(&self) -> usize {
        self.state().tools.values().flat_map(|tool| &tool.waiting).map(BTreeMap::len).sum()
    }

    /// Removes a call of a tool, and assigns slots to the calls that can run after that: a call behind a dropped place may
    /// have a higher concurrency limit.
    fn leave(&self, name: &Arc<str>, remove: impl FnOnce(&mut Tool, &mut usize)) {
        {
            let State { tools, running, .. } = &mut *self.state();
            if let Some(tool) = tools.get_mut(name) {
                remove(tool, running);
                if tool.running == 0 && tool.waiting.iter().all(BTreeMap::is_empty) {
                    tools.remove(name);
                }
            }
        }
        self.hand_out();
    }

    /// Assigns slots to all calls that can run now.
    fn hand_out(&self) {
        loop {
            let Some((tool, counts, waiter)) = self.state().take_next() else { return };
            // Sent without the lock: if the place was just dropped, dropping the slot acquires the lock again.
            let slot = Slot { slots: self.clone(), tool, counts };
            drop(waiter.ready.send(slot));
        }
    }
}

impl State {
    fn take_next(&mut self) -> Option<(Arc<str>, bool, Waiter)> {
        let node_is_full = self.running >= self.max_running;
        let (key, name, counts) = self
            .tools
            .iter()
            .flat_map(|(name, tool)| [(name, tool, false), (name, tool, true)])
            .filter(|(_, _, counts)| !(*counts && node_is_full))
            .filter_map(|(name, tool, counts)| {
                let (key, waiter) = tool.waiting[usize::from(counts)].first_key_value()?;
                waiter.max_concurrency.is_none_or(|max| tool.running < max).then_some((*key, name, counts))
            })
            .min_by_key(|(key, _, _)| *key)?;
        let name = name.clone();
        let tool = self.tools.get_mut(&name)?;
        let waiter = tool.waiting[usize::from(counts)].remove(&key)?;
        tool.running += 1;
        self.running += usize::from(counts);
        Some((name, counts, waiter))
    }
}

impl QueuedSlot {
    /// Waits for the slot.
    pub async fn slot(&mut self) -> Slot {
        match (&mut self.ready).await {
            Ok(slot) => slot,
            // The sender is dropped only together with this place.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for QueuedSlot {
    fn drop(&mut self) {
        self.slots.leave(&self.tool, |tool, _| drop(tool.waiting[usize::from(self.counts)].remove(&self.key)));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.leave(&self.tool, |tool, running| {
            tool.running -= 1;
            *running -= usize::from(self.counts);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn wanted(tool: &str, max: Option<u32>, priority: i32) -> SlotRequest {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = Uuid::from_u128(CALLS.fetch_add(1, Ordering::Relaxed).into());
        SlotRequest { tool: tool.into(), max_concurrency: max, counts: true, priority, call }
    }

    fn is_served(slot: &mut QueuedSlot) -> Option<Slot> {
        slot.ready.try_recv().ok()
    }

    #[test]
    fn max_concurrency_holds_and_other_tools_pass() {
        let slots = Slots::new(10);
        let mut queued: Vec<QueuedSlot> = (0..3).map(|_| slots.queue(wanted("a", Some(2), 0))).collect();
        let mut served: Vec<Option<Slot>> = queued.iter_mut().map(is_served).collect();
        assert_eq!(served.iter().flatten().count(), 2);
        assert!(is_served(&mut slots.queue(wanted("b", None, 0))).is_some());
        served.remove(0);
        assert!(is_served(&mut queued[2]).is_some());
    }

    #[test]
    fn waiting_counts_queued_calls_without_a_slot() {
        let slots = Slots::new(1);
        let mut queued: Vec<QueuedSlot> = (0..3).map(|_| slots.queue(wanted("a", None, 0))).collect();
        assert_eq!(slots.waiting(), 2);
        let slot = is_served(&mut queued[0]);
        drop(queued.pop());
        assert_eq!(slots.waiting(), 1);
        drop((slot, queued));
        assert_eq!(slots.waiting(), 0);
    }

    #[test]
    fn slots_follow_priority_then_arrival() {
        let slots = Slots::new(1);
        let mut first = slots.queue(wanted("a", None, 0));
        let running = is_served(&mut first).unwrap();
        let mut queued: Vec<QueuedSlot> = [0, 5, 5, -1].map(|priority| slots.queue(wanted("b", None, priority))).into();
        drop(running);
        let mut order = Vec::new();
        while order.len() < queued.len() {
            let (index, slot) =
                queued.iter_mut().enumerate().find_map(|(index, slot)| Some((index, is_served(slot)?))).unwrap();
            order.push(index);
            drop(slot);
        }
        assert_eq!(order, [1, 2, 0, 3]);
    }

    #[test]
    fn full_node_blocks_only_detached_calls() {
        let slots = Slots::new(1);
        let mut one = slots.queue(wanted("a", None, 0));
        let slot = is_served(&mut one);
        let mut held = slots.queue(wanted("a", None, 9));
        assert!(slot.is_some() && is_served(&mut held).is_none());
        let mut other = slots.queue(SlotRequest { counts: false, ..wanted("a", Some(2), 0) });
        assert!(is_served(&mut other).is_some());
    }

    #[test]
    fn dropped_entry_unblocks_the_calls_behind_it() {
        let slots = Slots::new(10);
        let mut first = slots.queue(wanted("a", None, 0));
        let _running = is_served(&mut first).unwrap();
        // A call may set a lower limit than its tool, and then waits longer.
        let picky = slots.queue(wanted("a", Some(1), 9));
        let mut other = slots.queue(wanted("a", None, 0));
        assert!(is_served(&mut other).is_none());
        drop(picky);
        assert!(is_served(&mut other).is_some());
    }

    #[test]
    fn dropped_entry_is_skipped_and_leaves_no_state() {
        let slots = Slots::new(1);
        let mut one = slots.queue(wanted("a", None, 0));
        let slot = is_served(&mut one).unwrap();
        drop(slots.queue(wanted("b", None, 9)));
        let mut last = slots.queue(wanted("c", None, 0));
        // The slot is assigned, and dropped before it is received.
        drop(slots.queue(wanted("d", None, 10)));
        drop(slot);
        drop(is_served(&mut last).unwrap());
        drop((one, last));
        let state = slots.state();
        assert_eq!((state.running, state.tools.len()), (0, 0));
    }
}
