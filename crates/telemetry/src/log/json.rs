//! The log format with one JSON object per line: the standard members, then the context, then the fields of the event.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::context::Context;
use toolpost_core::domain::Clock;

/// The members of every line.
const STANDARD: [&str; 4] = ["timestamp", "level", "target", "message"];

/// The formatter of events.
#[derive(Debug)]
pub(super) struct JsonLines(pub Clock);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let (now, level, target) = (self.0.now().to_string(), metadata.level().to_string(), metadata.target());
        let standard = STANDARD.into_iter().zip([now, level, target.to_owned(), String::new()]);
        let mut line: Map<String, Value> = standard.map(|(name, value)| (name.to_owned(), value.into())).collect();
        Context::visit(|name, value| drop(line.insert(name.to_owned(), value.into())));
        event.record(&mut Members(&mut line));
        // An object of strings and numbers always serializes.
        writeln!(writer, "{}", serde_json::to_string(&line).unwrap_or_default())
    }
}

/// A visitor that stores the fields of an event as members of an object.
struct Members<'a>(&'a mut Map<String, Value>);

impl Members<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            // Records of the `log` crate, which some libraries use.
            "log.target" => drop(self.0.insert("target".to_owned(), value)),
            name if name.starts_with("log.") => {}
            name if STANDARD[..3].contains(&name) => drop(self.0.insert(format!("{name}_"), value)),
            name => drop(self.0.insert(name.trim_start_matches("r#").to_owned(), value)),
        }
    }
}

impl Visit for Members<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use http::HeaderValue;
    use tracing_subscriber::util::SubscriberInitExt;

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(log: impl FnOnce()) -> Vec<Value> {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        let builder = tracing_subscriber::fmt().with_ansi(false).event_format(JsonLines(Clock::system()));
        let logging = builder.with_writer(move || writer.clone()).finish().set_default();
        log();
        drop(logging);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn line_is_an_object_with_the_fields_of_the_event() {
        let lines = lines(|| {
            tracing::warn!(error = %"a\n\"b\"\u{1b}[31m", count = 3, good = true, level = "own", "what\nhappened");
        });
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&line["level"], &line["message"]), (&"WARN".into(), &"what\nhappened".into()));
        assert_eq!((&line["error"], &line["count"]), (&"a\n\"b\"\u{1b}[31m".into(), &3.into()));
        assert_eq!((&line["good"], &line["level_"]), (&true.into(), &"own".into()));
        assert!(toolpost_core::domain::Time::parse(line["timestamp"].as_str().unwrap()).is_some(), "{line}");
        assert!(line["target"].as_str().unwrap().starts_with("toolpost"), "{line}");
        assert!(line.get("request_id").is_none());
    }

    #[test]
    fn context_is_included_and_event_fields_take_precedence() {
        let context = Context::of_request(HeaderValue::from_static("r-1"), None);
        let context = context.with_call(uuid::Uuid::nil(), &"call_1".into(), &"echo".into(), None);
        let lines = lines(|| {
            context.run(|| {
                tracing::info!("one");
                tracing::info!(id = "h-1", "other");
            });
        });
        for line in &lines {
            assert_eq!((&line["request_id"], &line["call_id"]), (&"r-1".into(), &"call_1".into()), "{line}");
        }
        assert_eq!(lines[0]["id"], "00000000-0000-0000-0000-000000000000");
        assert_eq!(lines[1]["id"], "h-1");
    }
}
