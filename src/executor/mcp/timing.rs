//! How long a server rests between two starts, and the other clocks of its life.

use std::time::Duration;

/// The clocks of upstream servers.
#[derive(Debug, Clone, Copy)]
pub struct ServerTiming {
    /// How long a start may take, until the server has answered what it is.
    pub start: Duration,
    /// How long a call waits for a server that is just being started.
    pub wait: Duration,
    /// How often its tools are listed again although it has not said that they changed.
    pub poll: Duration,
    /// The rest after the first failed start; it doubles with each further one.
    pub initial_backoff: Duration,
    /// The longest rest.
    pub max_backoff: Duration,
    /// After so many failed starts in a row its tools are there no more, until it is.
    pub give_up_after: u32,
}

impl ServerTiming {
    /// The rest after so many failures in a row: between half of it and all of it, by a number from 0 to 1.
    #[must_use]
    pub fn rest(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.initial_backoff.saturating_mul(1 << doublings).min(self.max_backoff);
        whole.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_the_longest_and_lose_half_by_chance_at_most() {
        let ms = Duration::from_millis;
        let pace = ServerTiming {
            start: ms(1),
            wait: ms(1),
            poll: ms(1),
            initial_backoff: ms(500),
            max_backoff: ms(5_000),
            give_up_after: 3,
        };
        let rests: Vec<u128> = (1..=6).map(|failures| pace.rest(failures, 0.0).as_millis()).collect();
        assert_eq!(rests, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(pace.rest(1, 1.0), ms(250));
        assert_eq!(pace.rest(u32::MAX, 0.0), ms(5_000));
    }
}
