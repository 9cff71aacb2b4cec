//! What clients may hold, and what happens when one or the service goes away.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{AGENT, Hang, PATIENCE, Server, bearer, json_headers, read_answer};
use crate::api::server::ServerLimits;

/// True if the server has closed it without an answer.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    ended.is_ok() && bytes.is_empty()
}

async fn begin_hanging(server: &mut Server, target: &str) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(server.head("GET", target, &bearer(AGENT), 0).as_bytes()).await.unwrap();
    assert_eq!(timeout(PATIENCE, server.hang.recv()).await.unwrap(), Some(Hang::Began));
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_ends_its_call() {
    let mut server = Server::start().await;
    for _ in 0..20 {
        let stream = begin_hanging(&mut server, "/v1/hang").await;
        let hung_up = Instant::now();
        drop(stream);
        assert_eq!(timeout(PATIENCE, server.hang.recv()).await.unwrap(), Some(Hang::Dropped));
        assert!(hung_up.elapsed() < Duration::from_secs(1), "{:?}", hung_up.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_arrive_in_time_closes_its_connection() {
    let limits = ServerLimits { header_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let server = Server::start_with(limits).await;
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    let started = Instant::now();
    assert!(is_closed(&mut silent).await && is_closed(&mut slow).await);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::start().await;
    let headers = format!("X-Filler: {}\r\n", "x".repeat(20_000));
    assert_eq!(server.request("GET", "/healthz", &headers, "").await.status, 431);
    let headers = format!("X-Filler: {}\r\n", "x".repeat(12_000));
    assert_eq!(server.request("GET", "/healthz", &headers, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_send_nothing_or_slowly_take_no_place_from_honest_clients() {
    let limits = ServerLimits { connections: 8, ..ServerLimits::default() };
    let mut server = Server::start_with(limits).await;
    let working = begin_hanging(&mut server, "/v1/hang?1500").await;
    let slow_body = server.head("POST", "/v1/echo", &json_headers(), 1000) + "{";
    let mut held = Vec::new();
    for round in 0..60 {
        let mut stream = server.connect().await;
        let part: &[u8] = [b"".as_slice(), b"GET / HTTP/1.1\r\nHost: ", slow_body.as_bytes()][round % 3];
        // It may have been closed for another by now.
        let _ = stream.write_all(part).await;
        held.push(stream);
        let asked = Instant::now();
        assert_eq!(server.get("/v1/status").await.status, 200, "round {round}");
        assert!(asked.elapsed() < Duration::from_secs(1), "round {round}: {:?}", asked.elapsed());
    }
    assert!(is_closed(&mut held[0]).await, "the first to wait is the first to go");
    let mut working = working;
    assert_eq!(read_answer(&mut working).await.text(), "done", "a call in flight is not closed for another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_serves_one_request_after_the_other() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let keep = server.head("GET", "/healthz", "", 0).replace("Connection: close\r\n", "");
    let last = server.head("GET", "/healthz", "", 0);
    stream.write_all((keep.clone() + &keep + &last).as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200").count(), 3, "{text}");
    let ids: std::collections::HashSet<_> = text.lines().filter(|line| line.starts_with("x-request-id")).collect();
    assert_eq!(ids.len(), 3, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_lets_calls_in_flight_end_and_nobody_else_in() {
    let mut server = Server::start().await;
    let mut working = begin_hanging(&mut server, "/v1/hang?700").await;
    let mut idle = server.connect().await;
    let mut half = server.connect().await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    // Both are accepted once a later connection has its answer.
    assert_eq!(server.get("/v1/status").await.status, 200);
    let stopped = Instant::now();
    server.shutdown.cancel();
    assert_eq!(read_answer(&mut working).await.text(), "done");
    assert!(is_closed(&mut idle).await && is_closed(&mut half).await);
    server.tracker.close();
    timeout(PATIENCE, server.tracker.wait()).await.unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_a_stuck_call_no_longer_than_it_may() {
    let limits = ServerLimits { drain: Duration::from_millis(300), ..ServerLimits::default() };
    let mut server = Server::start_with(limits).await;
    let mut stuck = begin_hanging(&mut server, "/v1/hang").await;
    server.shutdown.cancel();
    assert!(is_closed(&mut stuck).await);
    assert_eq!(server.hang.recv().await, Some(Hang::Dropped));
    server.tracker.close();
    timeout(PATIENCE, server.tracker.wait()).await.unwrap();
}
