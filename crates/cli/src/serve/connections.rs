//! Connections: each is a task, within limits, so that slow, idle and very many clients cost little.
//!
//! ```text
//!   accept ─► a place? ─► TLS handshake ─► head of a request ─► router ─► response ─┐
//!               512          10 s            10 s, 64 KiB        30 s     30 s without progress
//!                                              ▲                                      │
//!                                              └────────────── keep-alive ◄───────────┘
//! ```

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::address::{BoundSocket, ByteStream};
use super::answer::ErrorResponse;
use super::certificate::Certificate;

/// How many connections are open at a time. A further one is closed at once.
const CONNECTIONS_MAX: usize = 512;
/// For a TLS handshake, for the head of a request, and between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// For the body of a request and all that is done for it.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what is sent to it.
const STALL_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause after an accept that failed: there may be no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves every connection, for ever.
pub(super) async fn serve(
    socket: BoundSocket,
    certificate: Option<Certificate>,
    router: Router,
) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (stream, peer) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let tls = certificate.as_ref().map(Certificate::acceptor);
        let router = router.clone().layer(Extension(peer));
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => serve_stream(stream, router).await,
                Some(tls) => {
                    // A client that speaks no TLS or distrusts the certificate learns it from its own end.
                    if let Ok(Ok(stream)) = timeout(HEAD_TIME_MAX, tls.accept(stream)).await {
                        serve_stream(stream, router).await;
                    }
                }
            }
        });
    }
}

/// Serves the requests of one connection. An error there is the client's: it is gone, too slow, or not understood.
async fn serve_stream(stream: impl ByteStream + 'static, router: Router) {
    let stream = TokioIo::new(StallGuard { stream, stalled: None });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(HEAD_BYTES_MAX);
    let _ = http.serve_connection(stream, TowerToHyperService::new(router)).await;
}

/// Answers in time: a client may send the body of a request as slowly as it likes.
pub(super) async fn in_time(request: Request, next: Next) -> Result<Response, ErrorResponse> {
    timeout(REQUEST_TIME_MAX, next.run(request)).await.map_err(|_| {
        let why = format!("this took longer than {} s", REQUEST_TIME_MAX.as_secs());
        ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, why)
    })
}

/// A stream whose writes fail if the other end takes nothing for too long.
struct StallGuard<S> {
    stream: S,
    /// Runs while a write is waiting.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    /// Passes on what a write said, or the error when it has waited for too long.
    fn checked<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let ends = || Box::pin(tokio::time::sleep_until(Instant::now() + STALL_TIME_MAX));
        ready!(self.stalled.get_or_insert_with(ends).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.checked(cx, wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.checked(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.checked(cx, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.checked(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use axum::middleware;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A server on a stream of memory. Time stands still, and moves on when nothing else is left to do.
    fn served() -> DuplexStream {
        let long = || async { "x".repeat(1 << 20) };
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/long", get(long))
            .route("/body", post(|body: String| async move { body }))
            .layer(middleware::from_fn(in_time));
        let (ours, theirs) = duplex(1024);
        tokio::spawn(serve_stream(theirs, router));
        ours
    }

    async fn after(stream: &mut DuplexStream) -> (String, Duration) {
        let (mut text, began) = (Vec::new(), Instant::now());
        let _ = stream.read_to_end(&mut text).await;
        (String::from_utf8(text).expect("text"), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_is_not_waited_for() {
        let mut stream = served();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").await.unwrap();
        let (text, took) = after(&mut stream).await;
        assert_eq!((text.as_str(), took), ("", HEAD_TIME_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        let mut stream = served();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let (text, took) = after(&mut stream).await;
        assert!(text.ends_with("here"), "{text}");
        assert_eq!(took, HEAD_TIME_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_not_waited_for() {
        let mut stream = served();
        stream
            .write_all(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
            .await
            .unwrap();
        let (text, took) = after(&mut stream).await;
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
        assert!(took < REQUEST_TIME_MAX + HEAD_TIME_MAX + Duration::from_secs(1), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let mut stream = served();
        stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        sleep(STALL_TIME_MAX + Duration::from_secs(1)).await;
        let (text, _) = after(&mut stream).await;
        assert!(text.len() < 1 << 20, "it got all of it");
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_now_and_then_gets_all() {
        let mut stream = served();
        stream
            .write_all(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut part = [0; 1024];
        for _ in 0..100 {
            sleep(STALL_TIME_MAX - Duration::from_secs(1)).await;
            stream.read_exact(&mut part).await.expect("more");
        }
        let (text, _) = after(&mut stream).await;
        assert!(text.len() > 900_000, "{}", text.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_too_long_is_refused() {
        let mut stream = served();
        let head =
            format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
        let (mut reader, mut writer) = tokio::io::split(&mut stream);
        let mut text = String::new();
        let (_, _) =
            tokio::join!(writer.write_all(head.as_bytes()), reader.read_to_string(&mut text));
        assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    }
}
