//! The text of a notification: the name of the sender and a few signals, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::Signal;

/// Maximum length of a payload in bytes. PostgreSQL rejects 8000 bytes or more.
const MAX_BYTES: usize = 7900;

#[derive(Serialize)]
struct Outgoing<'a> {
    from: &'a str,
    signals: &'a [Signal],
}

#[derive(Deserialize)]
struct Incoming {
    from: String,
    /// Untyped, because a newer node may send kinds that this one does not know.
    signals: Vec<Value>,
}

/// A received notification.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceivedSignal {
    /// The node that sent it.
    pub from: String,
    /// The signals of known kinds.
    pub signals: Vec<Signal>,
}

/// Writes signals as payloads, as few as their lengths allow.
pub(super) fn write(from: &str, signals: &[Signal]) -> Vec<String> {
    let Ok(text) = serde_json::to_string(&Outgoing { from, signals }) else { return Vec::new() };
    if text.len() <= MAX_BYTES {
        return vec![text];
    }
    match signals {
        [] => Vec::new(),
        // A signal that is too long is replaced by one that covers it.
        [signal] => {
            let short = signal.clone().without_arguments();
            if short == *signal { Vec::new() } else { write(from, &[short]) }
        }
        _ => {
            let (first, second) = signals.split_at(signals.len() / 2);
            let mut payloads = write(from, first);
            payloads.append(&mut write(from, second));
            payloads
        }
    }
}

/// Reads a payload. Returns `None` if it is not a payload of a node.
pub(super) fn read(text: &str) -> Option<ReceivedSignal> {
    let Incoming { from, signals } = serde_json::from_str(text).ok()?;
    let signals = signals.into_iter().filter_map(|signal| serde_json::from_value(signal).ok()).collect();
    Some(ReceivedSignal { from, signals })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn payload_is_read_as_it_was_written() {
        let signals = vec![
            Signal::Tools,
            Signal::Inbox { call: Some(Uuid::from_u128(7)) },
            Signal::Session { session: Some(("t".into(), "s\"\u{1f600}".into())) },
            Signal::Presence { watches: true },
        ];
        let payloads = write("node-1", &signals);
        assert_eq!(payloads.len(), 1);
        assert_eq!(read(&payloads[0]), Some(ReceivedSignal { from: "node-1".into(), signals }));
    }

    #[test]
    fn many_signals_are_split_into_short_payloads() {
        let signals: Vec<Signal> = (0..256).map(|n| Signal::Inbox { call: Some(Uuid::from_u128(n)) }).collect();
        let payloads = write("node-1", &signals);
        assert!(payloads.iter().all(|payload| payload.len() <= MAX_BYTES) && payloads.len() < 8);
        let read: Vec<Signal> = payloads.iter().flat_map(|payload| read(payload).unwrap().signals).collect();
        assert_eq!(read, signals);
    }

    #[test]
    fn oversized_signal_loses_its_arguments() {
        let long = Signal::Session { session: Some(("t".into(), "x".repeat(9000))) };
        let payloads = write("n", &[Signal::Tools, long]);
        let read: Vec<Signal> = payloads.iter().flat_map(|payload| read(payload).unwrap().signals).collect();
        assert_eq!(read, [Signal::Tools, Signal::Session { session: None }]);
        assert!(write(&"n".repeat(9000), &[Signal::Tools]).is_empty());
    }

    #[test]
    fn malformed_payload_is_ignored() {
        for text in ["", "tools", "{}", "[]", "{\"from\":1,\"signals\":[]}", "{\"from\":\"n\",\"signals\":\"tools\"}"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn unknown_kind_is_skipped() {
        let text = r#"{"from":"n","new":1,"signals":[{"kind":"later","x":1},{"kind":"inbox","call":"x"},7,{"kind":"keys","y":2}]}"#;
        assert_eq!(read(text).unwrap().signals, [Signal::Keys]);
    }
}
