//! The end of the service, asked for or not.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::service::{Service, Setup};
use crate::support::site::{Gate, Pages, Reply, Site};
use crate::support::{process, until};

const PAGE: &str = "<!doctype html><title>page</title><h1>Page</h1>";
const SEEN: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_stop_lets_calls_in_flight_finish() {
    let gate = Gate::default();
    let held = gate.clone();
    let site = Pages::new().route("/gated", move |_| Reply::html(PAGE).behind(&held)).serve();
    let service = Service::for_sites(&[&site]).await;
    let call = service.fetch(json!({ "url": site.url("/gated") }));
    let stopped = async {
        until("the page is asked for", SEEN, || site.count("/gated") == 1).await;
        process::signal(service.pid(), Signal::SIGTERM);
        until("the stop has begun", SEEN, || service.log().contains("stopping")).await;
        gate.open();
    };
    let (answer, ()) = tokio::join!(call, stopped);
    assert_eq!(answer.ok()["title"], "page");
    service.finish_stopped().await;
}

#[tokio::test]
async fn a_stop_under_load_answers_every_call_within_ten_seconds() {
    let site = Pages::new().page("/page", PAGE).route("/silent", |_| Reply::silent()).serve();
    let service = Service::for_sites(&[&site]).await;
    // Four that have a connection and will not end by themselves, and four that wait for one.
    let urls = (0..4)
        .map(|number| site.url(&format!("/silent?{number}")))
        .chain((0..4).map(|number| site.url(&format!("/page?{number}"))));
    let calls = join_all(urls.map(async |url| service.fetch(json!({ "url": url })).await));
    let stop = async {
        until("the silent pages are asked for", SEEN, || site.count("/silent") == 4).await;
        service.in_flight(8, SEEN).await;
        process::signal(service.pid(), Signal::SIGTERM);
        Instant::now()
    };
    let (answers, sent) = tokio::join!(calls, stop);
    assert!(sent.elapsed() < Duration::from_secs(10), "{:?}", sent.elapsed());
    for answer in &answers {
        let is_typed =
            matches!(answer.code().as_deref(), None | Some("shutting_down" | "worker_lost" | "deadline_exceeded"));
        assert!(is_typed, "{}", answer.text());
    }
    assert!(answers[..4].iter().all(|answer| answer.status >= 500), "a silent server was answered for");
    service.finish_stopped().await;
}

#[tokio::test]
async fn a_service_that_stops_takes_no_new_calls() {
    let site = Pages::new().route("/silent", |_| Reply::silent()).serve();
    let service = Service::for_sites(&[&site]).await;
    let call = service.fetch(json!({ "url": site.url("/silent") }));
    let refused = async {
        until("the page is asked for", SEEN, || site.count("/silent") == 1).await;
        process::signal(service.pid(), Signal::SIGTERM);
        until("the stop has begun", SEEN, || service.log().contains("stopping")).await;
        let address = service.url.trim_start_matches("http://");
        let is_refused = || TcpStream::connect(address).is_err();
        until("new connections are refused", Duration::from_secs(2), is_refused).await;
        assert_eq!(site.hung_up("/silent"), 0, "the call in flight goes on");
    };
    let (answer, ()) = tokio::join!(call, refused);
    assert!(matches!(answer.code().as_deref(), Some("shutting_down" | "worker_lost")), "{}", answer.text());
    service.finish_stopped().await;
}

#[tokio::test]
async fn an_interrupt_stops_it_as_well() {
    let mut service = Service::for_sites(&[]).await;
    service.ready().await;
    assert_eq!(service.stop(Signal::SIGINT).await.code(), Some(0));
    service.check_end().await;
}

#[tokio::test]
async fn what_a_killed_service_left_behind_is_swept_at_the_next_start() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let kept = service.fetch(json!({ "url": site.url("/static.html"), "artifact": "always" })).await.ok();
    let orphans = service.workers().await;
    assert!(!orphans.is_empty());
    let data_dir = service.kill().await;
    let left = process::workers_of(data_dir.path());
    assert!(orphans.iter().all(|orphan| left.contains(orphan)), "nothing was left to sweep: {left:?}");
    let service = Setup::new(&[&site]).data_dir(data_dir).start().await;
    let swept = || orphans.iter().all(|orphan| process::resident_bytes_of(*orphan).is_none());
    until("the leftovers are gone", Duration::from_secs(2).saturating_sub(service.started.elapsed()), swept).await;
    let path = format!("/v1/artifacts/{}/content", kept["artifact"]["id"].as_str().unwrap());
    assert_eq!(service.get(&path).await.ok()["content"], kept["content"]);
    assert_eq!(service.read(&site.url("/static.html")).await["title"], "Tides");
    service.finish().await;
}

#[tokio::test]
async fn the_sweep_spares_the_workers_of_another_data_directory() {
    let site = Site::of_files();
    let (one, other) = (Service::for_sites(&[&site]).await, Service::for_sites(&[&site]).await);
    other.ready().await;
    let spared = other.workers().await;
    one.ready().await;
    let data_dir = one.kill().await;
    let one = Setup::new(&[&site]).data_dir(data_dir).start().await;
    one.ready().await;
    assert_eq!((other.workers().await, &other.status().await["pool"]["crashed"]), (spared, &json!(0)));
    one.finish().await;
    other.finish().await;
}
