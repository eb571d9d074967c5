//! Problems of the service (RFC 9457) as errors of a command.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::cli::error::CliError;
use crate::cli::print;
use crate::domain::json;

/// Maximum length of a part of a problem, in characters.
const LONGEST: usize = 2000;
/// Maximum number of shown fields.
const MAX_FIELDS: usize = 20;

/// The members of a problem that are shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    detail: String,
    code: String,
    errors: Vec<Field>,
    request_id: String,
}

/// An invalid field of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Field {
    pointer: String,
    message: String,
}

/// Converts an error response of the service with this name.
pub fn error(status: StatusCode, body: &[u8], service: &str) -> CliError {
    let problem = serde_json::from_slice::<Problem>(body).ok().filter(|problem| !problem.detail.is_empty());
    let Some(problem) = problem else {
        let error = of_status(status, format!("{service} responded with {status}"));
        return error.hint("Check that --server (TOOLPOST_SERVER) is the URL of the service, with its path prefix.");
    };
    let mut lines = vec![print::one_line(&problem.detail, LONGEST)];
    // The message of a single field is the detail.
    let fields = problem.errors.iter().filter(|field| !field.pointer.is_empty() || field.message != problem.detail);
    for Field { pointer, message } in fields.take(MAX_FIELDS) {
        let location = print::one_line(json::pointer_text(pointer), LONGEST);
        lines.push(if *message == problem.detail {
            location
        } else {
            format!("{location}: {}", print::one_line(message, LONGEST))
        });
    }
    let code = print::one_line(&problem.code, LONGEST);
    lines.push(format!("HTTP {} {code}, request {}", status.as_u16(), print::one_line(&problem.request_id, LONGEST)));
    let error = of_status(status, lines.join("\n  "));
    match status {
        StatusCode::UNAUTHORIZED => error.hint(
            "Set --key or TOOLPOST_KEY to an API key of the service; `toolpost keys create` on its machine makes one.",
        ),
        StatusCode::FORBIDDEN => error.hint("Use a key with the permission; `toolpost keys list` shows scopes."),
        _ => error,
    }
}

/// Returns an error with the exit code for the status: the request is at fault, or the service is unavailable.
fn of_status(status: StatusCode, message: String) -> CliError {
    let is_temporary = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if status.is_client_error() && !is_temporary { CliError::usage(message) } else { CliError::unavailable(message) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::Exit;

    fn shown(status: u16, body: &serde_json::Value) -> (Exit, String) {
        let error = error(StatusCode::from_u16(status).unwrap(), body.to_string().as_bytes(), "http://h");
        (error.exit, error.to_string())
    }

    #[test]
    fn problem_is_shown_with_its_fields_and_request_id() {
        let body = json!({"detail": "2 fields are invalid; see `errors`", "code": "INVALID_REQUEST", "request_id": "r-1",
            "errors": [{"pointer": "/name", "message": "is missing"}, {"pointer": "/a", "message": "must\nbe \u{1b}[1m"}]});
        let (exit, text) = shown(422, &body);
        assert_eq!(exit, Exit::Usage);
        let lines = ["error: 2 fields are invalid; see `errors`", "  /name: is missing", "  /a: must be [1m"];
        assert_eq!(text, format!("{}\n  HTTP 422 INVALID_REQUEST, request r-1", lines.join("\n")));
        let one = json!({"detail": "must be set", "code": "C", "request_id": "r", "errors": [{"pointer": "/x", "message": "must be set"}]});
        assert_eq!(shown(422, &one).1, "error: must be set\n  /x\n  HTTP 422 C, request r");
    }

    #[test]
    fn exit_code_distinguishes_wrong_requests_from_an_unavailable_service() {
        let body = json!({"detail": "d", "code": "C", "request_id": "r"});
        for (status, exit) in [
            (400, Exit::Usage),
            (401, Exit::Usage),
            (404, Exit::Usage),
            (408, Exit::Unavailable),
            (429, Exit::Unavailable),
            (500, Exit::Unavailable),
            (503, Exit::Unavailable),
        ] {
            assert_eq!(shown(status, &body).0, exit, "{status}");
        }
        assert!(shown(401, &body).1.contains("TOOLPOST_KEY"));
    }

    #[test]
    fn response_of_another_server_is_named_by_its_status() {
        let error = error(StatusCode::BAD_GATEWAY, b"<html>", "http://h/p").to_string();
        assert!(error.starts_with("error: http://h/p responded with 502 Bad Gateway\n"), "{error}");
    }
}
