//! An engine that is not there, or is none.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::support::service::{Service, Setup};
use crate::support::site::Site;
use crate::support::{engine, eventually, until};

async fn unavailable(service: &Service, site: &Site, reason: &str) {
    let answer = service.fetch(json!({ "url": site.url("/static.html"), "timeout_ms": 20_000 })).await;
    let problem = answer.problem(503, "engine_unavailable");
    assert!(problem["detail"].as_str().unwrap().contains(reason), "{problem}");
    let ready = service.send(service.bare(Method::GET, "/readyz")).await;
    ready.problem(503, "engine_unavailable");
    assert_eq!(service.send(service.bare(Method::GET, "/healthz")).await.status, 200);
    let status = service.status().await;
    assert!(status["warnings"].to_string().contains(reason), "{status}");
    assert_eq!(status["engines"][0]["version"], json!(null));
}

#[tokio::test]
async fn a_missing_binary_is_told_and_taken_up_when_it_comes() {
    let site = Site::of_files();
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("lightpanda");
    let service = Setup::new(&[&site]).env("PANDARIUM_LIGHTPANDA", &binary).start().await;
    unavailable(&service, &site, binary.to_str().unwrap()).await;
    symlink(engine::binary(), &binary).unwrap();
    eventually("the binary is taken up", Duration::from_secs(40), async || {
        (service.fetch(json!({ "url": site.url("/static.html") })).await.status == 200).then_some(())
    })
    .await;
    service.ready().await;
    service.finish().await;
}

#[tokio::test]
async fn without_any_engine_the_service_says_how_to_install_one() {
    let site = Site::of_files();
    let service = Setup::new(&[&site]).without("PANDARIUM_LIGHTPANDA").start().await;
    unavailable(&service, &site, "pandarium setup").await;
    service.finish().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_executed_is_told() {
    let site = Site::of_files();
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("lightpanda");
    std::fs::write(&binary, "text").unwrap();
    let service = Setup::new(&[&site]).env("PANDARIUM_LIGHTPANDA", &binary).start().await;
    unavailable(&service, &site, "executable").await;
    service.finish().await;
}

#[tokio::test]
async fn a_program_that_ends_at_once_is_quoted_and_not_started_in_a_storm() {
    let site = Site::of_files();
    let place = tempfile::tempdir().unwrap();
    let (binary, starts) = (place.path().join("lightpanda"), place.path().join("starts"));
    let script = format!("#!/bin/sh\necho x >> {}\necho 'no such library' >&2\nexit 3\n", starts.display());
    std::fs::write(&binary, script).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = Setup::new(&[&site]).env("PANDARIUM_LIGHTPANDA", &binary).start().await;
    unavailable(&service, &site, "no such library").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let started = std::fs::read_to_string(&starts).unwrap().lines().count();
    // The pause doubles from 0.1 s: at most at 0, 0, 0.1, 0.3, 0.7, 1.5, 3.1 s and, on a slow start, one more.
    assert!((2..=8).contains(&started), "{started} starts in 3 s");
    service.finish().await;
}

#[tokio::test]
async fn a_program_that_never_listens_does_not_hold_the_stop_up() {
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("lightpanda");
    std::fs::write(&binary, "#!/bin/sh\nsleep 300\n").unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut service = Setup::new(&[]).env("PANDARIUM_LIGHTPANDA", &binary).start().await;
    let data_dir = service.data_dir().to_owned();
    until("it is started", Duration::from_secs(10), || !crate::support::process::workers_of(&data_dir).is_empty())
        .await;
    assert_eq!(service.stop(Signal::SIGTERM).await.code(), Some(0));
    service.check_end().await;
}
