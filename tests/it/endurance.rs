//! The short forms of the long proofs in `benches/`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::service::Service;
use crate::support::site::Site;
use crate::support::{process, until};

#[tokio::test]
async fn many_fetches_lose_nothing_and_leave_nothing_open() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    // One round warms up what is kept: a connection to the engine, the store, the client's own connection.
    service.read(&site.url("/static.html")).await;
    let worker = service.workers().await[0];
    let (service_before, worker_before) = (process::descriptors_of(service.pid()), process::descriptors_of(worker));
    for number in 0..150 {
        assert_eq!(service.read(&site.url(&format!("/static.html?{number}"))).await["title"], "Tides", "{number}");
    }
    assert_eq!(site.count("/static.html"), 151);
    let pool = service.status().await["pool"].clone();
    assert_eq!((&pool["crashed"], &pool["busy"], &pool["waiting"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(service.workers().await, [worker]);
    let is_back = || process::descriptors_of(service.pid()) <= service_before;
    until("the descriptors of the service are back", Duration::from_secs(10), is_back).await;
    let is_back = || process::descriptors_of(worker) <= worker_before;
    until("the descriptors of the worker are back", Duration::from_secs(10), is_back).await;
    service.finish().await;
}

#[tokio::test]
async fn a_worker_that_is_killed_again_and_again_costs_only_typed_failures() {
    const LASTS: Duration = Duration::from_secs(5);
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.ready().await;
    let started = Instant::now();
    let kills = async {
        let mut kills = 0;
        while started.elapsed() < LASTS {
            tokio::time::sleep(Duration::from_millis(300)).await;
            for worker in process::workers_of(service.data_dir()) {
                process::signal(worker, Signal::SIGKILL);
                kills += 1;
            }
        }
        kills
    };
    let caller = async |caller: u32| {
        let mut outcomes = Vec::new();
        while started.elapsed() < LASTS {
            let url = site.url(&format!("/static.html?{caller}-{}", outcomes.len()));
            outcomes.push(service.fetch(json!({ "url": url, "timeout_ms": 10_000 })).await);
        }
        outcomes
    };
    let (kills, outcomes) = tokio::join!(kills, join_all((0..3).map(caller)));
    let outcomes = outcomes.concat();
    let succeeded = outcomes.iter().filter(|answer| answer.status == 200).count();
    for answer in &outcomes {
        let code = answer.code();
        let is_typed = answer.status == 200 || matches!(code.as_deref(), Some("worker_lost" | "engine_unavailable"));
        assert!(is_typed, "{}", answer.text());
    }
    assert!(kills >= 5 && succeeded >= 10, "{kills} kills, {succeeded} of {} succeeded", outcomes.len());
    assert_eq!(service.read(&site.url("/static.html?after")).await["title"], "Tides");
    service.finish().await;
}
