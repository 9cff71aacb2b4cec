//! Addresses that no page may reach. What arrived at a listener is the truth.

use std::net::Ipv4Addr;

use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};

/// A server on a private address that nobody exempted.
fn forbidden(address: Ipv4Addr) -> Site {
    Pages::new().page("/", "<!doctype html><title>secret</title><h1>Secret</h1>").serve_at(address)
}

#[tokio::test]
async fn every_spelling_of_a_private_address_is_refused() {
    let forbidden = forbidden(Ipv4Addr::LOCALHOST);
    let service = Service::for_sites(&[]).await;
    let port = forbidden.port();
    for host in [
        "127.0.0.1",
        "0x7f000001",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.2",
        "0.0.0.0",
        "[::]",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[fd00::1]",
        "[fe80::1]",
        "１２７.0.0.1",
    ] {
        let answer = service.fetch(json!({ "url": format!("http://{host}:{port}/"), "timeout_ms": 10_000 })).await;
        answer.problem(403, "network_blocked");
    }
    assert_eq!(forbidden.connections(), 0);
    service.finish().await;
}

#[tokio::test]
async fn the_services_own_port_is_refused() {
    let service = Service::for_sites(&[]).await;
    let url = format!("http://127.0.0.1:{}/healthz", service.port());
    service.fetch(json!({ "url": url })).await.problem(403, "network_blocked");
    service.finish().await;
}

#[tokio::test]
async fn what_is_no_http_url_is_refused() {
    let service = Service::for_sites(&[]).await;
    for url in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://example.com/",
        "about:blank",
        "view-source:http://example.com/",
    ] {
        service.fetch(json!({ "url": url })).await.problem(403, "network_blocked");
    }
    for url in ["http://user:word@example.com/", "http://user@example.com/"] {
        service.fetch(json!({ "url": url })).await.problem(403, "network_blocked");
    }
    for url in ["", "example.com", "http://", "http://exa mple.com/", "//example.com/"] {
        let problem = service.fetch(json!({ "url": url })).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], "url", "{url}");
    }
    service.finish().await;
}

/// Pages that try to get from an allowed site to this URL.
fn leading_to(target: &str) -> Site {
    let page = |body: &str| format!("<!doctype html><title>leads</title><h1>Leads</h1>{body}");
    let location = target.to_owned();
    Pages::new()
        .route("/redirect", move |_| Reply::redirect(302, location.clone()))
        .page("/script", page(&format!("<script>location.href = '{target}'</script>")))
        .page("/meta", page(&format!("<meta http-equiv=refresh content='0; url={target}'>")))
        .page("/late", page(&format!("<script>setTimeout(() => location.assign('{target}'), 200)</script>")))
        .page("/fetches", page(&format!("<script>fetch('{target}', {{ mode: 'no-cors' }}).catch(() => {{}})</script>")))
        .page("/embeds", page(&format!("<script src='{target}'></script><link rel=stylesheet href='{target}'><iframe src='{target}'></iframe><img src='{target}'>")))
        .page("/socket", page(&format!("<script>try {{ new WebSocket('{}') }} catch {{}}</script>", target.replace("http:", "ws:"))))
        .serve()
}

#[tokio::test]
async fn a_page_cannot_move_to_a_private_address() {
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)] {
        let forbidden = forbidden(address);
        let site = leading_to(&forbidden.url("/"));
        let service = Service::for_sites(&[&site]).await;
        for path in ["/redirect", "/script", "/meta", "/late"] {
            let answer = service.fetch(json!({ "url": site.url(path), "timeout_ms": 15_000 })).await;
            let problem = answer.problem(403, "network_blocked");
            assert_eq!(problem["url"], forbidden.url("/"), "{path}: the destination is named");
        }
        assert_eq!(forbidden.connections(), 0, "{address}");
        service.finish().await;
    }
}

#[tokio::test]
async fn a_page_cannot_take_anything_from_a_private_address() {
    let forbidden = forbidden(Ipv4Addr::LOCALHOST);
    let site = leading_to(&forbidden.url("/"));
    let service = Service::for_sites(&[&site]).await;
    for path in ["/fetches", "/embeds", "/socket"] {
        let answer = service.fetch(json!({ "url": site.url(path), "timeout_ms": 15_000 })).await.ok();
        assert_eq!(answer["title"], "leads", "{path}: the page itself is read");
    }
    assert_eq!(forbidden.connections(), 0);
    service.finish().await;
    // The same pages do reach a server that is exempted: what is measured above is the refusal.
    let service = Service::for_sites(&[&site, &forbidden]).await;
    for path in ["/fetches", "/embeds"] {
        let before = forbidden.count("/");
        service.fetch(json!({ "url": site.url(path) })).await.ok();
        assert!(forbidden.count("/") > before, "{path}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_page_cannot_reach_the_service_that_reads_it() {
    let own_port = Pages::new()
        .route("/", |request| {
            let target = request.query.get("target").cloned().unwrap_or_default();
            Reply::html(format!("<!doctype html><title>leads</title><script>location.href = '{target}'</script>"))
        })
        .serve();
    let service = Service::for_sites(&[&own_port]).await;
    let url = own_port.url(&format!("/?target=http://127.0.0.1:{}/healthz", service.port()));
    service.fetch(json!({ "url": url })).await.problem(403, "network_blocked");
    service.finish().await;
}
