use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::LIMITS;
use super::support::{Bed, Names, Origin, Reply, flood, read_head, until_gone};
use crate::domain::network::NetworkPolicy;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// More than the kernel buffers for two TCP connections (Linux: at most 4 MiB sent and 32 MiB received for each) with
/// what the proxy may hold, which is a few hundred KiB.
const HELD_BYTES: usize = 80 * 1024 * 1024;
const FLOOD_BYTES: usize = 160 * 1024 * 1024;

#[tokio::test]
async fn a_request_reaches_its_server_in_origin_form_with_the_judged_host() {
    let origin = Origin::answering(HELLO).await;
    let (port, name) = (origin.address.port(), "site.example");
    let policy = NetworkPolicy::new(Vec::new(), vec![format!("{name}:{port}").parse().unwrap()]);
    let bed = Bed::start(policy, Names::with(&[(name, &["127.0.0.1"])]), LIMITS).await;
    let mut stream = bed.connect().await;
    let headers = "X-Own: 1\r\nCookie: a=b\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nTE: trailers\r\n";
    bed.send(&mut stream, &format!("GET http://SITE.example:{port}/a%20b?c=d"), headers, b"").await;
    let reply = Reply::whole(&mut stream).await;
    assert_eq!((reply.status(), reply.body.as_slice()), (200, b"hello".as_slice()));

    let head = origin.heads().remove(0);
    assert!(head.starts_with(&format!("GET /a%20b?c=d HTTP/1.1\r\nHost: {name}:{port}\r\n")), "{head}");
    let mut fields: Vec<_> = head.trim_end().lines().skip(1).map(str::to_owned).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["Cookie: a=b".to_owned(), format!("Host: {name}:{port}"), "X-Own: 1".to_owned()]);
}

