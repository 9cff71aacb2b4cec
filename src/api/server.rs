//! Connections: HTTP/1.1 over TCP with bounds on what a client may hold, and a graceful end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::connections::{Connections, Place};

/// What clients may hold, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections. Default 1,024.
    pub connections: usize,
    /// For the whole head of a request, from the moment that the connection opened or the last answer ended; so also
    /// how long an idle connection is kept. Default 10 s.
    pub header_timeout: Duration,
    /// How long calls in flight may go on after the shutdown began. Default 10 s.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { connections: 1024, header_timeout: Duration::from_secs(10), drain: Duration::from_secs(10) }
    }
}

/// Request line and headers together, in bytes; hyper answers 431 above it. A `GET` with a page's URL in its query
/// needs 8 KiB of it at most.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What hyper may buffer of one connection, in bytes: 1,024 connections stay below 32 MiB.
const MAX_BUFFER_BYTES: usize = 32 * 1024;

/// How long a request that is on its way when the shutdown begins may take to arrive.
const LATE_REQUESTS: Duration = Duration::from_millis(500);

/// The pause after a failed `accept`, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Serves until `shutdown`, then lets calls in flight end. Returns once every connection is closed.
///
/// A client that hangs up ends its call: hyper drops the handler's future, and all that it holds. What is no HTTP, or a
/// head above the limit, never becomes a request: hyper answers it itself, with a bare 400 or 431.
pub async fn serve_connections(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    shutdown: CancellationToken,
    tracker: TaskTracker,
) {
    let connections = Connections::new(limits.connections);
    while let Some(accepted) = shutdown.run_until_cancelled(accept(&listener, &connections)).await {
        let (stream, place) = accepted;
        tracker.spawn(serve_one(stream, place, router.clone(), limits.header_timeout, shutdown.clone()));
    }
    drop(listener);
    drain(&connections, limits.drain).await;
}

async fn accept(listener: &TcpListener, connections: &Arc<Connections>) -> (TcpStream, Place) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, connections.admit().await),
            Err(error) if of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "cannot accept a connection");
                // Out of descriptors, most likely: one that only waits has one to give.
                connections.close_longest_waiting();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The connection was gone before it was accepted; the listener is well.
fn of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn serve_one(
    stream: TcpStream,
    place: Place,
    router: Router,
    header_timeout: Duration,
    shutdown: CancellationToken,
) {
    // An answer goes out at once. Failing that, it is only slower.
    let _ = stream.set_nodelay(true);
    let handle = place.handle();
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(handle.clone());
        router.clone().oneshot(request)
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        ended = &mut connection => return log_end(ended),
        () = place.told_to_close() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = &mut connection => log_end(ended),
        () = place.told_to_close() => {}
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection ended early");
    }
}

async fn drain(connections: &Connections, limit: Duration) {
    let ended = async {
        if tokio::time::timeout(LATE_REQUESTS, connections.all_closed()).await.is_err() {
            connections.close_waiting();
            connections.all_closed().await;
        }
    };
    if tokio::time::timeout(limit, ended).await.is_err() {
        tracing::warn!("calls were still running at the end of the shutdown and are cut off");
        connections.close_all();
        connections.all_closed().await;
    }
}
