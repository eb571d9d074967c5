//! Gauges of the queues for workers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::Metrics;

/// Maximum number of queues with gauges of their own; further ones have none.
const MAX_QUEUES: usize = 1000;

/// The tenants and names of queues that were used since the start.
#[derive(Debug, Default)]
pub(super) struct QueueLabels(Mutex<BTreeSet<(String, String)>>);

/// The load of one queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueGauges {
    /// The tenant.
    pub tenant: String,
    /// The name.
    pub queue: String,
    /// Waiting calls, running calls, the age of the oldest waiting call in seconds, and workers.
    pub values: [f64; 4],
}

impl Metrics {
    /// Sets the gauges of all queues. Those of queues without calls and workers become 0.
    pub fn set_queues(&self, queues: &[QueueGauges]) {
        const NAMES: [&str; 4] = [
            "toolpost_worker_queue_waiting",
            "toolpost_worker_queue_running",
            "toolpost_worker_queue_oldest_seconds",
            "toolpost_workers",
        ];
        let mut known = self.0.queues.0.lock().unwrap_or_else(PoisonError::into_inner);
        for QueueGauges { tenant, queue, .. } in queues {
            if known.len() < MAX_QUEUES {
                known.insert((tenant.clone(), queue.clone()));
            }
        }
        for (tenant, queue) in &*known {
            let found = queues.iter().find(|one| one.tenant == *tenant && one.queue == *queue);
            let values = found.map_or([0.0; 4], |one| one.values);
            for (name, value) in NAMES.into_iter().zip(values) {
                self.set(name, &[("tenant", tenant), ("queue", queue)], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_queue_has_gauges_of_zero() {
        let metrics = Metrics::default();
        metrics.set_queues(&[QueueGauges {
            tenant: "default".into(),
            queue: "q".into(),
            values: [3.0, 2.0, 1.5, 4.0],
        }]);
        let line = |name: &str, value: &str| format!(r#"{name}{{tenant="default",queue="q"}} {value}"#);
        for (name, value) in [("toolpost_worker_queue_oldest_seconds", "1.5"), ("toolpost_workers", "4")] {
            assert!(metrics.render().contains(&line(name, value)), "{}", metrics.render());
        }
        metrics.set_queues(&[]);
        assert!(metrics.render().contains(&line("toolpost_worker_queue_waiting", "0")));
    }
}
