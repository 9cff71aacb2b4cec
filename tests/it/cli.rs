//! The command line.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::process;
use crate::support::service::{Service, Setup};
use crate::support::site::{Pages, Reply, Site};

/// Runs a command beside a service, or where none runs, off the tests' own thread.
async fn run(setup: Setup, arguments: &[&str]) -> (Output, TempDir) {
    let (name, rest) = arguments.split_first().expect("a command");
    let (mut command, data_dir) = setup.command(name);
    command.args(rest);
    let output = tokio::task::spawn_blocking(move || command.output().expect("the command starts"));
    (output.await.expect("it ends"), data_dir)
}

/// As a person would run it in the data directory of that service: nothing but the directory is known.
async fn beside(service: &Service, arguments: &[&str]) -> Output {
    in_dir(service.data_dir(), arguments).await
}

async fn in_dir(data_dir: &Path, arguments: &[&str]) -> Output {
    let mut command = process::pandarium([("PANDARIUM_DATA_DIR".into(), data_dir.into())]);
    command.args(arguments);
    tokio::task::spawn_blocking(move || command.output().expect("the command starts")).await.expect("it ends")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[tokio::test]
async fn fetch_asks_the_running_service() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let output = beside(&service, &["fetch", &url]).await;
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let content = service.read(&url).await["content"].as_str().unwrap().trim_end().to_owned();
    assert_eq!(out(&output), format!("Tides — {url}\n\n{content}\n"));
    assert_eq!(service.status().await["pool"]["pages"], 2, "the page was loaded there");
    let output = beside(&service, &["fetch", &url, "--json", "--format", "text", "--selector", "footer"]).await;
    let answer: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&answer["content"], &answer["format"]), (&json!("Imprint of the tide office"), &json!("text")));
    let output = beside(&service, &["fetch", &url, "--max-chars", "60"]).await;
    assert!(err(&output).contains("the full text is artifact "), "{}", err(&output));
    service.finish().await;
}

