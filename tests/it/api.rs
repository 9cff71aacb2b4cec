//! The frame around every call: who gets in, what is refused, what the service tells of itself.

use pandarium::api::openapi::document_json;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::service::{Service, text_of};
use crate::support::site::Site;

const JSON: &str = "application/json";

#[tokio::test]
async fn only_the_tokens_of_this_service_get_in() {
    let service = Service::for_sites(&[]).await;
    let wrong = "0".repeat(64);
    for authorization in [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        &format!("Bearer {wrong}"),
        &format!("Bearer {}x", service.token),
        &service.token,
    ] {
        let request = service.bare(Method::GET, "/v1/status").header("authorization", authorization);
        let answer = service.send(request).await;
        answer.problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{authorization}");
    }
    for path in ["/v1/status", "/v1/fetch", "/v1/artifacts", "/metrics", "/nothing/here"] {
        service.send(service.bare(Method::GET, path)).await.problem(401, "unauthorized");
    }
    for path in ["/healthz", "/openapi.json", "/docs/"] {
        assert_eq!(service.send(service.bare(Method::GET, path)).await.status, 200, "{path}");
    }
    let approver = text_of(service.data_dir(), "approver-token");
    let request = service.bare(Method::GET, "/v1/status").bearer_auth(approver.trim());
    service.send(request).await.ok();
    service.finish().await;
}

