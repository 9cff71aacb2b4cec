//! `CONNECT`: a tunnel for TLS and for web sockets.

use std::io;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, copy_buf, split};
use tokio::net::TcpStream;

use super::answer::{Answer, Fault, connected};
use super::connection::Connection;
use crate::domain::network::HostPort;

/// What a tunnel holds in memory for each direction.
const BUFFER_BYTES: usize = 32 * 1024;

/// Where a `CONNECT` leads; `None` if it does not name a host and a port.
pub(super) fn target(request: &Request<Incoming>) -> Option<HostPort> {
    request.uri().authority()?.as_str().parse().ok()
}

/// Connects to the target, and answers; the tunnel itself runs as a task of its own.
pub(super) async fn open(
    connection: &Arc<Connection>,
    target: &HostPort,
    mut request: Request<Incoming>,
) -> Result<Answer, Fault> {
    let server = connection.upstreams.connect(connection, target).await?;
    let upgrade = hyper::upgrade::on(&mut request);
    let tunnel = run(Arc::clone(connection), upgrade, server);
    connection.shared.tasks.spawn(tunnel);
    Ok(connected())
}

async fn run(connection: Arc<Connection>, upgrade: OnUpgrade, server: TcpStream) {
    let carried = async {
        match upgrade.await {
            Ok(client) => carry(client, server).await,
            Err(error) => Err(io::Error::other(error)),
        }
    };
    tokio::select! {
        ended = carried => if let Err(error) = ended {
            tracing::debug!(%error, "a tunnel ended early");
        },
        () = connection.revoked() => {}
    }
}

/// Carries bytes both ways. The tunnel ends when the server has said everything, or at once when the client has gone:
/// neither TLS nor web sockets leave one half of a connection open, and a server must not be kept for nobody.
async fn carry(client: Upgraded, server: TcpStream) -> io::Result<()> {
    let (from_client, to_client) = split(TokioIo::new(client));
    let (from_server, to_server) = server.into_split();
    let up = pump(from_client, to_server);
    let down = pump(from_server, to_client);
    tokio::pin!(down);
    tokio::select! {
        ended = &mut down => ended,
        // A server that takes nothing more may still have something to say.
        sent = up => match sent {
            Ok(()) => Ok(()),
            Err(_) => down.await,
        },
    }
}

async fn pump(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy_buf(&mut BufReader::with_capacity(BUFFER_BYTES, from), &mut to).await?;
    to.shutdown().await
}
