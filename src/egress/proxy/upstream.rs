//! Connections to servers: made to a judged address, kept for the next request of the same client connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{Either, Empty};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::answer::Fault;
use super::clients::lock;
use super::connection::Connection;
use crate::domain::deadline::Deadline;
use crate::domain::network::HostPort;

/// How long a look-up and a connection may take together: Lightpanda gives its own connections 8 s (`--http-connect-timeout`).
const CONNECT_LIMIT: Duration = Duration::from_secs(8);

/// How many servers a client's connection keeps: libcurl sends requests for any host over any connection to a proxy.
const MAX_KEPT: usize = 8;

/// The largest answer head: what Chromium takes (256 KiB).
const MAX_HEAD_BYTES: usize = 256 * 1024;

/// How many header fields an answer may have.
const MAX_HEADERS: usize = 400;

/// The body of a request on its way out. One without a body can be sent a second time.
pub(super) type Outgoing = Either<Incoming, Empty<Bytes>>;

type Server = SendRequest<Outgoing>;

/// A server's answer, and the connection that it comes on.
pub(super) struct Sent {
    pub response: Response<Incoming>,
    pub server: Server,
}

/// The servers of one client connection.
pub(super) struct Upstreams {
    kept: Arc<Mutex<Vec<(HostPort, Server)>>>,
    /// Cancelled when the client's connection has ended.
    end: CancellationToken,
}

impl Upstreams {
    pub fn new(end: CancellationToken) -> Self {
        Self { kept: Arc::default(), end }
    }

    /// Connects to a judged address of the target: each address gets an equal share of the time that is left.
    pub async fn connect(&self, connection: &Connection, target: &HostPort) -> Result<TcpStream, Fault> {
        let deadline = Deadline::after(CONNECT_LIMIT);
        let addresses = connection.shared.resolver.resolve(target, deadline).await?;
        let mut fault = Fault::ConnectTimeout;
        for (tried, address) in addresses.iter().enumerate() {
            let share = deadline.remaining().div_f64((addresses.len() - tried) as f64);
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Small requests must not wait for Nagle's algorithm; without it they only come later.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => fault = Fault::Connect(error),
                Err(_) => fault = Fault::ConnectTimeout,
            }
        }
        Err(fault)
    }

    /// Sends a request on a kept connection where it could be sent again, else on a fresh one: a server may close a kept
    /// connection at any moment, and nobody can tell then whether it acted (RFC 9112 section 9.3.1).
    pub async fn send(
        &self,
        connection: &Connection,
        target: &HostPort,
        mut request: Request<Outgoing>,
    ) -> Result<Sent, Fault> {
        if let Some(again) = repeatable(&request)
            && let Some(mut server) = self.take_ready(target).await
        {
            match server.send_request(request).await {
                Ok(response) => return Ok(Sent { response, server }),
                Err(_) => request = again,
            }
        }
        let mut server = self.fresh(connection, target).await?;
        let response = server.send_request(request).await.map_err(Fault::Exchange)?;
        Ok(Sent { response, server })
    }

    /// The body of an answer. Its connection is kept once the body has ended, and closed if it never does.
    pub fn stream(&self, body: Incoming, target: &HostPort, server: Server) -> Streamed {
        let kept = Arc::clone(&self.kept);
        let mut streamed = Streamed { body, ending: Some(Ending { kept, target: target.clone(), server }) };
        streamed.keep_if_ended();
        streamed
    }

    async fn take_ready(&self, target: &HostPort) -> Option<Server> {
        while let Some(mut server) = self.take(target) {
            if server.ready().await.is_ok() {
                return Some(server);
            }
        }
        None
    }

    fn take(&self, target: &HostPort) -> Option<Server> {
        let mut kept = lock(&self.kept);
        let place = kept.iter().position(|(of, _)| of == target)?;
        Some(kept.swap_remove(place).1)
    }

    async fn fresh(&self, connection: &Connection, target: &HostPort) -> Result<Server, Fault> {
        let stream = self.connect(connection, target).await?;
        let handshake = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream));
        let (server, exchange) = handshake.await.map_err(Fault::Exchange)?;
        connection.shared.tasks.spawn(self.end.clone().run_until_cancelled_owned(exchange));
        Ok(server)
    }
}

/// The same request once more, if it is safe to repeat and has no body.
fn repeatable(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    if !request.method().is_safe() || matches!(request.body(), Either::Left(_)) {
        return None;
    }
    let mut again = Request::new(Either::Right(Empty::new()));
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// The body of a server's answer, frame by frame as the client takes it.
pub(super) struct Streamed {
    body: Incoming,
    ending: Option<Ending>,
}

/// What to do with the connection once the body has ended.
struct Ending {
    kept: Arc<Mutex<Vec<(HostPort, Server)>>>,
    target: HostPort,
    server: Server,
}

impl Streamed {
    fn keep_if_ended(&mut self) {
        if self.body.is_end_stream() {
            self.keep();
        }
    }

    fn keep(&mut self) {
        let Some(Ending { kept, target, server }) = self.ending.take() else { return };
        let mut kept = lock(&kept);
        if kept.len() == MAX_KEPT {
            kept.remove(0);
        }
        kept.push((target, server));
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            None => self.keep(),
            Some(Ok(_)) => self.keep_if_ended(),
            Some(Err(_)) => self.ending = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
