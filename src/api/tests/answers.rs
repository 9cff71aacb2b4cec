//! What every answer has, and what the service says about itself.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;
use uuid::Uuid;

use super::support::{AGENT, Answer, Server, bearer, json_headers, parse_answer, router_for};
use crate::api::guard::MAX_CALLS_IN_FLIGHT;
use crate::api::openapi::document_json;
use crate::api::system::Readiness;
use crate::telemetry;

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_carries_an_id_of_ours() {
    let server = Server::start().await;
    let claimed = bearer(AGENT) + "X-Request-Id: 01890000-0000-7000-8000-000000000000\r\n";
    let mut seen = HashSet::new();
    for (method, target) in [
        ("GET", "/healthz"),
        ("HEAD", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/v1/status"),
        ("OPTIONS", "/v1/status"),
        ("GET", "/nothing"),
        ("POST", "/v1/echo"),
        ("GET", "/v1/panic"),
        ("GET", "/docs"),
        ("GET", "/docs/"),
        ("GET", "/docs/nothing"),
        ("CONNECT", "127.0.0.1:1"),
    ] {
        let answer = server.request(method, target, &claimed, "").await;
        let id = Uuid::parse_str(answer.header("x-request-id").unwrap()).unwrap();
        assert_eq!(id.get_version_num(), 7, "{method} {target}");
        assert!(seen.insert(id), "{method} {target}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {target}");
        assert!(answer.header("content-security-policy").is_some(), "{method} {target}");
        if answer.status >= 400 && method != "HEAD" {
            answer.problem();
        }
    }
    assert!(!seen.contains(&Uuid::parse_str("01890000-0000-7000-8000-000000000000").unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_path_and_a_wrong_method_are_problems() {
    let server = Server::start().await;
    let problem = server.get("/v1/nothing?secret=1").await.expect_problem(404, "not_found");
    assert_eq!(problem.instance, "/v1/nothing");
    assert_eq!(problem.kind, "/docs/errors#not_found");
    let answer = server.request("DELETE", "/v1/status", &bearer(AGENT), "").await;
    answer.expect_problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    let answer = server.request("OPTIONS", "/v1/echo", &bearer(AGENT), "").await;
    answer.expect_problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_answers_as_get_does_without_a_body() {
    let server = Server::start().await;
    for target in ["/v1/status", "/v1/nothing"] {
        let get = server.get(target).await;
        let head = server.request("HEAD", target, &bearer(AGENT), "").await;
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{target}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{target}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_handler_is_a_typed_error_and_the_connection_goes_on() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let head = |target: &str| server.head("GET", target, &bearer(AGENT), 0).replace("Connection: close\r\n", "");
    stream.write_all(head("/v1/panic").as_bytes()).await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await.unwrap();
    let answer = parse_answer(&bytes[..length]);
    let problem = answer.expect_problem(500, "internal");
    assert!(!format!("{problem:?}").contains("the page said"));
    stream.write_all(server.head("GET", "/v1/status", &bearer(AGENT), 0).as_bytes()).await.unwrap();
    assert_eq!(super::support::read_answer(&mut stream).await.status, 200);
    let metrics = telemetry::install_metrics().unwrap().render();
    let panics = metrics.lines().find_map(|line| line.strip_prefix("pandarium_panics_total ")).unwrap();
    assert!(panics.parse::<u64>().unwrap() >= 1, "{panics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named() {
    let server = Server::start().await;
    let post = async |body: &str| server.request("POST", "/v1/echo", &json_headers(), body).await;
    let unknown = post(r#"{"text":"a","texts":"b"}"#).await.expect_problem(422, "invalid_field");
    assert_eq!(unknown.extras["field"], "texts");
    let wrong = post(r#"{"text":7}"#).await.expect_problem(422, "invalid_field");
    assert_eq!(wrong.extras["field"], "text");
    let broken = post("{\"text\":\n}").await.expect_problem(400, "invalid_request");
    assert_eq!(broken.extras["line"], 2);
    server.request("POST", "/v1/echo", &bearer(AGENT), "").await.expect_problem(400, "invalid_request");
    for query in ["limit=x", "limit=1&limit=2", "limit=1&more=2", "", "limit=-1"] {
        server.get(&format!("/v1/limit?{query}")).await.expect_problem(422, "invalid_field");
    }
    assert_eq!(server.get("/v1/limit?limit=3").await.text(), r#"{"limit":3}"#);
    for id in ["x", "..%2f..%2fetc%2fpasswd", "%ff", "A".repeat(32).as_str(), "0".repeat(33).as_str()] {
        server.get(&format!("/v1/items/{id}")).await.expect_problem(404, "not_found");
    }
    assert_eq!(server.get(&format!("/v1/items/{}", "a".repeat(32))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_follows_the_pool() {
    let server = Server::start().await;
    let ready = async || server.request("GET", "/readyz", "", "").await;
    let starting = ready().await;
    starting.expect_problem(503, "engine_unavailable");
    assert_eq!(starting.header("retry-after"), Some("1"));
    server.readiness.send(Readiness::Ready).unwrap();
    assert_eq!(json_of(&ready().await), json!({"status": "ready"}));
    server.readiness.send(Readiness::Unavailable { reason: "No binary.".to_owned() }).unwrap();
    assert_eq!(ready().await.expect_problem(503, "engine_unavailable").detail, "No binary.");
    server.readiness.send(Readiness::ShuttingDown).unwrap();
    ready().await.expect_problem(503, "shutting_down");
    assert_eq!(json_of(&server.request("GET", "/healthz", "", "").await), json!({"status": "ok"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_describes_itself() {
    let server = Server::start().await;
    assert_eq!(json_of(&server.get("/v1/status").await)["version"], "1.2.3");
    assert_eq!(server.get("/openapi.json").await.text(), document_json());
    let metrics = server.get("/metrics").await;
    let counted = r#"pandarium_http_requests_total{method="GET",route="/v1/status",status="200"}"#;
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    assert!(metrics.text().contains("pandarium_http_request_duration_seconds_bucket"), "{}", metrics.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documentation_needs_nothing_from_outside() {
    let server = Server::start().await;
    let redirect = server.request("GET", "/docs", "", "").await;
    assert_eq!((redirect.status, redirect.header("location")), (303, Some("/docs/")));
    let page = server.request("GET", "/docs/", "", "").await;
    assert!(page.header("content-security-policy").unwrap().contains("script-src 'self';"));
    assert!(page.text().contains("swagger-ui-bundle.js") && !page.text().contains("://"), "{}", page.text());
    let starter = server.request("GET", "/docs/swagger-initializer.js", "", "").await;
    assert!(starter.text().contains("/openapi.json") && starter.text().contains(r#""validatorUrl": "none""#));
    assert!(!starter.text().contains("://"), "{}", starter.text());
    server.request("GET", "/docs/nothing.js", "", "").await.expect_problem(404, "not_found");
    assert!(server.request("GET", "/docs/errors", "", "").await.text().contains("id=\"pool_exhausted\""));
}

fn in_process(target: &str) -> Request<Body> {
    let request = Request::get(target).header("host", "127.0.0.1:1").header("authorization", format!("Bearer {AGENT}"));
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_full_house_says_so_at_once_and_stays_alive() {
    let (router, _readiness, mut hang) = router_for(1).await;
    let mut calls: FuturesUnordered<_> =
        (0..MAX_CALLS_IN_FLIGHT).map(|_| router.clone().oneshot(in_process("/v1/hang"))).collect();
    let full = async {
        for _ in 0..MAX_CALLS_IN_FLIGHT {
            hang.recv().await.unwrap();
        }
        let refused = router.clone().oneshot(in_process("/v1/status")).await.unwrap();
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (503, &b"1"[..]));
        for open in ["/healthz", "/metrics"] {
            assert_eq!(router.clone().oneshot(in_process(open)).await.unwrap().status(), 200, "{open}");
        }
    };
    tokio::select! {
        () = full => {}
        _ = calls.next() => panic!("a hanging call ended"),
    }
    drop(calls);
    assert_eq!(router.oneshot(in_process("/v1/status")).await.unwrap().status(), 200);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_has_one_line_a_request_without_query_token_or_page_text() {
    let lines = Lines::default();
    let writer = lines.clone();
    let lines_to = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let subscriber = lines_to.with_writer(move || writer.clone()).finish();
    let _in_force = tracing::subscriber::set_default(subscriber);
    let (router, _readiness, _hang) = router_for(1).await;
    telemetry::log_panics();
    for target in ["/v1/status?q=the-query", "/v1/panic", "/v1/nothing-in-path", "/healthz?token=the-query"] {
        router.clone().oneshot(in_process(target)).await.unwrap();
    }
    let mut wrong = in_process("/v1/status");
    wrong.headers_mut().insert("authorization", "Bearer the-wrong-token".parse().unwrap());
    router.oneshot(wrong).await.unwrap();
    drop(std::panic::take_hook());
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for secret in [AGENT, "the-query", "the-wrong-token", "the page said", "nothing-in-path"] {
        assert!(!log.contains(secret), "{secret} is in {log}");
    }
    let (panics, answers): (Vec<_>, Vec<_>) = log.lines().partition(|line| line.contains("panicked"));
    assert_eq!((panics.len(), answers.len()), (1, 5), "{log}");
    assert!(panics[0].contains("request_id=") && panics[0].contains("support.rs:"), "{log}");
    let failed = answers.iter().find(|line| line.contains("route=\"/v1/panic\"")).unwrap();
    assert!(failed.contains("ERROR") && failed.contains("status=500 latency_ms="), "{log}");
}