#[tokio::test]
async fn fetch_passes_headers_and_cookies_on() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let output =
        beside(&service, &["fetch", &url, "--header", "X-Trace: 7", "--cookie", "a=b", "--locale", "de-CH"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let request = &site.requests("/static.html")[0];
    assert_eq!((request.header("x-trace"), request.header("cookie")), (Some("7"), Some("a=b")));
    assert!(request.header("accept-language").is_some_and(|sent| sent.starts_with("de-CH")), "{request:?}");
    service.finish().await;
}

#[tokio::test]
async fn fetch_runs_a_service_for_the_call_where_none_runs_and_leaves_nothing_behind() {
    let site = Site::of_files();
    let url = site.url("/static.html");
    let (output, data_dir) = run(Setup::new(&[&site]), &["fetch", &url, "--artifact", "always", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let answer: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(answer["title"], "Tides");
    assert_eq!(process::workers_of(data_dir.path()), Vec::<u32>::new());
    let service = Setup::new(&[&site]).data_dir(data_dir).start().await;
    let path = format!("/v1/artifacts/{}", answer["artifact"]["id"].as_str().unwrap());
    assert_eq!(service.get(&path).await.ok()["title"], "Tides", "what it kept is there later");
    service.finish().await;
}

#[tokio::test]
async fn two_fetches_at_once_where_no_service_runs_both_succeed() {
    let site = Site::of_files();
    let data_dir = tempfile::tempdir().unwrap();
    let call = async |number: u32| {
        let (mut command, _own) = Setup::new(&[&site]).command("fetch");
        command.env("PANDARIUM_DATA_DIR", data_dir.path()).arg(site.url(&format!("/static.html?{number}")));
        tokio::task::spawn_blocking(move || command.output().expect("the command starts")).await.expect("it ends")
    };
    let (first, second) = tokio::join!(call(1), call(2));
    for output in [first, second] {
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(out(&output).starts_with("Tides — "), "{}", out(&output));
    }
    assert_eq!(process::workers_of(data_dir.path()), Vec::<u32>::new());
}

#[tokio::test]
async fn each_kind_of_failure_has_its_exit_code() {
    let site = Pages::new()
        .route("/pdf", |_| Reply::new(200, "application/pdf", "%PDF"))
        .route("/empty", |_| Reply::empty(204))
        .route("/silent", |_| Reply::silent())
        .serve();
    let service = Service::for_sites(&[&site]).await;
    let (pdf, empty, silent) = (site.url("/pdf"), site.url("/empty"), site.url("/silent"));
    for (code, arguments, said) in [
        (2, vec!["fetch"], "Usage"),
        (2, vec!["fetch", &pdf, "--format", "pdf"], "possible values"),
        (2, vec!["fetch", &pdf, "--locale", "no locale"], "invalid_field"),
        (3, vec!["fetch", &pdf], "unsupported_content_type"),
        (3, vec!["fetch", &empty], "navigation_failed"),
        (4, vec!["fetch", "http://127.0.0.2/"], "network_blocked"),
        (7, vec!["fetch", &silent, "--timeout-ms", "500"], "deadline_exceeded"),
    ] {
        let output = beside(&service, &arguments).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(said) && out(&output).is_empty(), "{arguments:?}: {}", err(&output));
    }
    let output = beside(&service, &["fetch", &pdf, "--json"]).await;
    let problem: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!((output.status.code(), &problem["code"]), (Some(3), &json!("unsupported_content_type")));
    service.finish().await;
}

#[tokio::test]
async fn a_fetch_without_an_engine_ends_with_its_code() {
    let site = Site::of_files();
    let setup = Setup::new(&[&site]).env("PANDARIUM_LIGHTPANDA", "/nothing/here/lightpanda");
    let (output, _data_dir) = run(setup, &["fetch", &site.url("/static.html")]).await;
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
    assert!(err(&output).contains("/nothing/here/lightpanda"), "{}", err(&output));
}

#[tokio::test]
async fn token_tells_the_places_and_the_secret_only_on_request() {
    let service = Service::for_sites(&[]).await;
    let places = out(&beside(&service, &["token"]).await);
    for part in
        [service.data_dir().join("token").to_str().unwrap(), "auth.header", "approver-token", &service.url, "curl -H @"]
    {
        assert!(places.contains(part), "{part}: {places}");
    }
    assert!(!places.contains(&service.token), "{places}");
    assert_eq!(out(&beside(&service, &["token", "--show"]).await).trim_end(), service.token);
    service.finish().await;
}

#[tokio::test]
async fn token_init_makes_tokens_that_a_later_service_keeps() {
    let (output, data_dir) = run(Setup::new(&[]), &["token", "--init"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let token = std::fs::read_to_string(data_dir.path().join("token")).unwrap();
    let mode = data_dir.path().join("token").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
    let service = Setup::new(&[]).data_dir(data_dir).start().await;
    assert_eq!(service.token, token.trim());
    service.finish().await;
}

#[tokio::test]
async fn config_prints_the_configuration_with_its_secrets_masked_and_can_be_read_back() {
    let token = "0123456789abcdef0123456789abcdef";
    let setup = || Setup::new(&[]).env("PANDARIUM_TOKEN", token).env("PANDARIUM_QUEUE_LIMIT", "17");
    let (output, data_dir) = run(setup(), &["config"]).await;
    let printed = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(printed.contains("queue_limit = 17  # environment PANDARIUM_QUEUE_LIMIT"), "{printed}");
    assert!(!printed.contains(token) && printed.lines().any(|line| line.starts_with("token = ")), "{printed}");
    assert!(printed.contains("# approver_token is unset: "), "{printed}");
    let file = data_dir.path().join("printed.toml");
    let plain: String =
        printed.lines().filter(|line| !line.starts_with("token = ")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, plain).unwrap();
    let output = in_dir(data_dir.path(), &["config", "--config", file.to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("queue_limit = 17  # file "), "{}", out(&output));
}

#[tokio::test]
async fn status_and_healthcheck_tell_how_the_service_is() {
    let service = Service::for_sites(&[]).await;
    service.ready().await;
    let healthy = beside(&service, &["healthcheck"]).await;
    assert_eq!((healthy.status.code(), out(&healthy).as_str()), (Some(0), "ready\n"), "{}", err(&healthy));
    let table = out(&beside(&service, &["status"]).await);
    for row in ["service    pandarium ", "engine     lightpanda 1.0.2", "slots      4: 4 idle, 0 busy, 0 starting"] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row}: {table}");
    }
    let status: Value = serde_json::from_str(&out(&beside(&service, &["status", "--json"]).await)).unwrap();
    assert_eq!(status["pool"]["slots"], 4);
    let data_dir = service.stop_and_keep().await;
    for command in ["status", "healthcheck"] {
        let output = in_dir(data_dir.path(), &[command]).await;
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""), "{command}: {}", err(&output));
    }
}

#[tokio::test]
async fn a_service_that_is_not_ready_is_not_healthy() {
    let service = Setup::new(&[]).env("PANDARIUM_LIGHTPANDA", "/nothing/here").start().await;
    let output = beside(&service, &["healthcheck"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    service.finish().await;
}

#[tokio::test]
async fn openapi_prints_the_committed_document() {
    let output = in_dir(Path::new("/nowhere"), &["openapi"]).await;
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json")).unwrap();
    assert_eq!((output.status.code(), out(&output)), (Some(0), committed));
}
