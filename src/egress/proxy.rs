//! The pinning proxy: resolves, judges, and connects to the judged address and nothing else.
//!
//! It serves workers whose engine cannot judge for itself: an exemption is for one port, and an engine behind a proxy
//! judges the proxy's address only. HTTP/1.1 in absolute form is forwarded, everything else is tunnelled by `CONNECT`.
//!
//! How a refusal is told apart from a page's own 403: [`EgressProxy::reason_in`] for plain HTTP, and
//! [`ProxyClient::refusals`] for tunnels, where an engine shows a failed connection and nothing more.

mod answer;
mod clients;
mod connection;
mod forward;
mod headers;
mod idle;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use answer::{EGRESS_HEADER, Reason};
pub use clients::{ProxyClient, Refused};

use super::resolver::{Lookup, Resolver, SystemLookup};
use crate::domain::network::{HostPort, NetworkPolicy};
use answer::Mark;
use clients::Clients;
use connection::Connection;

/// How long to wait before accepting again when the process has run out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What one proxy allows.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How many connections are served at once. Each holds two sockets, and 1,024 files are what Linux gives a process by
    /// default.
    connections: usize,
    /// How many of them one client may hold, so that a page with a thousand sockets leaves room for other workers:
    /// Lightpanda has 40 transfers at once (`--http-max-concurrent`), and a worker up to 8 pages.
    connections_of_a_client: usize,
    /// How long a request's head may take, and how long a connection may wait for its next request. libcurl, which is what
    /// Lightpanda uses, notices the end of a kept connection and makes another.
    head: Duration,
    /// How long nothing may move in either direction: a web socket that pings, or an event stream, moves more often.
    idle: Duration,
}

const LIMITS: Limits = Limits {
    connections: 448,
    connections_of_a_client: 320,
    head: Duration::from_secs(30),
    idle: Duration::from_secs(600),
};

/// A proxy that listens on a loopback port of its own choice.
pub struct EgressProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// What every connection of one proxy needs.
struct Shared {
    resolver: Resolver,
    clients: Clients,
    mark: Mark,
    tasks: TaskTracker,
    stop: CancellationToken,
    limits: Limits,
}

impl EgressProxy {
    /// Binds 127.0.0.1 and serves until `stop` is cancelled. Every task of the proxy is spawned on `tasks`.
    pub async fn start(policy: NetworkPolicy, tasks: TaskTracker, stop: CancellationToken) -> io::Result<Self> {
        Self::start_with(policy, Arc::new(SystemLookup), LIMITS, tasks, stop).await
    }

    async fn start_with(
        policy: NetworkPolicy,
        lookup: Arc<dyn Lookup>,
        limits: Limits,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let resolver = Resolver::new(Arc::new(policy.with_own_ports([address])), lookup);
        let (clients, mark) = (Clients::new(address, limits.connections_of_a_client), Mark::random());
        let shared = Arc::new(Shared { resolver, clients, mark, tasks: tasks.clone(), stop, limits });
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The policy it was started with, which also knows the proxy's own port: the one that everybody else should use.
    pub fn policy(&self) -> &NetworkPolicy {
        self.shared.resolver.policy()
    }

    /// Resolves and judges as the proxy does.
    pub fn resolver(&self) -> &Resolver {
        &self.shared.resolver
    }

    /// Makes credentials for one worker. They end, and so do the connections made with them, when the value is dropped.
    pub fn add_client(&self) -> ProxyClient {
        self.shared.clients.add()
    }

    /// Why this proxy itself answered a request for `target`, read from the value of the response's [`EGRESS_HEADER`];
    /// `None` for a page's own answer, whatever header it made up.
    pub fn reason_in(&self, header: &str, target: &HostPort) -> Option<Reason> {
        self.shared.mark.read(header, target)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(shared.limits.connections));
    let stop = shared.stop.clone();
    stop.run_until_cancelled_owned(async move {
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let stream = next_connection(&listener).await;
            let connection = Connection::new(Arc::clone(&shared), slot);
            shared.tasks.spawn(connection.serve(stream));
        }
    })
    .await;
}

async fn next_connection(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "the egress proxy cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
