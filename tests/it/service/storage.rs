//! A disk that is full.

use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::support::process;
use crate::support::service::Setup;
use crate::support::site::Pages;

/// Large enough for the database and its log, and for one text of a megabyte.
const DISK: &str = "3m";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Executes a program with a small disk of its own at the data directory. A mount namespace needs no privileges where
/// it comes with a user namespace; as root it needs no user namespace.
fn with_small_disk(data_dir: &Path) -> Command {
    let mut command = process::command("unshare");
    let script = r#"mount -t tmpfs -o size="$1",mode=0700 tmpfs "$2" && shift 2 && exec "$@""#;
    let flags: &[&str] = if nix::unistd::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    command
        .args(flags)
        .args(["sh", "-c", script, "sh", DISK])
        .arg(data_dir)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[tokio::test]
async fn a_full_disk_is_told_and_the_service_goes_on() {
    let text = "A line of some forty characters or more.\n".repeat(25_000);
    let site = Pages::new()
        .route("/text", move |request| {
            let number = request.number("n").unwrap_or(0);
            crate::support::site::Reply::new(200, "text/plain", format!("{number}\n{text}"))
        })
        .page("/page", "<!doctype html><title>page</title><h1>Page</h1>")
        .serve();
    let setup = Setup::new(&[&site]).env("PANDARIUM_TOKEN", TOKEN).wrapped(with_small_disk);
    let service = setup.start().await;
    let keep = async |number: usize| {
        let url = site.url(&format!("/text?n={number}"));
        service.fetch(json!({ "url": url, "artifact": "always", "format": "text" })).await
    };
    let mut kept = Vec::new();
    let full = loop {
        let answer = keep(kept.len()).await;
        if answer.status != 200 {
            break answer;
        }
        kept.push(answer.ok()["artifact"].clone());
        assert!(kept.len() < 10, "the disk does not fill");
    };
    assert!(!kept.is_empty(), "{}", full.text());
    full.problem(507, "storage_full");
    for _ in 0..3 {
        keep(99).await.problem(507, "storage_full");
    }
    assert_eq!(service.read(&site.url("/page")).await["title"], "page", "what needs no disk goes on");
    let url = site.url("/text?n=99");
    service.fetch(json!({ "url": url, "artifact": "never", "format": "text" })).await.ok();
    assert_eq!(service.send(service.bare(Method::GET, "/healthz")).await.status, 200);
    assert_eq!(service.status().await["store"]["artifacts"], kept.len(), "no half artifact is listed");
    for artifact in &kept {
        let path = format!("/v1/artifacts/{}", artifact["id"].as_str().unwrap());
        service.get(&format!("{path}/content?limit=100")).await.ok();
        assert_eq!(service.delete(&path).await.status, 204, "room can be made");
    }
    assert_eq!(keep(7).await.status, 200, "and is used");
    service.finish().await;
}
