//! The memory budget of requests: each request holds a permit for its memory until its last copy is freed.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

mod permit;

pub use permit::MemoryPermit;

use toolpost_core::domain::json::{self, DeserializeWeighed, JsonError, WeighedError};

/// Memory reserved for each call in addition to its request, in KiB.
const KIB_PER_CALL: usize = 16;
/// Memory for the bodies of requests without calls, such as results and definitions, in KiB. It is a separate budget, so
/// that calls cannot exhaust the memory that is needed to post their results.
pub(crate) const OTHERS_KIB: usize = 32 * 1024;

/// Simultaneous copies of a request's text, including memory that the allocator keeps after a free: the body and its
/// values, then the values, arguments, record, statement of the commit, events and response. Measured with many
/// concurrent requests of 4 MB (`tests/it/memory.rs`).
const COPIES_OF_TEXT: usize = 8;
/// Simultaneous copies of a request's values: the values themselves, and coerced values or a copy in a failure.
const COPIES_OF_VALUES: usize = 2;
/// Maximum footprint that is not counted before its calls are submitted, in KiB.
const SMALL_KIB: usize = 64;
/// Minimum footprint that stays counted until the last copy of its calls is freed, in KiB.
const LARGE_KIB: usize = 256;

/// Memory that requests share.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    free: Arc<Semaphore>,
    kib: usize,
}

/// An error returned when a request does not fit into the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryExhausted {
    /// `true` if the request exceeds the total budget, so that a retry cannot succeed.
    pub ever: bool,
}

/// An error returned when a body could not be parsed.
#[derive(Debug)]
pub enum Unread {
    /// The body is invalid JSON.
    Json(JsonError),
    /// The values of the body do not fit into the memory budget.
    MemoryExhausted(MemoryExhausted),
}

/// The memory that a request needs.
#[derive(Debug, Default)]
pub struct Footprint {
    /// The size of the body, in bytes.
    pub bytes: usize,
    /// The size of the parsed values, in bytes.
    pub weight: usize,
    /// `true` if a second copy of the calls is kept, because a request with a key may have to be submitted again.
    pub is_kept: bool,
    /// The permit that is already held.
    pub held: Option<MemoryPermit>,
}

impl MemoryBudget {
    /// Creates a budget of the given size in KiB.
    pub(crate) fn new(kib: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(kib)), kib }
    }

    pub(crate) fn semaphore(&self) -> &Arc<Semaphore> {
        &self.free
    }

    /// Returns the memory in use, in KiB.
    pub(crate) fn taken_kib(&self) -> usize {
        self.kib.saturating_sub(self.free.available_permits())
    }

    /// Extends a permit to at least `kib`. A request larger than the budget acquires all of it, and therefore runs
    /// alone.
    pub(crate) fn cover(&self, held: &mut Option<MemoryPermit>, kib: usize) -> Result<(), MemoryExhausted> {
        let has = held.as_ref().map_or(0, MemoryPermit::kib);
        let more = kib.min(self.kib).saturating_sub(has);
        if more == 0 && held.is_some() {
            return Ok(());
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let more = self.free.clone().try_acquire_many_owned(more).map_err(|_| MemoryExhausted { ever: false })?;
        match held {
            Some(held) => held.merge(more.into()),
            None => *held = Some(more.into()),
        }
        Ok(())
    }
}

/// Reduces a permit to at most `kib`.
pub(crate) fn shrink(held: &mut Option<MemoryPermit>, kib: usize) {
    if let Some(held) = held {
        held.shrink(kib);
    }
}

impl From<usize> for Footprint {
    /// Creates the footprint of a request whose parsed size is not known yet.
    fn from(bytes: usize) -> Self {
        Self { bytes, weight: bytes, ..Self::default() }
    }
}

impl Footprint {
    /// Counts the part of the body that has been received, with its buffer.
    ///
    /// # Errors
    /// Returns [`MemoryExhausted`] if it does not fit into the budget.
    pub fn arrive(&mut self, memory: &MemoryBudget, bytes: usize) -> Result<(), MemoryExhausted> {
        memory.cover(&mut self.held, bytes.div_ceil(json::STEP) * (json::STEP / 1024))
    }

    /// Parses the body and counts its values.
    ///
    /// # Errors
    /// Returns [`Unread`] if the body is invalid JSON, or its values do not fit into the budget.
    pub fn parse(&mut self, memory: &MemoryBudget, text: &[u8]) -> Result<Value, Unread> {
        self.bytes = text.len();
        let mut refused = None;
        let parsed = json::parse_weighed(text, |weight| {
            self.weight = weight;
            refused = self.cover(memory).err();
            refused.is_none()
        });
        match parsed {
            Ok(weighed) => {
                self.weight = weighed.weight;
                self.cover(memory).map_err(Unread::MemoryExhausted)?;
                Ok(weighed.value)
            }
            Err(WeighedError::Json(error)) => Err(Unread::Json(error)),
            Err(WeighedError::TooHeavy) => {
                Err(Unread::MemoryExhausted(refused.unwrap_or(MemoryExhausted { ever: false })))
            }
        }
    }

