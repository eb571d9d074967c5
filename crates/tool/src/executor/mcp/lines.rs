//! JSON-RPC as bounded lines over the pipes of a program. An invalid or too large message fails only the call that it
//! answers.

use std::io;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use super::annotations;
use crate::executor::http::MAX_ANSWER_BYTES;
use toolpost_core::domain::json;

/// Maximum length of a line, in bytes: a response and its envelope.
const MAX_LINE: usize = MAX_ANSWER_BYTES + 64 * 1024;
/// Number of bytes kept from each end of a line that is too long, to find its id.
const KEPT: usize = 512;
/// Maximum number of messages that wait to be written.
const WAITING: usize = 64;

type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// A transport of JSON-RPC messages in lines.
pub struct LineTransport<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The last bytes of the current line, once it is too long.
    overlong: Option<Vec<u8>>,
    writer: Option<mpsc::Sender<Outgoing>>,
}

impl<R: AsyncRead + Unpin> LineTransport<R> {
    /// Creates a transport over these pipes. A task writes the messages and closes the pipe when the transport is
    /// closed.
    pub fn new(reader: R, writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, outgoing) = mpsc::channel(WAITING);
        tokio::spawn(write(writer, outgoing));
        Self { reader: BufReader::new(reader), line: Vec::new(), overlong: None, writer: Some(sender) }
    }

    /// Reads the next line into `line`. Returns the kept end of a line that is too long, or `None` at the end of the
    /// stream. This method is cancel safe.
    async fn next(&mut self) -> Option<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await.ok().filter(|available| !available.is_empty())?;
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            let chunk = &available[..newline.unwrap_or(taken)];
            match &mut self.overlong {
                Some(end) => {
                    end.extend_from_slice(&chunk[chunk.len().saturating_sub(KEPT)..]);
                    let over = end.len().saturating_sub(KEPT);
                    end.drain(..over);
                }
                None if self.line.len() + chunk.len() > MAX_LINE => {
                    let whole = [&self.line[self.line.len().saturating_sub(KEPT)..], chunk].concat();
                    self.overlong = Some(whole[whole.len().saturating_sub(KEPT)..].to_vec());
                    self.line.truncate(KEPT);
                    self.line.shrink_to_fit();
                }
                None => self.line.extend_from_slice(chunk),
            }
            self.reader.consume(taken);
            if newline.is_some() {
                return Some(self.overlong.take());
            }
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some((bytes, done)) = outgoing.recv().await {
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        // Fails only if the sender no longer waits for the result.
        let _ = done.send(written.await);
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move {
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let mut bytes = serde_json::to_vec(&item)?;
            bytes.push(b'\n');
            let (done, written) = oneshot::channel();
            let Some(writer) = writer else { return Err(closed()) };
            writer.send((bytes, done)).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let overlong = self.next().await?;
            let line = std::mem::take(&mut self.line);
            let message = match overlong {
                Some(end) => id_of_ends(&line, &end).map(too_large),
                None => read(&line),
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.writer = None;
        Ok(())
    }
}

/// Parses a message. Returns `None` for invalid messages that answer no request.
pub(super) fn read(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let (mut value, reason) = match json::parse(line) {
        Ok(value) => (value, None),
        // The message may contain an unsupported number, for example. Its id is read anyway, to fail the right call.
        Err(error) => match serde_json::from_slice::<Value>(line) {
            Ok(value) => (value, Some(error.to_string())),
            Err(_) => match corrected(line) {
                Some(value) => (value, None),
                None => {
                    tracing::debug!("upstream server sent a line that is not JSON");
                    return unreadable(line);
                }
            },
        },
    };
    let id = value.get("id").and_then(Value::as_i64).map(RequestId::Number);
    let is_answer = value.get("method").is_none();
    value.get_mut("result").into_iter().for_each(annotations::pack_all);
    let reason = match reason {
        None => match serde_json::from_value::<ServerJsonRpcMessage>(value) {
            Ok(message) => return Some(message),
            Err(error) => error.to_string(),
        },
        Some(reason) => reason,
    };
    tracing::debug!(reason, "upstream server sent an invalid message");
    id.filter(|_| is_answer).map(|id| failure(id, format!("its response is invalid: {reason}")))
}

/// Parses a line with bytes that are not UTF-8 (they become U+FFFD), with other programs' forms of JSON, or with text after
/// the message.
pub(super) fn corrected(line: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(line);
    let value = json::parse(text.as_bytes()).ok();
    let value = value.or_else(|| json::parse(json::correct(&text)?.0.as_bytes()).ok());
    let value = value.or_else(|| {
        let first = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next()?.ok()?;
        first.get("jsonrpc").is_some().then_some(first)
    });
    value.inspect(|_| tracing::debug!("upstream server sent a line that is not valid JSON; it was corrected"))
}

/// Returns an error in place of a response that is not JSON, so that its call does not wait in vain.
fn unreadable(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let text = String::from_utf8_lossy(line);
    let head = before_content(&text);
    let is_response = text.trim_start().starts_with('{') && head.len() < text.len() && !head.contains("\"method\"");
    let id = id_of_ends(line, line).filter(|_| is_response)?;
    Some(failure(id, "its response is not valid JSON".to_owned()))
}

/// Creates an error in place of an invalid response.
fn failure(id: RequestId, reason: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::internal_error(reason, None), Some(id))
}

