//! What the end of a program means for its call.

use serde_json::{Map, Value, json};

use super::output::Output;
use super::protocol::{End, Told};
use super::tail;
use crate::domain::{Answer, Failure, Outcome, outcome_of};
use crate::executor::Redaction;

/// The outcome of a run: what was written, and how it ended. What was enforced is in its details, and what was said on
/// standard error.
pub fn outcome(name: &str, told: Told, output: Output, stderr: String, redaction: Option<&Redaction>) -> Answer {
    let ended = match told.end {
        End::Exited(0) => None,
        End::Exited(code) => Some((format!("Command exited with code {code}"), json!({"exit_code": code}))),
        End::Killed(signal) => Some((format!("Command was killed by signal {signal}"), json!({"signal": signal}))),
        End::TooManyProcesses(most) => {
            Some((format!("Command was killed: it had more than {most} processes"), json!({"processes": most})))
        }
        End::Refused(reason) => {
            return with_details(Outcome::failed(Failure::execution(name, reason)), told.sandbox, String::new());
        }
    };
    let outcome = match ended {
        None => outcome_of(name, output.answer()),
        Some((end, details)) => {
            let message = said(name, output, &stderr, redaction, &end);
            Outcome::failed(Failure::execution(name, message).with_details(details))
        }
    };
    with_details(outcome, told.sandbox, stderr)
}

/// What a program that failed has written, and how it ended.
fn said(name: &str, output: Output, stderr: &str, redaction: Option<&Redaction>, end: &str) -> String {
    let text = if output.has_result() { outcome_of(name, output.answer()).output } else { output.text() };
    let shown = tail::of(&text, redaction);
    let parts = [shown.trim_end(), stderr.trim_end(), end];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn with_details(mut outcome: Outcome, sandbox: Map<String, Value>, stderr: String) -> Answer {
    outcome.details.insert("sandbox".to_owned(), Value::Object(sandbox));
    if !stderr.is_empty() {
        outcome.details.insert("stderr".to_owned(), Value::String(stderr));
    }
    Answer::Outcome(Box::new(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(end: End, stdout: &str, stderr: &str) -> Outcome {
        let mut output = Output::default();
        output.take(stdout.as_bytes()).unwrap();
        output.finish();
        let sandbox = json!({"landlock": true}).as_object().unwrap().clone();
        let answer = outcome("t", Told { end, sandbox }, output, stderr.to_owned(), None);
        let Answer::Outcome(outcome) = answer else { panic!("an outcome") };
        assert_eq!(outcome.details["sandbox"]["landlock"], true);
        *outcome
    }

    #[test]
    fn a_good_end_is_the_output() {
        let outcome = of(End::Exited(0), "{\"a\":1}\n", "a warning");
        assert_eq!((outcome.output.as_str(), outcome.is_error()), ("{\"a\":1}", false));
        assert_eq!(outcome.details["stderr"], "a warning");
        assert_eq!(of(End::Exited(0), "", "").output, "Done");
        assert!(of(End::Exited(0), "{\"error\":\"e\"}", "").is_error());
    }

    #[test]
    fn a_bad_end_tells_what_was_written_and_how_it_ended() {
        let outcome = of(End::Exited(3), "out\n", "err\n");
        assert_eq!(outcome.output, "Error executing tool \"t\": out\n\nerr\n\nCommand exited with code 3");
        assert_eq!(outcome.error.unwrap().details, Some(json!({"exit_code": 3})));
        assert!(of(End::Killed(9), "", "").output.ends_with(": Command was killed by signal 9"));
        let result = of(End::Exited(1), "{\"event\":\"result\",\"output\":\"o\"}\n", "");
        assert!(result.output.contains("o\n\nCommand exited with code 1"), "{}", result.output);
        assert!(of(End::TooManyProcesses(4), "", "").output.contains("more than 4 processes"));
        assert!(of(End::Refused("no".into()), "", "").output.ends_with(": no"));
    }
}
