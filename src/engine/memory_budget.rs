//! Memory of requests on their way: what they hold is taken out of a room, and given back once nothing of them is left.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::KIB_PER_CALL;
use crate::domain::json::{self, JsonError, WeighedError};

/// Copies of a request's text that exist at the same time, with what the allocator keeps of freed ones: as it came and as
/// values, and then as values, as arguments, as record, in the statement of the commit, as events and as answer. Measured with
/// many requests of 4 MB at once (`tests/it/memory.rs`).
const COPIES_OF_TEXT: usize = 8;
/// Copies of its values: its own, and those that were mended or that a refusal repeats.
const COPIES_OF_VALUES: usize = 2;
/// Footprints up to this many KiB are counted once their calls are submitted, and not before.
const SMALL_KIB: usize = 64;
/// Footprints from this many KiB on are counted for as long as there is any image of their calls.
const LARGE_KIB: usize = 256;

/// Memory of which requests take parts.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    free: Arc<Semaphore>,
    kib: usize,
}

/// A request's part of a room. Dropped, it is given back.
pub type MemoryPermit = OwnedSemaphorePermit;

/// There is no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// Whether there never will be: it takes more than all of the room.
    pub ever: bool,
}

/// Why a body was not read.
#[derive(Debug)]
pub enum Unread {
    /// It is no JSON that the service takes.
    Json(JsonError),
    /// There is no room for its values.
    NoRoom(NoRoom),
}

/// What a request takes.
#[derive(Debug, Default)]
pub struct Footprint {
    /// The size of its text, in bytes.
    pub bytes: usize,
    /// What its values take, in bytes.
    pub weight: usize,
    /// Whether its calls are kept a second time, as one with a key may have to be submitted again.
    pub is_kept: bool,
    /// What it holds already.
    pub held: Option<MemoryPermit>,
}