/// Creates an error in place of a response that is too large.
pub(super) fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    failure(id, format!("its response is larger than {MAX_ANSWER_BYTES} bytes (16 MiB)"))
}

/// Returns the part of a response before its result or error; everything if it has none.
fn before_content(text: &str) -> &str {
    let end = ["\"result\"", "\"error\""].iter().filter_map(|name| text.find(name)).min();
    &text[..end.unwrap_or(text.len())]
}

/// Finds the id of a message from its two ends. Ids of this client are numbers. Some servers write the id first, others
/// last.
fn id_of_ends(start: &[u8], end: &[u8]) -> Option<RequestId> {
    let number = |text: &[u8]| -> Option<i64> {
        let text = std::str::from_utf8(text).ok()?.trim_start().strip_prefix(':')?.trim_start();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse().ok()
    };
    let start = String::from_utf8_lossy(start);
    let first = before_content(&start).split_once("\"id\"").and_then(|(_, rest)| number(rest.as_bytes()));
    let end = String::from_utf8_lossy(end);
    let last = || {
        let (_, rest) = end.rsplit_once("\"id\"")?;
        // If other than plain members follow, the id is inside of the result.
        let is_last =
            rest.trim_end().ends_with('}') && !rest.contains(['{', '[', ']']) && rest.matches('}').count() == 1;
        is_last.then(|| number(rest.as_bytes())).flatten()
    };
    first.or_else(last).map(RequestId::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(message: Option<ServerJsonRpcMessage>) -> (RequestId, String) {
        let Some(JsonRpcMessage::Error(error)) = message else { panic!("{message:?}") };
        (error.id.unwrap(), error.error.message.into_owned())
    }

    #[tokio::test]
    async fn oversized_line_fails_only_its_call() {
        let long = "x".repeat(MAX_LINE);
        let first = format!("{{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{{\"a\":\"{long}\"}}}}\n");
        let last = format!("{{\"result\":{{\"id\":1,\"a\":\"{long}\"}},\"jsonrpc\":\"2.0\",\"id\": 5}}\n");
        let neither = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":\"{long}\"}}\n");
        let text =
            format!("{first}{neither}{last}\n{{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{{\"content\":[]}}}}\r\n");
        let mut lines = LineTransport::new(text.as_bytes(), tokio::io::sink());
        let (id, reason) = error_of(lines.receive().await);
        assert!(id == RequestId::Number(4) && reason.contains("16 MiB"), "{reason}");
        assert_eq!(error_of(lines.receive().await).0, RequestId::Number(5));
        let answer = lines.receive().await;
        assert!(matches!(&answer, Some(JsonRpcMessage::Response(answer)) if answer.id == RequestId::Number(6)));
        assert!(lines.receive().await.is_none());
        assert!(lines.line.capacity() < MAX_LINE);
    }

    #[test]
    fn invalid_response_fails_its_call() {
        let (id, reason) = error_of(read(br#"{"jsonrpc":"2.0","id":7,"result":{"n":100000000000000000001}}"#));
        assert!(id == RequestId::Number(7) && reason.contains("its response is invalid"), "{reason}");
        assert_eq!(error_of(read(br#"{"jsonrpc":"1.0","id":8,"result":{}}"#)).0, RequestId::Number(8));
        for nothing in [&b"Server started"[..], b"", b"  \r", b"{\"jsonrpc\":\"2.0\"", br#"{"id":1,"method":"x"}"#] {
            assert!(read(nothing).is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn nonstandard_json_is_corrected_and_invalid_json_fails_its_call() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"caf\ud83d end"}]}}"#[..],
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[],\"structuredContent\":{\"n\":NaN}}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}}",
        ] {
            let message = read(line);
            assert!(
                matches!(&message, Some(JsonRpcMessage::Response(response)) if response.id == RequestId::Number(3)),
                "{message:?}"
            );
        }
        let (id, reason) = error_of(read(br#"{"jsonrpc":"2.0","id":9,"result":{"content":[}}"#));
        assert!(id == RequestId::Number(9) && reason.contains("not valid JSON"), "{reason}");
        assert!(read(br#"{"id":9,"method":"x","params":{"result":[}}"#).is_none());
        for broken in [
            &br#"{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"a"b"}}"#[..],
            br#"{"jsonrpc":"2.0","id":9,"result":{"structuredContent":{"method":"GET","x":[}}}"#,
        ] {
            assert_eq!(error_of(read(broken)).0, RequestId::Number(9));
        }
        let with_text = read(br#"{"jsonrpc":"2.0","id":3,"result":{"content":[]}} done in 3 ms"#);
        assert!(matches!(with_text, Some(JsonRpcMessage::Response(_))), "{with_text:?}");
    }

    #[test]
    fn id_is_found_at_either_end_but_not_inside_the_result() {
        assert_eq!(id_of_ends(br#"{"id" : 12,"result":{"#, b""), Some(RequestId::Number(12)));
        assert_eq!(
            id_of_ends(br#"{"result":{"id":1"#, br#"x"}]},"id":3,"jsonrpc":"2.0"}"#),
            Some(RequestId::Number(3))
        );
        assert_eq!(id_of_ends(br#"{"result":{"id":1"#, br#"x","id":3}}"#), None);
        assert_eq!(id_of_ends(br#"{"result":{"#, br#"{"id":3}]}}"#), None);
    }
}