    /// Parses a body of known structure and counts its values. Returns `None` if the body has another structure, or if
    /// [`Self::parse`] would reject it.
    pub fn parse_as<T: DeserializeWeighed>(&mut self, memory: &MemoryBudget, text: &[u8]) -> Option<T> {
        self.bytes = text.len();
        let parsed = json::parse_weighed_as(text, |weight| {
            self.weight = weight;
            self.cover(memory).is_ok()
        });
        let (value, weight) = parsed?;
        self.weight = weight;
        self.cover(memory).ok()?;
        Some(value)
    }

    /// Counts a body that is used without parsing.
    ///
    /// # Errors
    /// Returns [`MemoryExhausted`] if it does not fit into the budget.
    pub fn take(&mut self, memory: &MemoryBudget, bytes: usize) -> Result<(), MemoryExhausted> {
        (self.bytes, self.weight) = (bytes, bytes);
        self.cover(memory)
    }

    fn cover(&mut self, memory: &MemoryBudget) -> Result<(), MemoryExhausted> {
        // Only the values must fit. If the copies do not, the request acquires the whole budget and runs alone.
        if self.beyond_text() / 1024 > memory.kib {
            return Err(MemoryExhausted { ever: true });
        }
        match self.kib() {
            kib if kib <= SMALL_KIB && self.held.is_none() => Ok(()),
            kib => memory.cover(&mut self.held, kib),
        }
    }

    /// Returns the memory of the values beyond the size of their text, in bytes.
    fn beyond_text(&self) -> usize {
        self.weight.saturating_sub(self.bytes)
    }

    /// Returns the maximum memory of the request without its calls, in KiB.
    fn kib(&self) -> usize {
        let copies = COPIES_OF_VALUES + usize::from(self.is_kept);
        (self.bytes * COPIES_OF_TEXT + self.beyond_text() * copies) / 1024
    }

    /// Returns the maximum memory of the request with the given number of calls, in KiB.
    pub(crate) fn kib_with(&self, calls: usize) -> usize {
        calls * KIB_PER_CALL + self.kib()
    }

    /// Returns the memory of the request and its calls if no value is copied, in KiB.
    pub(crate) fn least_kib_with(&self, calls: usize) -> usize {
        calls * KIB_PER_CALL + (self.bytes * COPIES_OF_TEXT + self.beyond_text()) / 1024
    }

    /// Returns `true` if the request stays counted until the last copy of its calls is freed.
    pub(crate) fn is_large(&self) -> bool {
        self.kib() >= LARGE_KIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_their_memory() {
        let memory = MemoryBudget::new(64 * 1024);
        let mut small = Footprint::default();
        small.parse(&memory, br#"{"a":[1,2]}"#).unwrap();
        assert_eq!((memory.taken_kib(), small.bytes), (0, 11), "small requests are counted with their calls");

        let text = format!("\"{}\"", "x".repeat(1024 * 1024));
        let mut long = Footprint::default();
        long.parse(&memory, text.as_bytes()).unwrap();
        assert!((8 * 1024..8 * 1024 + 16).contains(&memory.taken_kib()), "{}", memory.taken_kib());
        drop(long);
        assert_eq!(memory.taken_kib(), 0);

        let many = format!("[{}0]", "0,".repeat(512 * 1024));
        let mut dense = Footprint::default();
        dense.parse(&memory, many.as_bytes()).unwrap();
        assert_eq!(memory.taken_kib(), 64 * 1024, "two copies exceed the budget, so the request runs alone");
        let mut other = Footprint::default();
        assert!(matches!(
            other.parse(&memory, text.as_bytes()),
            Err(Unread::MemoryExhausted(MemoryExhausted { ever: false }))
        ));

        let mut hopeless = Footprint::default();
        let refused = hopeless.parse(&MemoryBudget::new(32 * 1024), many.as_bytes());
        assert!(matches!(refused, Err(Unread::MemoryExhausted(MemoryExhausted { ever: true }))));
    }

    #[test]
    fn body_is_counted_once_while_it_arrives() {
        let memory = MemoryBudget::new(1024);
        let mut request = Footprint::default();
        request.arrive(&memory, 1).unwrap();
        assert_eq!(memory.taken_kib(), 64);
        request.arrive(&memory, 130 * 1024).unwrap();
        assert_eq!(memory.taken_kib(), 192);
        let text = format!("\"{}\"", "x".repeat(128 * 1024));
        request.parse(&memory, text.as_bytes()).unwrap();
        assert_eq!(memory.taken_kib(), 1024);
        assert_eq!(Footprint::default().arrive(&memory, 600 * 1024), Err(MemoryExhausted { ever: false }));
        shrink(&mut request.held, 100);
        assert_eq!(memory.taken_kib(), 100);
    }
}
