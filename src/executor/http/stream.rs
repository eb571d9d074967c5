//! An answer that is an event stream: any number of `progress` events and one `result`.

use reqwest::Response;

use super::fault::Fault;
use super::limits::MAX_ANSWER_BYTES;
use super::{read, status};
use crate::domain::decode::DecodeError;
use crate::domain::{ToolOutput, json};
use crate::executor::Emitter;
use crate::executor::report::Report;
use crate::formats::sse::Parser;

/// Room for the names of fields beside a result of the full size.
const FIELD_NAMES: usize = 64;

/// Reads the stream to its first `result`, and tells what comes before it. Events of other names are left to whoever
/// understands them. Dropping the response closes the connection, whatever else the server had to say.
///
/// # Errors
/// A stream that ends without a `result`, or with an `error`, is too large or no text.
pub async fn answer(
    mut response: Response,
    emitter: &Emitter,
    hide: impl Fn(String) -> String,
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
                    let text = hide(String::from_utf8_lossy(&data).into_owned());
                    return Err(read::parsed(data.len(), move || error(&text)).await?);
                }
                _ => {}
            }
        }
    }
}

fn ended_without_result(parser: &Parser) -> Fault {
    let hint = if parser.is_within_event() { "; no blank line ended its last event" } else { "" };
    Fault::terminal(format!("the event stream ended without a `result` event{hint}"))
}

/// What a `progress` event says: an object of the shape that `POST /progress` takes, or a text to show. One that cannot
/// be read is shown to people as such, and stops nothing: it was no part of the result.
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

/// JSON where it is such, else text.
fn result(data: Vec<u8>) -> Result<ToolOutput, Fault> {
    let text = String::from_utf8(data).map_err(|_| Fault::terminal("the `result` event is not valid UTF-8"))?;
    if text.is_empty() {
        return Ok(ToolOutput::Nothing);
    }
    Ok(ToolOutput::of_json(text).unwrap_or_else(|(text, _)| ToolOutput::Text(text)))
}

fn error(data: &str) -> Fault {
    let said = status::said(data);
    let said = if said.is_empty() { "the tool reported an error without a message".to_owned() } else { said };
    Fault::terminal(said)
}
