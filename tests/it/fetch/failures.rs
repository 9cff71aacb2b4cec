//! Hosts that cannot be reached and answers that break off.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use serde_json::json;

use crate::support::service::{Service, Setup};
use crate::support::site::{Pages, Reply};

/// An address where nobody listens.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap()
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_refused() {
    let nobody = free_address();
    let service = Setup::new(&[]).env("PANDARIUM_ALLOW_PRIVATE", nobody.to_string()).start().await;
    let problem = service.fetch(json!({ "url": format!("http://{nobody}/") })).await.navigation_failed("refused");
    assert_eq!(problem["retryable"], true);
    service.finish().await;
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_a_dns_failure() {
    let service = Service::for_sites(&[]).await;
    let problem = service.fetch(json!({ "url": "http://no-such-host.invalid/" })).await.navigation_failed("dns");
    assert_eq!(problem["url"], "http://no-such-host.invalid/");
    service.finish().await;
}

#[tokio::test]
async fn https_to_a_server_that_speaks_plain_http_is_a_tls_failure() {
    let site = Pages::new().serve();
    let service = Service::for_sites(&[&site]).await;
    let url = format!("https://{}/", site.address());
    service.fetch(json!({ "url": url })).await.navigation_failed("tls");
    service.finish().await;
}

#[tokio::test]
async fn a_connection_that_ends_before_the_whole_answer_is_a_reset() {
    let site = Pages::new()
        .route("/closed", |_| Reply::closed())
        .route("/short", |_| Reply::short("<!doctype html><title>s</title><h1>Half a page"))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    for path in ["/closed", "/short"] {
        let problem =
            service.fetch(json!({ "url": site.url(path), "artifact": "always" })).await.navigation_failed("reset");
        assert_eq!(problem["url"], site.url(path));
    }
    assert_eq!(service.status().await["store"]["artifacts"], 0, "half a page is not kept");
    service.finish().await;
}

#[tokio::test]
async fn a_server_that_resets_the_connection_is_a_reset() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Closed with unread bytes, a socket is reset.
            let _ = stream.peek(&mut [0; 16]);
        }
    });
    let service = Setup::new(&[]).env("PANDARIUM_ALLOW_PRIVATE", address.to_string()).start().await;
    service.fetch(json!({ "url": format!("http://{address}/") })).await.navigation_failed("reset");
    service.finish().await;
}
