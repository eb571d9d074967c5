//! Figures that the long form prints.

use std::time::Duration;

use serde_json::Value;

use super::{is_long, load::Observations};
use crate::oracle::World;
use crate::support::killable::StartDurations;

#[derive(Default)]
pub struct Figures {
    name: String,
    /// Number of times that the service was killed.
    pub deaths: usize,
    /// Number of failures of the database.
    pub failures: usize,
    longest_listening: Duration,
    longest_ready: Duration,
    lines: Vec<String>,
}

impl Figures {
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub fn started(&mut self, started: StartDurations) {
        self.longest_listening = self.longest_listening.max(started.listening);
        self.longest_ready = self.longest_ready.max(started.ready);
    }

    pub fn add_observations(&mut self, seen: &Observations, settling: Duration) {
        let Observations { key_histories, retries, replays, longest, .. } = seen;
        self.line("requests", key_histories.len());
        self.line("retries", retries);
        self.line("replays", replays);
        self.line("longest request, with all its tries", format!("{longest:.1?}"));
        self.line("last ends after the last fault", format!("{settling:.1?}"));
    }

    pub fn world(&mut self, world: &World) {
        let count = |what: &dyn Fn(&Value) -> bool| world.calls.iter().filter(|call| what(call)).count();
        let code = |code: &'static str| count(&move |call| call["error"]["code"] == code);
        let lines = [
            ("calls", world.calls.len()),
            ("of these SUCCESS", count(&|call| call["status"] == "SUCCESS")),
            ("of these OUTCOME_UNKNOWN", code("OUTCOME_UNKNOWN")),
            ("of these OVERLOADED", code("OVERLOADED")),
            ("calls that were run again", count(&|call| call["attempts"].as_u64() > Some(1))),
        ];
        lines.into_iter().for_each(|(what, count)| self.line(what, count));
    }

    /// Adds a figure.
    pub fn line(&mut self, what: &str, figure: impl std::fmt::Display) {
        self.lines.push(format!("  {what}: {figure}"));
    }

    pub fn print(mut self) {
        if is_long() {
            self.line("deaths of the service", self.deaths);
            self.line("failures of the database", self.failures);
            self.line("longest start until it listens", format!("{:.0?}", self.longest_listening));
            self.line("longest start until it is ready", format!("{:.0?}", self.longest_ready));
            println!("{}\n{}", self.name, self.lines.join("\n"));
        }
    }
}
