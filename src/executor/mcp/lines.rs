//! JSON-RPC in lines over the pipes of a program, within bounds. A message that is none, or too large, is the failure of the
//! call that it answers and of no other.

use std::io;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use super::annotations;
use crate::domain::json;
use crate::executor::http::MAX_ANSWER_BYTES;

/// Longest line: an answer and what is around it.
const LONGEST: usize = MAX_ANSWER_BYTES + 64 * 1024;
/// What is kept of a line that is too long, at each end, so that its id is found.
const END: usize = 512;
/// Messages that wait to be written.
const WAITING: usize = 64;

type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

/// The transport.
pub struct LineTransport<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The last bytes of a line that is too long, once it is.
    overlong: Option<Vec<u8>>,
    writer: Option<mpsc::Sender<Outgoing>>,
}

impl<R: AsyncRead + Unpin> LineTransport<R> {
    /// Over these pipes. What is sent is written by a task, which closes the pipe when this is closed.
    pub fn new(reader: R, writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, outgoing) = mpsc::channel(WAITING);
        tokio::spawn(write(writer, outgoing));
        Self { reader: BufReader::new(reader), line: Vec::new(), overlong: None, writer: Some(sender) }
    }

    /// The next whole line in `line`, or all that is kept of one that is too long; `None` at the end. It can be dropped at any
    /// point and called again.
    async fn next(&mut self) -> Option<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await.ok().filter(|available| !available.is_empty())?;
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            let piece = &available[..newline.unwrap_or(taken)];
            match &mut self.overlong {
                Some(end) => {
                    end.extend_from_slice(&piece[piece.len().saturating_sub(END)..]);
                    let over = end.len().saturating_sub(END);
                    end.drain(..over);
                }
                None if self.line.len() + piece.len() > LONGEST => {
                    let whole = [&self.line[self.line.len().saturating_sub(END)..], piece].concat();
                    self.overlong = Some(whole[whole.len().saturating_sub(END)..].to_vec());
                    self.line.truncate(END);
                    self.line.shrink_to_fit();
                }
                None => self.line.extend_from_slice(piece),
            }
            self.reader.consume(taken);
            if newline.is_some() {
                return Some(self.overlong.take());
            }
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some((bytes, told)) = outgoing.recv().await {
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        // Whoever does not wait for it any more does not want to know.
        let _ = told.send(written.await);
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
            let (told, written) = oneshot::channel();
            let Some(writer) = writer else { return Err(closed()) };
            writer.send((bytes, told)).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let overlong = self.next().await?;
            let line = std::mem::take(&mut self.line);
            let message = match overlong {
                Some(end) => id_of_ends(&line, &end).map(|id| {
                    let limit = MAX_ANSWER_BYTES;
                    failure(id, format!("its answer is larger than {limit} bytes (16 MiB)"))
                }),
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

/// A message; `None` for what is none and answers nothing.
pub(super) fn read(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let (mut value, reason) = match json::parse(line) {
        Ok(value) => (value, None),
        // A number, for one, that none of ours can be: which call it answers is found out all the same.
        Err(error) => match serde_json::from_slice::<Value>(line) {
            Ok(value) => (value, Some(error.to_string())),
            Err(_) => {
                tracing::debug!("an upstream server has written a line that is no JSON");
                return None;
            }
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
    tracing::debug!(reason, "an upstream server has written a message that is none");
    id.filter(|_| is_answer).map(|id| failure(id, format!("its answer is none: {reason}")))
}

/// Instead of an answer that cannot be used.
fn failure(id: RequestId, reason: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::internal_error(reason, None), Some(id))
}

/// The id of a message of which only both ends are known; ours are numbers. Some servers write it first, others last.
fn id_of_ends(start: &[u8], end: &[u8]) -> Option<RequestId> {
    let number = |text: &[u8]| -> Option<i64> {
        let text = std::str::from_utf8(text).ok()?.trim_start().strip_prefix(':')?.trim_start();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse().ok()
    };
    let start = String::from_utf8_lossy(start);
    let head = start.split("\"result\"").next().unwrap_or_default();
    let first = head.split_once("\"id\"").and_then(|(_, rest)| number(rest.as_bytes()));
    let end = String::from_utf8_lossy(end);
    let last = || {
        let (_, rest) = end.rsplit_once("\"id\"")?;
        // Anything but other plain members behind it would be within the result.
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
    async fn a_line_that_is_too_long_fails_its_own_call_and_the_next_is_read() {
        let long = "x".repeat(LONGEST);
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
        assert!(lines.line.capacity() < LONGEST);
    }

    #[test]
    fn what_answers_a_call_and_is_no_answer_fails_that_call() {
        let (id, reason) = error_of(read(br#"{"jsonrpc":"2.0","id":7,"result":{"n":100000000000000000001}}"#));
        assert!(id == RequestId::Number(7) && reason.contains("its answer is none"), "{reason}");
        assert_eq!(error_of(read(br#"{"jsonrpc":"1.0","id":8,"result":{}}"#)).0, RequestId::Number(8));
        for nothing in [&b"Server started"[..], b"", b"  \r", b"{\"jsonrpc\":\"2.0\"", br#"{"id":1,"method":"x"}"#] {
            assert!(read(nothing).is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn an_id_is_found_at_either_end_and_not_within() {
        assert_eq!(id_of_ends(br#"{"id" : 12,"result":{"#, b""), Some(RequestId::Number(12)));
        assert_eq!(
            id_of_ends(br#"{"result":{"id":1"#, br#"x"}]},"id":3,"jsonrpc":"2.0"}"#),
            Some(RequestId::Number(3))
        );
        assert_eq!(id_of_ends(br#"{"result":{"id":1"#, br#"x","id":3}}"#), None);
        assert_eq!(id_of_ends(br#"{"result":{"#, br#"{"id":3}]}}"#), None);
    }
}
