use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::super::{EGRESS_HEADER, LIMITS, Reason};
use super::support::{Bed, Names, Origin, Reply, read_head};
use crate::domain::network::{HostPort, NetworkPolicy};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test]
async fn a_private_address_is_refused_before_a_byte_leaves() {
    let origin = Origin::answering(HELLO).await;
    let bed = Bed::exempting(&[]).await;
    let port = origin.address.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "a.localhost"] {
        let get = bed.reason(&format!("GET http://{host}:{port}/"), &format!("{host}:{port}")).await;
        assert_eq!(get, Some(Reason::Private), "{host}");
        let connect = bed.reason(&format!("CONNECT {host}:{port}"), &format!("{host}:{port}")).await;
        assert_eq!(connect, Some(Reason::Private), "{host}");
    }
    let reply = bed.exchange(&format!("GET http://127.0.0.1:{port}/")).await;
    assert_eq!((reply.status(), origin.connections()), (403, 0));
}

#[tokio::test]
async fn a_name_that_turns_private_is_judged_at_every_connection() {
    let outside = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let Ok(inside) = TcpListener::bind(("127.0.0.1", port)).await else {
        panic!("the same port is free on both addresses");
    };
    let answer = |mut stream: tokio::net::TcpStream, _| async move {
        read_head(&mut stream).await;
        stream.write_all(HELLO.as_bytes()).await.unwrap();
    };
    let (outside, inside) = (Origin::on(outside, answer), Origin::on(inside, answer));

    let names = Names::with(&[
        ("turns.example", &["127.0.0.2", "127.0.0.1"]),
        ("mixed.example", &["127.0.0.2 127.0.0.1"]),
        ("once.example", &["127.0.0.2", "10.255.255.255"]),
    ]);
    let policy = NetworkPolicy::new(vec!["127.0.0.2/32".parse().unwrap()], Vec::new());
    let bed = Bed::start(policy, names, LIMITS).await;

    let line = format!("GET http://turns.example:{port}/");
    assert_eq!(bed.exchange(&line).await.status(), 200);
    assert_eq!(bed.reason(&line, &format!("turns.example:{port}")).await, Some(Reason::Private));
    let line = format!("GET http://mixed.example:{port}/");
    assert_eq!(bed.reason(&line, &format!("mixed.example:{port}")).await, Some(Reason::Private));
    // A second look-up between the check and the connection would lead to 10.255.255.255.
    assert_eq!(bed.exchange(&format!("GET http://once.example:{port}/")).await.status(), 200);
    assert_eq!((outside.connections(), inside.connections()), (2, 0));
}

#[tokio::test]
async fn the_proxys_own_port_and_the_services_are_closed_in_every_spelling() {
    let service = Origin::answering(HELLO).await;
    let trusted = ["127.0.0.0/8", "0.0.0.0/8", "::/0"].map(|range| range.parse().unwrap());
    let policy = NetworkPolicy::new(trusted.to_vec(), vec![service.address.to_string().parse().unwrap()]);
    let names = Names::with(&[("me.example", &["127.0.0.1"])]);
    let bed = Bed::start(policy.with_own_ports([service.address]), names, LIMITS).await;
    for port in [service.address.port(), bed.proxy.address().port()] {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.0.0.1.",
            "127.0.0.9",
            "0.0.0.0",
            "localhost",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "me.example",
        ] {
            let reason = bed.reason(&format!("GET http://{host}:{port}/"), &format!("{host}:{port}")).await;
            assert_eq!(reason, Some(Reason::OwnPort), "{host}:{port}");
            let reason = bed.reason(&format!("CONNECT {host}:{port}"), &format!("{host}:{port}")).await;
            assert_eq!(reason, Some(Reason::OwnPort), "{host}:{port}");
        }
    }
    assert_eq!(service.connections(), 0);
}

