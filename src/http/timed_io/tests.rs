//! Tests of the timeouts, in paused time that advances only while all tasks are idle.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::http::requests::Unread;

const CLOCKS: ConnectionTimeouts = ConnectionTimeouts {
    header: Duration::from_secs(10),
    idle: Duration::from_secs(75),
    write: Duration::from_secs(30),
};

fn wire() -> (TimedIo<DuplexStream>, DuplexStream, Arc<RequestTracker>) {
    let (here, there) = tokio::io::duplex(64);
    let tracker = Arc::<RequestTracker>::default();
    let last_words: ErrorResponder = Arc::new(|_| Bytes::from_static(b"too slow"));
    (TimedIo::new(here, CLOCKS, tracker.clone(), last_words), there, tracker)
}

async fn took<T>(work: impl Future<Output = T>) -> (T, u64) {
    let start = Instant::now();
    let done = work.await;
    (done, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn idle_connection_ends_without_an_error() {
    let (mut wire, _there, _) = wire();
    let (read, seconds) = took(wire.read(&mut [0; 9])).await;
    assert_eq!((read.unwrap(), seconds), (0, 75), "as if the other side had closed it");
}

#[tokio::test(start_paused = true)]
async fn incomplete_headers_get_a_timeout_response() {
    let (mut wire, mut there, _) = wire();
    there.write_all(b"GET /").await.unwrap();
    wire.read_exact(&mut [0; 5]).await.unwrap();
    let drip = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            there.write_all(b"x").await.unwrap();
        }
    };
    let reading = async {
        loop {
            if let Err(error) = wire.read(&mut [0; 9]).await {
                return error;
            }
        }
    };
    let ((error, ()), seconds) = took(async { tokio::join!(reading, drip) }).await;
    assert_eq!((error.kind(), seconds), (io::ErrorKind::TimedOut, 10), "counted from the first byte");
    let mut received = [0; 8];
    there.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"too slow");
}

#[tokio::test(start_paused = true)]
async fn timeouts_pause_during_a_request_and_restart_after_it() {
    let (mut wire, mut there, tracker) = wire();
    there.write_all(b"GET /").await.unwrap();
    wire.read_exact(&mut [0; 5]).await.unwrap();
    let request_guard = tracker.begin();
    let in_work = tokio::time::timeout(Duration::from_secs(3600), wire.read(&mut [0; 9])).await;
    assert!(in_work.is_err(), "nothing fires meanwhile");
    drop(request_guard);
    let (read, seconds) = took(wire.read(&mut [0; 9])).await;
    assert_eq!((read.unwrap(), seconds), (0, 75), "the previous headers were complete");
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_fires_without_another_read() {
    let (wire, mut there, tracker) = wire();
    let (mut reading, mut writing) = tokio::io::split(wire);
    let request_guard = tracker.begin();
    let answering = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(request_guard);
        writing.write_all(b"answer").await.unwrap();
        there.read_exact(&mut [0; 6]).await.unwrap();
    };
    let mut little = [0; 9];
    // The library reads once during the request, and then waits for its end.
    let ((read, ()), seconds) = took(async { tokio::join!(reading.read(&mut little), answering) }).await;
    assert_eq!(read.unwrap(), 0);
    assert!((175..=250).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn short_request_resets_the_timeouts() {
    let (mut wire, mut there, tracker) = wire();
    there.write_all(b"GET /").await.unwrap();
    wire.read_exact(&mut [0; 5]).await.unwrap();
    drop(tracker.begin());
    assert_eq!(took(wire.read(&mut [0; 9])).await.1, 75);
}

#[tokio::test(start_paused = true)]
async fn write_timeout_ends_stalled_but_not_slow_clients() {
    let (mut wire, mut there, _) = wire();
    let much = [7; 640];
    let slowly = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            there.read_exact(&mut [0; 64]).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(wire.write_all(&much), slowly);
    written.unwrap();
    let (written, seconds) = took(wire.write_all(&much)).await;
    assert_eq!((written.unwrap_err().kind(), seconds), (io::ErrorKind::TimedOut, 30));
}

#[tokio::test(start_paused = true)]
async fn idle_timeout_does_not_end_a_slow_response() {
    let (wire, mut there, _) = wire();
    let (mut reading, mut writing) = tokio::io::split(wire);
    let slowly = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            there.read_exact(&mut [0; 64]).await.unwrap();
        }
    };
    let (much, mut little) = ([7; 1280], [0; 9]);
    let ((read, written, ()), seconds) =
        took(async { tokio::join!(reading.read(&mut little), writing.write_all(&much), slowly) }).await;
    written.unwrap();
    assert_eq!(read.unwrap(), 0);
    assert!((400..=475).contains(&seconds), "{seconds}: the connection ends 75 s after the last byte was read");
}

