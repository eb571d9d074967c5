//! Raw requests that a regular client cannot send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Client, bounded};

/// Opens a connection to the service.
pub async fn connect(client: &Client) -> TcpStream {
    TcpStream::connect(client.url("").trim_start_matches("http://")).await.unwrap()
}

/// Sends `head` and `body` unchanged and reads until the service closes. The response may arrive before the body is
/// read.
pub async fn exchange(client: &Client, head: &str, body: &[u8]) -> String {
    let (mut reader, mut writer) = connect(client).await.into_split();
    let bytes = [head.as_bytes(), body].concat();
    let sending = tokio::spawn(async move {
        // The service may have closed the connection.
        let _ = writer.write_all(&bytes).await;
        writer
    });
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    let reading = async {
        while let Ok(read @ 1..) = reader.read(&mut chunk).await {
            answer.extend_from_slice(&chunk[..read]);
        }
    };
    bounded("the end of the connection", reading).await;
    sending.abort();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until the service closes the connection.
pub async fn to_the_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            bytes.extend_from_slice(&chunk[..read]);
        }
    };
    bounded("the end of the connection", reading).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns `true` if the response has this status and is a problem with a request id.
pub fn is_problem(answer: &str, status: u16) -> bool {
    let answer = answer.to_ascii_lowercase();
    answer.starts_with(&format!("http/1.1 {status} "))
        && answer.contains("content-type: application/problem+json")
        && answer.contains("x-request-id: ")
}
