use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::super::{LIMITS, Limits, Reason};
use super::support::{Bed, Names, Origin, Reply, until_gone};
use crate::domain::network::NetworkPolicy;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const SHORT: Duration = Duration::from_millis(200);

async fn bed(origin: &Origin, limits: Limits) -> Bed {
    let policy = NetworkPolicy::new(Vec::new(), vec![origin.address.to_string().parse().unwrap()]);
    Bed::start(policy, Names::with(&[]), limits).await
}

/// Waits for the proxy to end the connection.
async fn ends(stream: &mut tokio::net::TcpStream) -> Duration {
    let started = Instant::now();
    let mut rest = Vec::new();
    let ended = timeout(Duration::from_secs(2), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is still open");
    started.elapsed()
}

#[tokio::test]
async fn a_head_that_never_ends_ends_the_connection() {
    let origin = Origin::answering(HELLO).await;
    let bed = bed(&origin, Limits { head: SHORT, ..LIMITS }).await;
    let mut slow = bed.connect().await;
    slow.write_all(b"GET http://site.example/ HTTP/1.1\r\nX-Slow: ").await.unwrap();
    assert!(ends(&mut slow).await >= SHORT / 2);
    let mut silent = bed.connect().await;
    ends(&mut silent).await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let origin = Origin::answering(HELLO).await;
    let bed = bed(&origin, LIMITS).await;
    let mut stream = bed.connect().await;
    let line = format!("GET http://{}/{}", origin.address, "a".repeat(70 * 1024));
    bed.send(&mut stream, &line, "", b"").await;
    assert!(matches!(Reply::head(&mut stream).await.status(), 414 | 431));
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn an_exchange_and_a_tunnel_end_when_nothing_moves() {
    let origin = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let bed = bed(&origin, Limits { idle: SHORT, ..LIMITS }).await;
    let mut waiting = bed.connect().await;
    bed.send(&mut waiting, &format!("GET http://{}/", origin.address), "", b"").await;
    assert!(ends(&mut waiting).await >= SHORT / 2);
    let mut tunnel = bed.connect().await;
    bed.send(&mut tunnel, &format!("CONNECT {}", origin.address), "", b"").await;
    Reply::head(&mut tunnel).await;
    assert!(ends(&mut tunnel).await >= SHORT / 2);
    origin.sees_open(0).await;
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let origin = Origin::answering(HELLO).await;
    let bed = bed(&origin, Limits { connections: 2, ..LIMITS }).await;
    let (first, _second) = (bed.connect().await, bed.connect().await);
    let mut third = bed.connect().await;
    bed.send(&mut third, &format!("GET http://{}/", origin.address), "", b"").await;
    assert!(timeout(SHORT, third.readable()).await.is_err());
    drop(first);
    assert_eq!(timeout(Duration::from_secs(2), Reply::sized(&mut third)).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_over_its_share_is_told_that_it_is_busy() {
    let origin = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let mut bed = bed(&origin, Limits { connections_of_a_client: 1, ..LIMITS }).await;
    let mut tunnel = bed.connect().await;
    bed.send(&mut tunnel, &format!("CONNECT {}", origin.address), "", b"").await;
    assert_eq!(Reply::head(&mut tunnel).await.status(), 200);
    let address = origin.address.to_string();
    assert_eq!(bed.reason(&format!("CONNECT {address}"), &address).await, Some(Reason::Busy));
    let _owner = std::mem::replace(&mut bed.client, bed.proxy.add_client());
    let mut other = bed.connect().await;
    bed.send(&mut other, &format!("CONNECT {}", origin.address), "", b"").await;
    assert_eq!(Reply::head(&mut other).await.status(), 200, "another client has its own share");
}

#[tokio::test]
async fn a_removed_client_loses_its_connections_at_once() {
    let origin = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let mut bed = bed(&origin, LIMITS).await;
    let mut tunnel = bed.connect().await;
    bed.send(&mut tunnel, &format!("CONNECT {}", origin.address), "", b"").await;
    Reply::head(&mut tunnel).await;
    let mut waiting = bed.connect().await;
    bed.send(&mut waiting, &format!("GET http://{}/", origin.address), "", b"").await;
    origin.sees_open(2).await;
    bed.client = bed.proxy.add_client();
    ends(&mut tunnel).await;
    ends(&mut waiting).await;
    origin.sees_open(0).await;
}

#[tokio::test]
async fn stopping_the_proxy_leaves_no_task_behind() {
    let origin = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let bed = bed(&origin, LIMITS).await;
    let mut tunnel = bed.connect().await;
    bed.send(&mut tunnel, &format!("CONNECT {}", origin.address), "", b"").await;
    Reply::head(&mut tunnel).await;
    let mut waiting = bed.connect().await;
    bed.send(&mut waiting, &format!("GET http://{}/", origin.address), "", b"").await;
    let _idle = bed.connect().await;
    origin.sees_open(2).await;
    bed.stop.cancel();
    bed.tasks.close();
    timeout(Duration::from_secs(1), bed.tasks.wait()).await.expect("every task of the proxy ends");
    origin.sees_open(0).await;
}
