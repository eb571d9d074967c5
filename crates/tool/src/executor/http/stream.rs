//! Event stream responses: any number of `progress` events and one `result`.

use reqwest::Response;

use super::fault::Fault;
use super::read::{self, MAX_ANSWER_BYTES};
use super::status;
use crate::executor::report::Report;
use crate::executor::{Emitter, Redaction};
use toolpost_core::domain::decode::DecodeError;
use toolpost_core::domain::{ToolOutput, json};
use toolpost_core::formats::sse::Parser;

/// Extra bytes for field names next to a result of the maximum size.
const FIELD_NAMES: usize = 64;

/// Reads the stream to its first `result` and sends the reports before it. Ignores events with other names. Dropping
/// the response closes the connection. Texts are redacted before they are cut.
///
/// # Errors
/// Returns a [`Fault`] if the stream ends without a `result`, has an `error` event, is too large or is not text.
pub async fn answer(
    mut response: Response,
    emitter: &Emitter,
    redaction: Option<&Redaction>,
) -> Result<ToolOutput, Fault> {
    let mut parser = Parser::new(MAX_ANSWER_BYTES + FIELD_NAMES);
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Err(ended_without_result(&parser)),
            Err(_) => return Err(Fault::of_body(response.url())),
        };
        let mut rest = &chunk[..];
        while let Some(event) = parser.next(&mut rest).map_err(|_| read::too_large())? {
            if event.data.len() > MAX_ANSWER_BYTES {
                return Err(read::too_large());
            }
            let data = event.data;
            match event.name.as_slice() {
                b"progress" => drop(read::parsed(data.len(), move || report(data)).await?.tell(emitter).await),
                b"result" => return read::parsed(data.len(), move || result(data)).await?,
                b"error" => {
                    let text = Redaction::apply(redaction, String::from_utf8_lossy(&data).into_owned());
                    return Err(read::parsed(data.len(), move || error(&text)).await?);
                }
                _ => {}
            }
        }
    }
}

fn ended_without_result(parser: &Parser) -> Fault {
    let hint = if parser.is_within_event() { "; its last event was not terminated by a blank line" } else { "" };
    Fault::terminal(format!("the event stream ended without a `result` event{hint}"))
}

/// Converts a `progress` event: an object as in `POST /progress`, or a text to show. An invalid event is shown to
/// subscribers and does not end the run, because it is not part of the result.
fn report(data: Vec<u8>) -> Report {
    let Ok(text) = String::from_utf8(data) else {
        let message = "is not valid UTF-8".to_owned();
        return Report::invalid(&DecodeError { pointer: String::new(), message });
    };
    match json::parse(text.as_bytes()) {
        Ok(value) if value.is_object() => Report::read(value).unwrap_or_else(|fault| Report::invalid(&fault)),
        Ok(serde_json::Value::String(text)) => Report::text(text),
        _ if text.is_empty() => Report::default(),
        _ => Report::text(text),
    }
}

/// Converts a `result` event: JSON if it is valid JSON, else text.
fn result(data: Vec<u8>) -> Result<ToolOutput, Fault> {
    let text = String::from_utf8(data).map_err(|_| Fault::terminal("the `result` event is not valid UTF-8"))?;
    if text.is_empty() {
        return Ok(ToolOutput::Nothing);
    }
    Ok(ToolOutput::of_json(text).unwrap_or_else(|(text, _)| ToolOutput::Text(text)))
}

fn error(data: &str) -> Fault {
    let message = status::error_message(data);
    let message = if message.is_empty() { "the tool reported an error without a message".to_owned() } else { message };
    Fault::terminal(message)
}