#[tokio::test]
async fn requests_of_one_connection_share_the_connection_to_their_server() {
    let (origin, other) = (Origin::answering(HELLO).await, Origin::answering(HELLO).await);
    let bed = Bed::exempting(&[origin.address, other.address]).await;
    let mut stream = bed.connect().await;
    for address in [origin.address, other.address, origin.address, other.address, origin.address] {
        bed.send(&mut stream, &format!("GET http://{address}/"), "", b"").await;
        assert_eq!(Reply::sized(&mut stream).await.body, b"hello");
    }
    assert_eq!((origin.connections(), other.connections()), (1, 1));
    drop(stream);
    origin.sees_open(0).await;
    other.sees_open(0).await;
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_is_not_an_error() {
    let origin = Origin::start("127.0.0.1", |mut stream, heads| async move {
        let Some(head) = read_head(&mut stream).await else { return };
        heads.lock().unwrap().push(head);
        stream.write_all(HELLO.as_bytes()).await.unwrap();
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    for _ in 0..20 {
        bed.send(&mut stream, &format!("GET http://{}/", origin.address), "", b"").await;
        assert_eq!(Reply::sized(&mut stream).await.status(), 200);
    }
    assert_eq!(origin.heads().len(), 20);
}

#[tokio::test]
async fn a_request_that_acts_is_sent_once_and_never_on_a_kept_connection() {
    let origin = Origin::start("127.0.0.1", |mut stream, heads| async move {
        while let Some(head) = read_head(&mut stream).await {
            let acts = head.starts_with("POST");
            heads.lock().unwrap().push(head);
            if acts {
                // It took the request and died.
                return;
            }
            stream.write_all(HELLO.as_bytes()).await.unwrap();
        }
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("GET http://{}/", origin.address), "", b"").await;
    assert_eq!(Reply::sized(&mut stream).await.status(), 200);
    bed.send(&mut stream, &format!("POST http://{}/", origin.address), "Content-Length: 0\r\n", b"").await;
    assert_eq!(Reply::sized(&mut stream).await.status(), 502);
    assert_eq!((origin.heads().len(), origin.connections()), (2, 2));
}

#[tokio::test]
async fn a_body_is_held_back_while_its_reader_does_not_read() {
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let origin = Origin::start("127.0.0.1", move |mut stream, _| {
        let counter = Arc::clone(&counter);
        async move {
            read_head(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FLOOD_BYTES}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            flood(&mut stream, FLOOD_BYTES, &counter).await;
        }
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("GET http://{}/", origin.address), "Connection: close\r\n", b"").await;
    let reply = Reply::head(&mut stream).await;
    assert_eq!(reply.header("content-length"), Some(FLOOD_BYTES.to_string()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let held = written.load(Ordering::SeqCst);
    assert!(held < HELD_BYTES, "{held} bytes are on the way to a client that reads none");

    let read = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
    assert_eq!(read, FLOOD_BYTES as u64);
}

#[tokio::test]
async fn an_upload_is_held_back_while_its_server_does_not_read() {
    let origin = Origin::start("127.0.0.1", |mut stream, _| async move {
        read_head(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut body = (&mut stream).take(FLOOD_BYTES as u64);
        let read = tokio::io::copy(&mut body, &mut tokio::io::sink()).await.unwrap();
        let text = read.to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    let headers = format!("Content-Length: {FLOOD_BYTES}\r\n");
    bed.send(&mut stream, &format!("POST http://{}/", origin.address), &headers, b"").await;
    let written = AtomicUsize::new(0);
    let early = tokio::time::timeout(Duration::from_millis(300), flood(&mut stream, FLOOD_BYTES, &written)).await;
    assert!(early.is_err() && written.load(Ordering::SeqCst) < HELD_BYTES);
    // The cut write may have sent a part of its chunk: how much is known only from the count that the server gives.
    flood(&mut stream, FLOOD_BYTES, &written).await;
    let reply = Reply::sized(&mut stream).await;
    assert_eq!(reply.body, FLOOD_BYTES.to_string().as_bytes());
}

#[tokio::test]
async fn chunked_bodies_pass_both_ways() {
    let origin = Origin::start("127.0.0.1", |mut stream, heads| async move {
        let head = read_head(&mut stream).await.unwrap();
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") {
            body.push(stream.read_u8().await.unwrap());
        }
        heads.lock().unwrap().extend([head, String::from_utf8(body).unwrap()]);
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        until_gone(stream).await;
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    let headers = "Transfer-Encoding: chunked\r\nConnection: close\r\n";
    bed.send(&mut stream, &format!("POST http://{}/", origin.address), headers, b"4\r\nwiki\r\n0\r\n\r\n").await;
    let reply = Reply::whole(&mut stream).await;
    assert!(reply.header("transfer-encoding").is_some());
    assert_eq!(String::from_utf8(reply.body).unwrap(), "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(origin.heads()[1], "4\r\nwiki\r\n0\r\n\r\n");
    assert!(!origin.heads()[0].to_lowercase().contains("content-length"));
}

#[tokio::test]
async fn a_length_that_contradicts_the_chunks_is_not_passed_on() {
    let chunked = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n";
    let origin = Origin::answering(chunked).await;
    let bed = Bed::exempting(&[origin.address]).await;
    let reply = bed.exchange(&format!("GET http://{}/", origin.address)).await;
    assert_eq!(reply.header("content-length"), None, "{}", reply.head);
    assert_eq!(String::from_utf8(reply.body).unwrap(), "5\r\nabcde\r\n0\r\n\r\n");

    let mut stream = bed.connect().await;
    let headers = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
    bed.send(&mut stream, &format!("POST http://{}/", origin.address), headers, b"5\r\nabcde\r\n0\r\n\r\n").await;
    Reply::head(&mut stream).await;
    let sent = origin.heads().into_iter().find(|head| head.starts_with("POST")).map(|head| head.to_lowercase());
    assert!(sent.is_none_or(|head| !head.contains("content-length")));
}

#[tokio::test]
async fn answers_without_a_body_leave_the_connection_ready_for_the_next() {
    for (method, answer, length) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", Some("1234")),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", None),
    ] {
        let origin = Origin::answering(answer).await;
        let bed = Bed::exempting(&[origin.address]).await;
        let mut stream = bed.connect().await;
        for _ in 0..3 {
            bed.send(&mut stream, &format!("{method} http://{}/", origin.address), "", b"").await;
            let reply = Reply::head(&mut stream).await;
            assert!(answer.contains(&reply.status().to_string()), "{}", reply.head);
            assert_eq!(reply.header("content-length").as_deref(), length, "{method}: {}", reply.head);
        }
        assert_eq!(origin.connections(), 1, "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_expects_a_go_ahead_gets_it_from_the_proxy() {
    let origin = Origin::start("127.0.0.1", |mut stream, heads| async move {
        let head = read_head(&mut stream).await.unwrap();
        heads.lock().unwrap().push(head);
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(HELLO.as_bytes()).await.unwrap();
        until_gone(stream).await;
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    let headers = "Expect: 100-continue\r\nContent-Length: 4\r\n";
    bed.send(&mut stream, &format!("PUT http://{}/", origin.address), headers, b"").await;
    assert_eq!(Reply::head(&mut stream).await.status(), 100);
    stream.write_all(b"body").await.unwrap();
    assert_eq!(Reply::sized(&mut stream).await.status(), 200);
    assert!(!origin.heads()[0].to_lowercase().contains("expect"), "{}", origin.heads()[0]);
}

#[tokio::test]
async fn a_client_that_hangs_up_takes_its_request_with_it() {
    let silent = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let dripping = Origin::start("127.0.0.1", |mut stream, _| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx").await.unwrap();
        until_gone(stream).await;
    })
    .await;
    for origin in [silent, dripping] {
        let bed = Bed::exempting(&[origin.address]).await;
        let mut stream = bed.connect().await;
        bed.send(&mut stream, &format!("GET http://{}/", origin.address), "", b"").await;
        origin.sees_open(1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream);
        origin.sees_open(0).await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    let origin = Origin::start("127.0.0.1", |mut stream, _| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart").await.unwrap();
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let reply = bed.exchange(&format!("GET http://{}/", origin.address)).await;
    assert_eq!((reply.status(), reply.body.as_slice()), (200, b"part".as_slice()));
    assert_eq!(reply.header("content-length").as_deref(), Some("100"));
}