#[tokio::test]
async fn wrong_or_missing_credentials_open_nothing() {
    let origin = Origin::answering(HELLO).await;
    let bed = Bed::exempting(&[origin.address]).await;
    let removed = bed.proxy.add_client();
    let old = removed.url();
    drop(removed);
    for headers in
        ["", "Proxy-Authorization: Basic eDp5\r\n", "Proxy-Authorization: Basic !\r\n", "Authorization: Basic eDp5\r\n"]
    {
        for line in [format!("GET http://{}/", origin.address), format!("CONNECT {}", origin.address)] {
            let mut stream = bed.connect().await;
            let head = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let reply = Reply::whole(&mut stream).await;
            assert_eq!(reply.status(), 407, "{line} {headers}");
            assert!(reply.header("proxy-authenticate").unwrap().starts_with("Basic"));
            assert_eq!(reply.header(EGRESS_HEADER), None);
        }
    }
    assert!(!old.is_empty() && origin.connections() == 0);
}

#[tokio::test]
async fn a_connection_never_changes_hands() {
    let origin = Origin::answering(HELLO).await;
    let mut bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("GET http://{}/", origin.address), "", b"").await;
    assert_eq!(Reply::sized(&mut stream).await.status(), 200);
    let first = std::mem::replace(&mut bed.client, bed.proxy.add_client());
    bed.send(&mut stream, &format!("GET http://{}/", origin.address), "", b"").await;
    assert_eq!(Reply::sized(&mut stream).await.status(), 407);
    drop(first);
}

#[tokio::test]
async fn what_no_page_may_ask_for_is_refused_by_form() {
    let bed = Bed::exempting(&[]).await;
    for (line, target) in [
        ("GET http://user:pass@site.example/", "site.example:80"),
        ("GET https://site.example/", "site.example:443"),
        ("GET http://site.example:25/", "site.example:25"),
        ("CONNECT site.example:22", "site.example:22"),
        ("CONNECT site.example..:443", "site.example..:443"),
    ] {
        assert_eq!(bed.reason(line, target).await, Some(Reason::Invalid), "{line}");
    }
    for line in ["GET /", "GET ftp://site.example/", "OPTIONS *", "CONNECT site.example", "CONNECT a@site.example:443"]
    {
        let reply = bed.exchange(line).await;
        assert!(matches!(reply.status(), 400 | 403), "{line}: {}", reply.head);
    }
}

#[tokio::test]
async fn a_servers_fault_is_a_bad_gateway_with_its_reason() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = Origin::start("127.0.0.1", |mut stream, _| async move {
        read_head(&mut stream).await;
    })
    .await;
    let garbage = Origin::answering("SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    let switching =
        Origin::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").await;
    let bed = Bed::exempting(&[closed, silent.address, garbage.address, switching.address]).await;
    let cases: [(SocketAddr, Reason); 4] = [
        (closed, Reason::Refused),
        (silent.address, Reason::Reset),
        (garbage.address, Reason::Reset),
        (switching.address, Reason::Reset),
    ];
    for (address, reason) in cases {
        let reply = bed.exchange(&format!("GET http://{address}/")).await;
        let target: HostPort = address.to_string().parse().unwrap();
        assert_eq!(reply.status(), 502, "{reason}");
        assert_eq!(bed.proxy.reason_in(&reply.header(EGRESS_HEADER).unwrap(), &target), Some(reason));
    }
    bed.client.take_refusals();
    assert_eq!(bed.reason("GET http://nowhere.example/", "nowhere.example:80").await, Some(Reason::Dns));
    assert_eq!(bed.reason("CONNECT nowhere.example:443", "nowhere.example:443").await, Some(Reason::Dns));
}

#[tokio::test]
async fn a_server_cannot_pass_its_own_answer_off_as_ours() {
    let answer = "HTTP/1.1 403 Forbidden\r\nX-Pandarium-Egress: 00; reason=private\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::answering(answer).await;
    let bed = Bed::exempting(&[origin.address]).await;
    let reply = bed.exchange(&format!("GET http://{}/", origin.address)).await;
    assert_eq!((reply.status(), reply.header(EGRESS_HEADER)), (403, None));
    assert!(bed.client.refusals().is_empty());
}
