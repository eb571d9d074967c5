//! The answer of a 2xx response: an event stream, or a body that is read as a whole.

use reqwest::Response;

use super::fault::Fault;
use super::read::{self, Media, check_encoding};
use super::stream;
use crate::domain::ToolOutput;
use crate::executor::Emitter;

/// The answer of a 2xx response. What an event stream says before its result goes to `emitter`.
///
/// # Errors
/// A body that is too large, cut off, compressed, of a type that is neither text, JSON nor an image, or not what its type
/// says. `hide` takes secrets out of what is cut.
pub async fn read(response: Response, emitter: &Emitter, hide: impl Fn(String) -> String) -> Result<ToolOutput, Fault> {
    let media = Media::of(response.headers());
    check_encoding(response.headers())?;
    if media.essence == "text/event-stream" {
        return stream::answer(response, emitter, hide).await;
    }
    let bytes = read::body(response).await?;
    read::parsed(bytes.len(), move || media.read(bytes)).await?.map_err(Fault::terminal)
}
