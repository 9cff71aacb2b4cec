//! Pages and servers that do not come to an end.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};
use crate::support::until;

/// A slot must be free again within a second of the end of its call.
const SLOT_FREE: Duration = Duration::from_secs(1);

fn endless_site() -> Site {
    Pages::new()
        .route("/drips", |_| Reply::endless("<p>drop</p>", Duration::from_millis(100)))
        .route("/stalls", |_| Reply::stalled("<!doctype html><h1>Begins"))
        .route("/silent", |_| Reply::silent())
        .serve()
}

#[tokio::test]
async fn a_body_that_never_ends_costs_the_call_its_deadline_and_nothing_more() {
    let site = endless_site();
    let service = Service::for_sites(&[&site]).await;
    for path in ["/drips", "/stalls", "/silent"] {
        let call = json!({ "url": site.url(path), "timeout_ms": 1500 });
        service.fetch(call).await.problem(504, "deadline_exceeded");
        service.busy(0, SLOT_FREE).await;
        until("the site sees the connection close", Duration::from_secs(2), || site.hung_up(path) == 1).await;
        assert_eq!(service.read(&site.url("/static.html")).await["title"], "Tides", "after {path}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_ends_the_load() {
    let site = endless_site();
    let service = Service::for_sites(&[&site]).await;
    let call = service.fetch(json!({ "url": site.url("/silent"), "timeout_ms": 30_000 }));
    let left = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::select! {
            _ = call => panic!("a silent server was answered for"),
            () = until("the page is asked for", Duration::from_secs(15), || site.count("/silent") == 1) => {}
        }
    });
    left.await.expect("the page is asked for");
    service.busy(0, SLOT_FREE).await;
    until("the site sees the connection close", SLOT_FREE, || site.hung_up("/silent") == 1).await;
    service.finish().await;
}

#[tokio::test]
async fn a_script_that_never_pauses_hangs_its_own_page_only() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let busy = service.fetch(json!({ "url": site.url("/busy-loop.html"), "timeout_ms": 4000 }));
    let innocent = async {
        until("the busy page is asked for", Duration::from_secs(15), || site.count("/busy-loop.html") == 1).await;
        // Three places are left beside the busy page.
        let urls = (0..4).map(|number| site.url(&format!("/static.html?{number}")));
        join_all(urls.map(async |url| service.read(&url).await["title"].clone())).await
    };
    let (busy, innocent) = tokio::join!(busy, innocent);
    assert_eq!(innocent, vec!["Tides"; 4]);
    busy.problem(504, "deadline_exceeded");
    service.busy(0, SLOT_FREE).await;
    assert_eq!(service.status().await["pool"]["crashed"], 0);
    service.finish().await;
}
