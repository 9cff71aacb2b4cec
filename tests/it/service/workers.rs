//! Workers that die, are worn out, or are all busy.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::service::{Service, Setup};
use crate::support::site::{Gate, Pages, Reply, Site};
use crate::support::{eventually, process, until};

const PAGE: &str = "<!doctype html><title>page</title><h1>Page</h1>";
const SEEN: Duration = Duration::from_secs(15);
/// The promise is a second; the machine of a test is busy.
const REPAIRED: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_fetch_whose_worker_is_killed_is_tried_once_more_and_succeeds() {
    let gate = Gate::default();
    let held = gate.clone();
    let site = Pages::new().route("/gated", move |_| Reply::html(PAGE).behind(&held)).serve();
    let service = Service::for_sites(&[&site]).await;
    let call = service.fetch(json!({ "url": site.url("/gated") }));
    let killed = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        process::signal(service.workers().await[0], Signal::SIGKILL);
        until("the page is asked for again", SEEN, || site.count("/gated") == 2).await;
        gate.open();
    };
    let (answer, ()) = tokio::join!(call, killed);
    assert_eq!(answer.ok()["title"], "page");
    assert_eq!((site.count("/gated"), &service.status().await["pool"]["crashed"]), (2, &json!(1)));
    service.finish().await;
}

#[tokio::test]
async fn a_fetch_whose_second_worker_is_killed_too_is_lost() {
    let site = Pages::new().route("/silent", |_| Reply::silent()).page("/page", PAGE).serve();
    let service = Service::for_sites(&[&site]).await;
    let call = service.fetch(json!({ "url": site.url("/silent") }));
    let killed = async {
        for attempt in 1..=2 {
            until("the page is asked for", SEEN, || site.count("/silent") == attempt).await;
            process::signal(service.workers().await[0], Signal::SIGKILL);
        }
    };
    let (answer, ()) = tokio::join!(call, killed);
    let problem = answer.problem(502, "worker_lost");
    assert_eq!(problem["retryable"], true);
    assert_eq!(site.count("/silent"), 2, "it is tried twice and no more");
    assert_eq!(service.read(&site.url("/page")).await["title"], "page");
    service.finish().await;
}

#[tokio::test]
async fn an_idle_worker_that_dies_is_replaced() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let first = service.workers().await;
    process::signal(first[0], Signal::SIGKILL);
    let second = eventually("another worker", REPAIRED, async || {
        let workers = service.workers().await;
        (!workers.is_empty() && workers != first).then_some(workers)
    });
    second.await;
    let pool = service.status().await["pool"].clone();
    assert_eq!((&pool["crashed"], &pool["recycled"]), (&json!(1), &json!(0)));
    let children = process::children_of(service.pid());
    assert_eq!(children, service.workers().await, "the dead one was waited for");
    assert_eq!(service.read(&site.url("/static.html")).await["title"], "Tides");
    service.finish().await;
}

#[tokio::test]
async fn a_worker_is_replaced_after_its_pages_and_nothing_is_lost() {
    let site = Site::of_files();
    let service = Setup::new(&[&site]).env("PANDARIUM_WORKER_MAX_PAGES", "3").start().await;
    let recycled = async || service.status().await["pool"]["recycled"].as_u64().unwrap();
    let started = Instant::now();
    let mut calls = 0;
    while recycled().await < 3 {
        assert!(started.elapsed() < Duration::from_secs(30), "after {calls} calls");
        let urls = (0..4).map(|number| site.url(&format!("/static.html?{calls}-{number}")));
        let titles = join_all(urls.map(async |url| service.read(&url).await["title"].clone())).await;
        assert_eq!(titles, vec!["Tides"; 4]);
        calls += 4;
    }
    assert_eq!(service.status().await["pool"]["crashed"], 0);
    until("the old ones are gone", REPAIRED, || process::children_of(service.pid()).len() == 1).await;
    service.finish().await;
}

