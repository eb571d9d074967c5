//! Reproducible random choices: the same seed makes the same choices.

use std::ops::Range;
use std::time::Duration;

/// A generator of choices (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates an independent generator for one of several concurrent users.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns `true` with a probability of 1 in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.within(0..from.len() as u64);
        from[usize::try_from(index).unwrap()]
    }

    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Brings items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.within(0..index as u64 + 1);
            items.swap(index, usize::try_from(other).unwrap());
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
