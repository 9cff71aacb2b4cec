//! Answers that were kept, and page loads that are shared.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Gate, Pages, Reply, Site};
use crate::support::until;

const PAGE: &str = "<!doctype html><title>shared</title><h1>Shared</h1>";
/// Until a request that has been sent is seen at the site, on a busy machine.
const SEEN: Duration = Duration::from_secs(15);

fn gated_site(gate: &Gate) -> Site {
    let gate = gate.clone();
    Pages::new().route("/gated", move |_| Reply::html(PAGE).behind(&gate)).route("/silent", |_| Reply::silent()).serve()
}

#[tokio::test]
async fn a_kept_answer_serves_a_later_call_that_takes_one_of_its_age() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let (url, loads) = (site.url("/static.html"), || site.count("/static.html"));
    let first = service.fetch(json!({ "url": url, "max_age_s": 60 })).await.ok();
    assert_eq!((&first["cached"], loads()), (&json!(false), 1));
    let id = &first["artifact"]["id"];
    assert!(id.is_string(), "what a later call may want is kept: {first}");
    let second = service.fetch(json!({ "url": url, "max_age_s": 60 })).await.ok();
    assert_eq!((&second["cached"], loads()), (&json!(true), 1));
    assert_eq!(
        (&second["content"], &second["artifact"]["id"], &second["title"]),
        (&first["content"], id, &json!("Tides"))
    );
    assert!(second["age_s"].as_u64().unwrap() <= 60, "{second}");
    let cut = service.fetch(json!({ "url": url, "max_age_s": 60, "max_chars": 50 })).await.ok();
    assert_eq!((&cut["cached"], &cut["truncated"], loads()), (&json!(true), &json!(true), 1));
    service.finish().await;
}

#[tokio::test]
async fn a_call_that_takes_no_kept_answer_or_is_another_request_loads_the_page() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    service.fetch(json!({ "url": url, "max_age_s": 60 })).await.ok();
    for (loads, other) in [
        json!({ "url": url }),
        json!({ "url": url, "max_age_s": 0 }),
        json!({ "url": url, "max_age_s": 60, "format": "text" }),
        json!({ "url": url, "max_age_s": 60, "headers": { "X-A": "1" } }),
        json!({ "url": url, "max_age_s": 60, "cookies": [{ "name": "a", "value": "b" }] }),
        json!({ "url": url, "max_age_s": 60, "locale": "de-DE" }),
        json!({ "url": url, "max_age_s": 60, "selector": "footer" }),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = service.fetch(other.clone()).await.ok();
        assert_eq!((&answer["cached"], site.count("/static.html")), (&json!(false), loads + 2), "{other}");
    }
    service.finish().await;
}

#[tokio::test]
async fn equal_calls_at_the_same_time_are_one_load() {
    let gate = Gate::default();
    let site = gated_site(&gate);
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let calls = join_all((0..6).map(|_| service.read_of(&site, "/gated")));
    let opened = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        service.in_flight(6, SEEN).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(calls, opened);
    assert!(answers.iter().all(|answer| answer["title"] == "shared"), "{answers:?}");
    assert_eq!(site.count("/gated"), 1);
    service.read_of(&site, "/gated").await;
    assert_eq!(site.count("/gated"), 2, "a later call is a load of its own");
    service.finish().await;
}

#[tokio::test]
async fn calls_with_other_cookies_share_nothing() {
    let gate = Gate::default();
    let site = gated_site(&gate);
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let call = async |value: &str| {
        let cookies = json!([{ "name": "who", "value": value }]);
        service.fetch(json!({ "url": site.url("/gated"), "cookies": cookies })).await.ok()
    };
    let opened = async {
        until("both pages are asked for", SEEN, || site.count("/gated") == 2).await;
        gate.open();
    };
    tokio::join!(call("a"), call("b"), opened);
    let mut cookies: Vec<_> =
        site.requests("/gated").iter().map(|request| request.header("cookie").map(str::to_owned)).collect();
    cookies.sort();
    assert_eq!(cookies, [Some("who=a".to_owned()), Some("who=b".to_owned())]);
    service.finish().await;
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_end_the_load_of_another() {
    let gate = Gate::default();
    let site = gated_site(&gate);
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let stays = service.read_of(&site, "/gated");
    let leaves = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        tokio::select! {
            _ = service.read_of(&site, "/gated") => panic!("answered before the site did"),
            () = service.in_flight(2, SEEN) => {}
        }
        service.in_flight(1, SEEN).await;
        gate.open();
    };
    let (answer, ()) = tokio::join!(stays, leaves);
    assert_eq!((&answer["title"], site.count("/gated")), (&json!("shared"), 1));
    service.finish().await;
}

#[tokio::test]
async fn the_caller_who_began_may_leave_too() {
    let gate = Gate::default();
    let site = gated_site(&gate);
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let began = async {
        tokio::select! {
            _ = service.read_of(&site, "/gated") => panic!("answered before the site did"),
            () = service.in_flight(2, SEEN) => {}
        }
        service.in_flight(1, SEEN).await;
        gate.open();
    };
    let joined = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        service.read_of(&site, "/gated").await
    };
    let ((), answer) = tokio::join!(began, joined);
    assert_eq!((&answer["title"], site.count("/gated")), (&json!("shared"), 1));
    service.finish().await;
}

#[tokio::test]
async fn the_last_caller_who_leaves_ends_the_load() {
    let site = gated_site(&Gate::default());
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let both = async { tokio::join!(service.read_of(&site, "/silent"), service.read_of(&site, "/silent")) };
    tokio::select! {
        _ = both => panic!("a silent server was answered for"),
        () = async {
            service.in_flight(2, SEEN).await;
            until("the page is asked for", SEEN, || site.count("/silent") == 1).await;
        } => {}
    }
    service.busy(0, Duration::from_secs(1)).await;
    until("the site sees the connection close", Duration::from_secs(1), || site.hung_up("/silent") == 1).await;
    assert_eq!(site.count("/silent"), 1);
    service.finish().await;
}
