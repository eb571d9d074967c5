//! A slow network: everything arrives late, and nothing waits for what was sent before it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Size of one piece, in bytes.
const PIECE: usize = 64 * 1024;
/// Number of pieces that are on their way.
const ON_THE_WAY: usize = 64;

/// Forwards bytes to the end of the stream, each of them `delay` after it came.
pub async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sent, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let read = async move {
        loop {
            let mut piece = vec![0; PIECE];
            let Ok(length) = from.read(&mut piece).await else { return };
            piece.truncate(length);
            if length == 0 || sent.send((Instant::now() + delay, piece)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, piece)) = arriving.recv().await {
            tokio::time::sleep_until(at).await;
            // Either side may close at any time.
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