impl MemoryBudget {
    /// A room of this size.
    pub(super) fn new(kib: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(kib)), kib }
    }

    pub(super) fn semaphore(&self) -> &Arc<Semaphore> {
        &self.free
    }

    /// How much of it is taken, in KiB.
    pub(super) fn taken_kib(&self) -> usize {
        self.kib.saturating_sub(self.free.available_permits())
    }

    /// Takes more until this much is held. A request that is larger than the room takes all of it, and so is alone.
    pub(super) fn cover(&self, held: &mut Option<MemoryPermit>, kib: usize) -> Result<(), NoRoom> {
        let has = held.as_ref().map_or(0, MemoryPermit::num_permits);
        let more = kib.min(self.kib).saturating_sub(has);
        if more == 0 && held.is_some() {
            return Ok(());
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let more = self.free.clone().try_acquire_many_owned(more).map_err(|_| NoRoom { ever: false })?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// Gives back what is held beyond this much.
pub(super) fn shrink(held: &mut Option<MemoryPermit>, kib: usize) {
    if let Some(held) = held {
        drop(held.split(held.num_permits().saturating_sub(kib)));
    }
}

impl From<usize> for Footprint {
    /// A request of which only the size is known.
    fn from(bytes: usize) -> Self {
        Self { bytes, weight: bytes, ..Self::default() }
    }
}

impl Footprint {
    /// Counts what has come of the body so far, with the memory that was made for it.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn arrive(&mut self, room: &MemoryBudget, bytes: usize) -> Result<(), NoRoom> {
        room.cover(&mut self.held, bytes.div_ceil(json::STEP) * (json::STEP / 1024))
    }

    /// Reads the body, and counts what it comes to.
    ///
    /// # Errors
    /// If it is no JSON, or there is no room for its values.
    pub fn parse(&mut self, room: &MemoryBudget, text: &[u8]) -> Result<Value, Unread> {
        self.bytes = text.len();
        let mut refused = None;
        let parsed = json::parse_weighed(text, |weight| {
            self.weight = weight;
            refused = self.cover(room).err();
            refused.is_none()
        });
        match parsed {
            Ok(weighed) => {
                self.weight = weighed.weight;
                self.cover(room).map_err(Unread::NoRoom)?;
                Ok(weighed.value)
            }
            Err(WeighedError::Json(error)) => Err(Unread::Json(error)),
            Err(WeighedError::TooHeavy) => Err(Unread::NoRoom(refused.unwrap_or(NoRoom { ever: false }))),
        }
    }

    /// Counts a body that is taken as it is.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn take(&mut self, room: &MemoryBudget, bytes: usize) -> Result<(), NoRoom> {
        (self.bytes, self.weight) = (bytes, bytes);
        self.cover(room)
    }

    fn cover(&mut self, room: &MemoryBudget) -> Result<(), NoRoom> {
        // All copies of it may not fit; that it is alone then has to do. Its values have to fit.
        if self.beyond_text() / 1024 > room.kib {
            return Err(NoRoom { ever: true });
        }
        match self.kib() {
            kib if kib <= SMALL_KIB && self.held.is_none() => Ok(()),
            kib => room.cover(&mut self.held, kib),
        }
    }

    /// What the values take that is more than their text.
    fn beyond_text(&self) -> usize {
        self.weight.saturating_sub(self.bytes)
    }

    /// The most that it may take beside its calls, in KiB.
    fn kib(&self) -> usize {
        let copies = COPIES_OF_VALUES + usize::from(self.is_kept);
        (self.bytes * COPIES_OF_TEXT + self.beyond_text() * copies) / 1024
    }

    /// The same with so many calls.
    pub(super) fn kib_with(&self, calls: usize) -> usize {
        calls * KIB_PER_CALL + self.kib()
    }

    /// What it takes with so many calls where no value was copied.
    pub(super) fn least_kib_with(&self, calls: usize) -> usize {
        calls * KIB_PER_CALL + (self.bytes * COPIES_OF_TEXT + self.beyond_text()) / 1024
    }

    /// Whether it is counted for as long as there is any image of its calls.
    pub(super) fn is_large(&self) -> bool {
        self.kib() >= LARGE_KIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_what_they_take() {
        let room = MemoryBudget::new(64 * 1024);
        let mut small = Footprint::default();
        small.parse(&room, br#"{"a":[1,2]}"#).unwrap();
        assert_eq!((room.taken_kib(), small.bytes), (0, 11), "what is small is counted with its calls");

        let text = format!("\"{}\"", "x".repeat(1024 * 1024));
        let mut long = Footprint::default();
        long.parse(&room, text.as_bytes()).unwrap();
        assert!((8 * 1024..8 * 1024 + 16).contains(&room.taken_kib()), "{}", room.taken_kib());
        drop(long);
        assert_eq!(room.taken_kib(), 0);

        let many = format!("[{}0]", "0,".repeat(512 * 1024));
        let mut dense = Footprint::default();
        dense.parse(&room, many.as_bytes()).unwrap();
        assert_eq!(room.taken_kib(), 64 * 1024, "two copies of it are more than all, so it is alone");
        let mut other = Footprint::default();
        assert!(matches!(other.parse(&room, text.as_bytes()), Err(Unread::NoRoom(NoRoom { ever: false }))));

        let mut hopeless = Footprint::default();
        let refused = hopeless.parse(&MemoryBudget::new(32 * 1024), many.as_bytes());
        assert!(matches!(refused, Err(Unread::NoRoom(NoRoom { ever: true }))));
    }

    #[test]
    fn a_body_is_counted_while_it_arrives_and_only_once() {
        let room = MemoryBudget::new(1024);
        let mut request = Footprint::default();
        request.arrive(&room, 1).unwrap();
        assert_eq!(room.taken_kib(), 64);
        request.arrive(&room, 130 * 1024).unwrap();
        assert_eq!(room.taken_kib(), 192);
        let text = format!("\"{}\"", "x".repeat(128 * 1024));
        request.parse(&room, text.as_bytes()).unwrap();
        assert_eq!(room.taken_kib(), 1024);
        assert_eq!(Footprint::default().arrive(&room, 600 * 1024), Err(NoRoom { ever: false }));
        shrink(&mut request.held, 100);
        assert_eq!(room.taken_kib(), 100);
    }
}