#[tokio::test(start_paused = true)]
async fn bare_errors_of_the_library_are_replaced() {
    let (mut wire, mut there, tracker) = wire();
    let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    wire.write_all(bare).await.unwrap();
    wire.flush().await.unwrap();
    let mut received = [0; 8];
    there.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"too slow");
    // A response of the service that looks the same is not replaced.
    let request_guard = tracker.begin();
    let looks_like_it = b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n";
    wire.write_all(looks_like_it).await.unwrap();
    let mut same = [0; 39];
    there.read_exact(&mut same).await.unwrap();
    assert_eq!(&same, looks_like_it);
    drop(request_guard);
    for other in [&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], b"HTTP/1.1 400 B\r\ncontent-length: 9\r\n\r\n"]
    {
        assert_eq!(bare_error_status(other), None);
    }
}

#[tokio::test(start_paused = true)]
async fn unread_request_is_drained_until_the_client_closes() {
    let (mut wire, mut there, tracker) = wire();
    drop(tracker.begin());
    tracker.leave_unread(tracker.begun(), Unread::Unknown);
    let sending = async {
        there.write_all(&[b'x'; 100_000]).await.unwrap();
        drop(there);
    };
    let ((ended, ()), seconds) = took(async { tokio::join!(wire.shutdown(), sending) }).await;
    assert!(ended.is_ok());
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn drain_before_close_is_short_and_rare() {
    let (mut wire, _there, tracker) = self::wire();
    drop(tracker.begin());
    tracker.leave_unread(tracker.begun(), Unread::Unknown);
    let (ended, seconds) = took(wire.shutdown()).await;
    assert!(ended.is_ok());
    assert_eq!(seconds, FINAL_READ_TIMEOUT.as_secs());
    let (mut wire, _there, tracker) = self::wire();
    drop(tracker.begin());
    tracker.leave_unread(tracker.begun(), Unread::Unknown);
    drop(tracker.begin());
    let (ended, seconds) = took(wire.shutdown()).await;
    assert!(ended.is_ok());
    assert_eq!(seconds, 0, "the last request was read to its end");
}

#[tokio::test]
async fn client_that_leaves_a_watched_request_ends_the_connection() {
    let (mut wire, mut there, tracker) = wire();
    let _request_guard = tracker.begin();
    there.write_all(b"next").await.unwrap();
    drop(there);
    wire.flush().await.unwrap();
    tracker.end_with_client();
    assert_eq!(wire.flush().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn bytes_read_ahead_are_the_next_request() {
    let (mut wire, mut there, tracker) = wire();
    let request_guard = tracker.begin();
    tracker.end_with_client();
    there.write_all(b"next request").await.unwrap();
    wire.flush().await.unwrap();
    there.write_all(b", and more").await.unwrap();
    drop(request_guard);
    wire.flush().await.unwrap();
    let mut read = [0; 22];
    wire.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"next request, and more");
}

#[tokio::test]
async fn client_is_not_watched_before_the_body_has_ended() {
    let (mut wire, mut there, tracker) = wire();
    let _request_guard = tracker.begin();
    tracker.expect_body();
    tracker.end_with_client();
    there.write_all(b"body").await.unwrap();
    wire.flush().await.unwrap();
    let mut body = [0; 4];
    wire.read_exact(&mut body).await.unwrap();
    drop(there);
    wire.flush().await.unwrap();
    tracker.end_body();
    assert!(wire.flush().await.is_err());
}
