//! Conversion of 2xx responses: event streams, and bodies that are read completely.

use reqwest::Response;

use super::fault::Fault;
use super::read::{self, Media, check_encoding};
use super::stream;
use crate::domain::ToolOutput;
use crate::executor::Emitter;

/// Reads a 2xx response. Reports of an event stream are sent to `emitter`. `hide` redacts texts before they are cut.
///
/// # Errors
/// Returns a [`Fault`] if the body is too large, incomplete, compressed, does not match its media type, or has a type
/// that is not text, JSON or an image.
pub async fn read(response: Response, emitter: &Emitter, hide: impl Fn(String) -> String) -> Result<ToolOutput, Fault> {
    let media = Media::of(response.headers());
    check_encoding(response.headers())?;
    if media.essence == "text/event-stream" {
        return stream::answer(response, emitter, hide).await;
    }
    let bytes = read::body(response).await?;
    read::parsed(bytes.len(), move || media.read(bytes)).await?.map_err(Fault::terminal)
}