#[tokio::test]
async fn the_header_file_is_what_a_client_needs() {
    let service = Service::for_sites(&[]).await;
    let header = text_of(service.data_dir(), "auth.header");
    assert_eq!(header.trim_end(), format!("Authorization: Bearer {}", service.token));
    for name in ["token", "approver-token", "auth.header", "pandarium.db"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = service.data_dir().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_token_in_the_url_is_refused_even_if_it_is_right() {
    let service = Service::for_sites(&[]).await;
    for name in ["token", "access_token", "TOKEN"] {
        let path = format!("/v1/status?{name}={}", service.token);
        service.send(service.bare(Method::GET, &path)).await.problem(400, "invalid_request");
        service.get(&path).await.problem(400, "invalid_request");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_foreign_host_or_origin_gets_in_nowhere() {
    let service = Service::for_sites(&[]).await;
    let port = service.port();
    for path in ["/healthz", "/v1/status", "/nothing/here"] {
        for host in [
            "evil.example",
            "evil.example:80",
            "127.0.0.1",
            &format!("127.0.0.2:{port}"),
            &format!("localhost.evil.example:{port}"),
        ] {
            let request = service.request(Method::GET, path).header("host", host);
            service.send(request).await.problem(403, "host_not_allowed");
        }
        for origin in ["http://evil.example", "null", &format!("http://127.0.0.1:{}", port ^ 1)] {
            let request = service.request(Method::GET, path).header("origin", origin);
            service.send(request).await.problem(403, "origin_not_allowed");
        }
        for site in ["cross-site", "same-site"] {
            let request = service.request(Method::GET, path).header("sec-fetch-site", site);
            service.send(request).await.problem(403, "origin_not_allowed");
        }
    }
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        let request = service.request(Method::GET, "/v1/status").header("host", &host);
        service.send(request.header("origin", format!("http://{host}"))).await.ok();
    }
    service.finish().await;
}

#[tokio::test]
async fn a_body_must_be_marked_as_json_and_be_json() {
    let service = Service::for_sites(&[]).await;
    let body = r#"{"url":"http://example.com/"}"#;
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/json",
        "application/json; charset=latin1",
    ] {
        let request = service.request(Method::POST, "/v1/fetch").header("content-type", content_type).body(body);
        service.send(request).await.problem(415, "unsupported_media_type");
    }
    service.send(service.request(Method::POST, "/v1/fetch").body(body)).await.problem(415, "unsupported_media_type");
    for body in ["", "{", "{\"url\":}", "\u{feff}{}"] {
        let request = service.request(Method::POST, "/v1/fetch").header("content-type", JSON).body(body);
        let answer = service.send(request).await;
        let problem = answer.problem(400, "invalid_request");
        assert!(problem["detail"].as_str().unwrap().contains("JSON"), "{body}: {problem}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_field_that_is_unknown_or_of_the_wrong_type_is_named() {
    let service = Service::for_sites(&[]).await;
    let url = "http://example.com/";
    for (body, field) in [
        (json!({ "url": url, "colour": "red" }), "colour"),
        (json!({ "url": 7 }), "url"),
        (json!({}), "url"),
        (json!({ "url": url, "timeout_ms": "soon" }), "timeout_ms"),
        (json!({ "url": url, "timeout_ms": 0 }), "timeout_ms"),
        (json!({ "url": url, "timeout_ms": 600_001 }), "timeout_ms"),
        (json!({ "url": url, "max_chars": -1 }), "max_chars"),
        (json!({ "url": url, "format": "pdf" }), "format"),
        (json!({ "url": url, "engine": "chrome" }), "engine"),
        (json!({ "url": url, "headers": { "host": "evil.example" } }), "headers"),
        (json!({ "url": url, "headers": { "a\r\nb": "c" } }), "headers"),
        (json!({ "url": url, "cookies": [{ "name": "a", "value": "b", "secure": true }] }), "cookies[0].secure"),
        (json!({ "url": url, "locale": "not a locale" }), "locale"),
    ] {
        let problem = service.fetch(body.clone()).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_body_above_two_megabytes_is_too_large_and_one_of_two_is_not() {
    const LIMIT: usize = 2 * 1024 * 1024;
    let service = Service::for_sites(&[]).await;
    let body = |bytes: usize| format!(r#"{{"url":"{}"}}"#, "x".repeat(bytes - 10));
    let send = async |body: String| {
        service.send(service.request(Method::POST, "/v1/fetch").header("content-type", JSON).body(body)).await
    };
    assert_eq!(body(LIMIT).len(), LIMIT);
    send(body(LIMIT + 1)).await.problem(413, "payload_too_large");
    send(body(LIMIT)).await.problem(422, "invalid_field");
    service.finish().await;
}

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_typed() {
    let service = Service::for_sites(&[]).await;
    service.get("/v1/nothing").await.problem(404, "not_found");
    let answer = service.send(service.request(Method::PUT, "/v1/status")).await;
    answer.problem(405, "method_not_allowed");
    assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")), "{answer:?}");
    service.finish().await;
}

#[tokio::test]
async fn it_is_alive_at_once_and_ready_when_a_worker_has_shown_a_page() {
    let service = Service::for_sites(&[]).await;
    assert_eq!(service.send(service.bare(Method::GET, "/healthz")).await.ok(), json!({ "status": "ok" }));
    service.ready().await;
    assert_eq!(service.send(service.bare(Method::GET, "/readyz")).await.ok(), json!({ "status": "ready" }));
    assert_eq!(service.status().await["engines"][0]["version"], "1.0.2");
    service.finish().await;
}

#[tokio::test]
async fn the_status_tells_engines_pool_store_and_limits() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.read(&site.url("/static.html")).await;
    let status = service.status().await;
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let engine = &status["engines"][0];
    assert_eq!(
        (&engine["name"], &engine["version"], &engine["origin"]),
        (&json!("lightpanda"), &json!("1.0.2"), &json!("configured"))
    );
    assert_eq!(engine["sha256"].as_str().map(str::len), Some(64));
    let pool = &status["pool"];
    for (field, value) in [
        ("workers", 1),
        ("slots", 4),
        ("idle", 4),
        ("busy", 0),
        ("starting", 0),
        ("waiting", 0),
        ("recycled", 0),
        ("crashed", 0),
        ("pages", 1),
    ] {
        assert_eq!(pool[field], value, "{field}: {pool}");
    }
    assert_eq!(status["store"], json!({ "artifacts": 0, "bytes": 0 }));
    for (limit, value) in [
        ("fetch_timeout_s", 90),
        ("max_timeout_s", 600),
        ("max_chars", 50_000),
        ("settle_ms", 2000),
        ("queue_limit", 128),
    ] {
        assert_eq!(status["limits"][limit], value, "{limit}");
    }
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains(&site.address().to_string()), "an exemption is told: {warnings}");
    service.finish().await;
}

#[tokio::test]
async fn the_metrics_count_calls_and_hold_no_address() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.read(&site.url("/static.html")).await;
    let answer = service.get("/metrics").await;
    assert!(answer.header("content-type").is_some_and(|value| value.starts_with("text/plain; version=0.0.4")));
    let metrics = answer.text();
    assert!(
        metrics.lines().any(|line| line.starts_with("pandarium_http_requests_total{")
            && line.contains("/v1/fetch")
            && line.ends_with(" 1")),
        "{metrics}"
    );
    assert!(!metrics.contains("static.html"), "{metrics}");
    service.finish().await;
}

#[tokio::test]
async fn the_openapi_document_is_the_committed_one() {
    let service = Service::for_sites(&[]).await;
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json")).unwrap();
    let advice = "regenerate it: cargo run -- openapi > openapi/openapi.json";
    assert_eq!(committed.trim_end(), document_json().trim_end(), "{advice}");
    let served = service.send(service.bare(Method::GET, "/openapi.json")).await;
    assert_eq!(served.header("content-type"), Some(JSON));
    assert_eq!(served.ok(), serde_json::from_str::<Value>(&committed).unwrap());
    service.finish().await;
}

#[tokio::test]
async fn the_documentation_comes_from_the_binary_alone() {
    let service = Service::for_sites(&[]).await;
    let page = service.send(service.bare(Method::GET, "/docs/")).await;
    assert_eq!(page.status, 200);
    let html = page.text();
    assert!(html.contains("swagger"), "{html}");
    assert!(!html.contains("https://") && !html.contains("http://") && !html.contains("src=\"//"), "{html}");
    let names = html.split(['"', '\'']).filter(|name| name.ends_with(".js") || name.ends_with(".css"));
    for name in names {
        let path = format!("/docs/{}", name.trim_start_matches("./"));
        assert_eq!(service.send(service.bare(Method::GET, &path)).await.status, 200, "{path}");
    }
    service.finish().await;
}
