//! One client's connection: who it belongs to, and which way each of its requests goes.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, SetOnce};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::{Answer, Fault, not_for_a_proxy, unauthenticated};
use super::clients::ClientState;
use super::idle::IdleLimited;
use super::upstream::Upstreams;
use super::{Shared, forward, tunnel};
use crate::domain::network::HostPort;

/// The largest request head: twice what nginx takes by default (4 buffers of 8 KiB), so the server answers, not we.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How many header fields a request may have: twice what hyper takes by default, as pages may add their own.
const MAX_HEADERS: usize = 200;

/// What the requests of one connection share. It lives as long as the connection, or as the tunnel that it became.
pub(super) struct Connection {
    pub shared: Arc<Shared>,
    /// The servers that this connection talked to; they go when it goes.
    pub upstreams: Upstreams,
    owner: SetOnce<Owner>,
    _slot: OwnedSemaphorePermit,
    _end: DropGuard,
}

/// The client whose credentials came with the first request.
struct Owner {
    client: Arc<ClientState>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    pub fn new(shared: Arc<Shared>, slot: OwnedSemaphorePermit) -> Arc<Self> {
        let end = CancellationToken::new();
        let upstreams = Upstreams::new(end.clone());
        Arc::new(Self { shared, upstreams, owner: SetOnce::new(), _slot: slot, _end: end.drop_guard() })
    }

    pub async fn serve(self: Arc<Self>, stream: TcpStream) {
        // Small answers must not wait for Nagle's algorithm; without it they only come later.
        let _ = stream.set_nodelay(true);
        let stream = TokioIo::new(IdleLimited::new(stream, self.shared.limits.idle));
        let this = Arc::clone(&self);
        let service = service_fn(move |request| {
            let connection = Arc::clone(&this);
            async move { Ok::<_, Infallible>(connection.answer(request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.shared.limits.head)
            .max_header_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .preserve_header_case(true)
            .auto_date_header(false)
            .serve_connection(stream, service)
            .with_upgrades();
        tokio::select! {
            ended = served => if let Err(error) = ended {
                tracing::debug!(%error, "a connection to the egress proxy ended early");
            },
            () = self.revoked() => {}
        }
    }

    /// Waits until the proxy stops or the client that owns this connection is removed.
    pub async fn revoked(&self) {
        let removed = async { self.owner.wait().await.client.gone.cancelled().await };
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            () = removed => {}
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let Some(client) = self.shared.clients.authenticate(request.headers()) else { return unauthenticated() };
        let target = match request.method() {
            &Method::CONNECT => tunnel::target(&request),
            _ => forward::target(&request),
        };
        let Some(target) = target else { return not_for_a_proxy() };
        match self.belongs_to(&client) {
            Ok(true) => {}
            Ok(false) => return unauthenticated(),
            Err(fault) => return self.refuse(&client, target, &fault),
        }
        let answered = match request.method() {
            &Method::CONNECT => tunnel::open(&self, &target, request).await,
            _ => forward::exchange(&self, &target, request).await,
        };
        answered.unwrap_or_else(|fault| self.refuse(&client, target, &fault))
    }

    /// Makes the connection this client's, or says whether it already is. It never changes hands.
    fn belongs_to(&self, client: &Arc<ClientState>) -> Result<bool, Fault> {
        if let Some(owner) = self.owner.get() {
            return Ok(Arc::ptr_eq(&owner.client, client));
        }
        let slot = Arc::clone(&client.connections).try_acquire_owned().map_err(|_| Fault::Busy)?;
        // HTTP/1.1 answers one request after the other, so nobody else sets it.
        Ok(self.owner.set(Owner { client: Arc::clone(client), _slot: slot }).is_ok())
    }

    /// Notes what did not happen, and answers the request with it.
    fn refuse(&self, client: &ClientState, target: HostPort, fault: &Fault) -> Answer {
        let reason = fault.reason();
        tracing::debug!(host = %target.host, port = target.port, %reason, "the egress proxy did not pass a request on");
        let answer = self.shared.mark.answer(reason, &target);
        client.record(target, reason);
        answer
    }
}