#[tokio::test]
async fn a_page_under_way_outlives_the_replacement_of_its_worker() {
    let gate = Gate::default();
    let held = gate.clone();
    let site = Pages::new().route("/gated", move |_| Reply::html(PAGE).behind(&held)).page("/page", PAGE).serve();
    let service = Setup::new(&[&site]).env("PANDARIUM_WORKER_MAX_PAGES", "2").start().await;
    let call = service.fetch(json!({ "url": site.url("/gated") }));
    let replaced = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        service.read(&site.url("/page")).await;
        eventually("the worker is replaced", SEEN, async || {
            (service.status().await["pool"]["recycled"] == 1).then_some(())
        })
        .await;
        gate.open();
    };
    let (answer, ()) = tokio::join!(call, replaced);
    assert_eq!((&answer.ok()["title"], site.count("/gated")), (&json!("page"), 1));
    service.finish().await;
}

#[tokio::test]
async fn a_full_queue_is_refused_at_once() {
    let gate = Gate::default();
    let held = gate.clone();
    let site = Pages::new().route("/gated", move |_| Reply::html(PAGE).behind(&held)).serve();
    let setup = Setup::new(&[&site]).env("PANDARIUM_CONNECTIONS_PER_WORKER", "1").env("PANDARIUM_QUEUE_LIMIT", "1");
    let service = setup.start().await;
    let call = async |number: u32| service.fetch(json!({ "url": site.url(&format!("/gated?{number}")) })).await;
    let refused = async {
        until("the first page is asked for", SEEN, || site.count("/gated") == 1).await;
        eventually("the second waits", SEEN, async || (service.status().await["pool"]["waiting"] == 1).then_some(()))
            .await;
        let started = Instant::now();
        let answer = call(3).await;
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(answer.problem(503, "pool_exhausted")["retryable"], true);
        gate.open();
    };
    let (first, second, ()) = tokio::join!(call(1), call(2), refused);
    assert_eq!((first.ok()["title"].clone(), second.ok()["title"].clone()), (json!("page"), json!("page")));
    service.finish().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_has_its_own_deadline() {
    let site = Pages::new().route("/silent", |_| Reply::silent()).page("/page", PAGE).serve();
    let service = Setup::new(&[&site]).env("PANDARIUM_CONNECTIONS_PER_WORKER", "1").start().await;
    let holds = service.fetch(json!({ "url": site.url("/silent"), "timeout_ms": 6000 }));
    let waits = async {
        until("the silent page is asked for", SEEN, || site.count("/silent") == 1).await;
        let late = service.fetch(json!({ "url": site.url("/page"), "timeout_ms": 300 })).await;
        late.problem(504, "deadline_exceeded");
        assert_eq!(service.status().await["pool"]["waiting"], 0);
    };
    let (held, ()) = tokio::join!(holds, waits);
    held.problem(504, "deadline_exceeded");
    assert_eq!(site.count("/page"), 0);
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_fills_the_memory_ends_with_its_worker_and_not_with_the_service() {
    let script = "const kept = []; const grow = () => { kept.push(new Uint8Array(32 << 20).fill(1)); setTimeout(grow, 0); }; grow();";
    let page = format!("<!doctype html><title>grows</title><h1>Grows</h1><script>{script}</script>");
    let site = Pages::new().page("/grows", page).page("/page", PAGE).serve();
    let service = Setup::new(&[&site])
        .env("PANDARIUM_PAGE_HEAP_MB", "64")
        .env("PANDARIUM_WORKER_MAX_RESIDENT_MB", "200")
        .env("PANDARIUM_WORKER_HARD_RESIDENT_MB", "400")
        .start()
        .await;
    let answer = service.fetch(json!({ "url": site.url("/grows"), "settle_ms": 20_000, "timeout_ms": 25_000 })).await;
    answer.problem(502, "worker_lost");
    assert_eq!(service.read(&site.url("/page")).await["title"], "page");
    service.finish().await;
}
