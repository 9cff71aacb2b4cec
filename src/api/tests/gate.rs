//! Who gets in.

use super::support::{AGENT, APPROVER, Server, bearer, json_headers};
use crate::api::guard::MAX_BODY_BYTES;

/// Method and target of routes that exist, that do not, and that only answer another method.
const ROUTES: [(&str, &str); 9] = [
    ("GET", "/healthz"),
    ("GET", "/docs/"),
    ("GET", "/v1/status"),
    ("HEAD", "/v1/status"),
    ("POST", "/v1/echo"),
    ("DELETE", "/healthz"),
    ("OPTIONS", "/v1/status"),
    ("OPTIONS", "/nothing/here"),
    ("PROPFIND", "/nothing/here"),
];

/// The whole beginning of a request, up to its other headers: the version and what it says about the host.
fn hostile_heads(port: u16) -> Vec<(&'static str, String, String)> {
    let other = port ^ 1;
    let host = |value: String| ("", "1.1".to_owned(), format!("Host: {value}\r\n"));
    let mut heads = vec![
        host("evil.example".to_owned()),
        host(format!("evil.example:{port}")),
        host(format!("127.0.0.1.evil.example:{port}")),
        host(format!("localhost.:{port}")),
        host(format!("LOCALHOST:{port}")),
        host("127.0.0.1".to_owned()),
        host("localhost".to_owned()),
        host("[::1]".to_owned()),
        host(format!("127.0.0.1:{other}")),
        host(format!("localhost:{other}")),
        host(format!("127.0.0.1\t:{port}")),
        host(format!("127.0.0.1:{port}, evil.example")),
        host(format!("127.0.0.1:{port} evil.example")),
        host(format!("0x7f.1:{port}")),
        host(format!("2130706433:{port}")),
        host(format!("127.1:{port}")),
        host(format!("127.0.0.2:{port}")),
        host(format!("0.0.0.0:{port}")),
        host(format!("[::]:{port}")),
        host(format!("[::ffff:127.0.0.1]:{port}")),
        host(format!("[0:0:0:0:0:0:0:1]:{port}")),
        host(format!("::1:{port}")),
        host(format!("user@127.0.0.1:{port}")),
        host(format!("http://127.0.0.1:{port}")),
        host(format!("127.0.0.1:0{port}")),
        host(format!("127.0.0.1:{port}/")),
        host("pandarium.test.evil.example".to_owned()),
        host("pandarium.test:".to_owned()),
        host("127.0.0.1:".to_owned()),
        host(String::new()),
        ("", "1.1".to_owned(), String::new()),
        ("", "1.0".to_owned(), String::new()),
    ];
    let good = format!("Host: 127.0.0.1:{port}\r\n");
    heads.push(("", "1.1".to_owned(), format!("{good}{good}")));
    heads.push(("", "1.1".to_owned(), format!("{good}Host: evil.example\r\n")));
    heads.push(("", "1.1".to_owned(), format!("Host: evil.example\r\n{good}")));
    heads.push(("http://evil.example", "1.1".to_owned(), good.clone()));
    heads.push(("http://localhost", "1.1".to_owned(), good.clone()));
    heads.push(("https://SAME", "1.1".to_owned(), good.clone()));
    heads.push(("http://user@SAME", "1.1".to_owned(), good));
    heads.push(("http://SAME", "1.1".to_owned(), "Host: evil.example\r\n".to_owned()));
    heads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_exactly_ours_gets_in_nowhere() {
    let server = Server::start().await;
    let (port, same) = (server.address.port(), server.address.to_string());
    for (prefix, version, hosts) in hostile_heads(port) {
        for (method, target) in ROUTES {
            let prefix = prefix.replace("SAME", &same);
            let head = format!("{method} {prefix}{target} HTTP/{version}\r\n{hosts}");
            let answer = server.send(format!("{head}Connection: close\r\n{}\r\n", json_headers())).await;
            assert_eq!(answer.status, 403, "{head}");
            assert!(answer.header("x-request-id").is_some(), "{head}");
            if method != "HEAD" {
                answer.expect_problem(403, "host_not_allowed");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_of_ours_gets_in() {
    let server = Server::start().await;
    let port = server.address.port();
    for (prefix, host) in [
        (String::new(), format!("127.0.0.1:{port}")),
        (String::new(), format!("[::1]:{port}")),
        (String::new(), format!("localhost:{port}")),
        (String::new(), "pandarium.test".to_owned()),
        (String::new(), "pandarium.test:8080".to_owned()),
        (format!("http://127.0.0.1:{port}"), format!("127.0.0.1:{port}")),
    ] {
        let head = format!("GET {prefix}/v1/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let answer = server.send(format!("{head}{}\r\n", bearer(AGENT))).await;
        assert_eq!(answer.status, 200, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_server_may_be_asked_for_and_has_nothing_to_say() {
    let server = Server::start().await;
    server.request("OPTIONS", "*", "", "").await.expect_problem(401, "unauthorized");
    server.request("OPTIONS", "*", &bearer(AGENT), "").await.expect_problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_gets_in_nowhere() {
    let server = Server::start().await;
    let own = format!("http://{}", server.address);
    let foreign = [
        "https://evil.example".to_owned(),
        "null".to_owned(),
        String::new(),
        "file://".to_owned(),
        format!("{own}.evil.example"),
        format!("{own}/"),
        format!("http://localhost:{}", server.address.port()),
        "http://127.0.0.1".to_owned(),
        "http://pandarium.test".to_owned(),
        own.replace("http", "ws"),
        own.replace("http", "HTTP"),
    ];
    let mut refused: Vec<String> = foreign.iter().map(|origin| format!("Origin: {origin}\r\n")).collect();
    refused.push(format!("Origin: {own}\r\nOrigin: https://evil.example\r\n"));
    for site in ["cross-site", "same-site", "None", "", "none, cross-site"] {
        refused.push(format!("Sec-Fetch-Site: {site}\r\n"));
    }
    refused.push("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n".to_owned());
    refused.push(format!("Origin: {own}\r\nSec-Fetch-Site: cross-site\r\n"));
    for headers in &refused {
        for (method, target) in ROUTES.into_iter().filter(|(method, _)| *method != "HEAD") {
            let answer = server.request(method, target, &(json_headers() + headers), "").await;
            answer.expect_problem(403, "origin_not_allowed");
            assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control")), "{headers}");
        }
    }
    for headers in [
        format!("Origin: {own}\r\n"),
        format!("Origin: {own}\r\nSec-Fetch-Site: same-origin\r\n"),
        "Sec-Fetch-Site: none\r\n".to_owned(),
    ] {
        assert_eq!(
            server.request("GET", "/v1/status", &(json_headers() + &headers), "").await.status,
            200,
            "{headers}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_not_marked_as_json_is_refused() {
    let server = Server::start().await;
    let body = r#"{"text":"hello"}"#;
    for content_type in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: application/jsonp\r\n",
        "Content-Type: application/json-patch+json\r\n",
        "Content-Type: text/json\r\n",
        "Content-Type: text/plain; application/json\r\n",
        "Content-Type: application/json; charset=utf-16\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
    ] {
        for (method, target) in [("POST", "/v1/echo"), ("GET", "/v1/status"), ("POST", "/nothing/here")] {
            let answer = server.request(method, target, &(bearer(AGENT) + content_type), body).await;
            answer.expect_problem(415, "unsupported_media_type");
        }
    }
    for content_type in ["application/json", "Application/JSON; charset=\"UTF-8\"", "application/json;charset=utf-8"] {
        let headers = format!("{}Content-Type: {content_type}\r\n", bearer(AGENT));
        let answer = server.request("POST", "/v1/echo", &headers, body).await;
        assert_eq!((answer.status, answer.text()), (200, body), "{content_type}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_says_nothing_about_pages_needs_no_token() {
    let server = Server::start().await;
    for open in ["/healthz", "/openapi.json", "/docs/", "/docs/errors", "/docs/swagger-ui.css"] {
        assert_eq!(server.request("GET", open, "", "").await.status, 200, "{open}");
    }
    assert_eq!(server.request("GET", "/readyz", "", "").await.status, 503);
    for closed in
        ["/v1/status", "/metrics", "/", "/nothing", "/v1/../healthz", "/docs../v1/status", "//healthz", "/healthz/"]
    {
        let answer = server.request("GET", closed, "", "").await;
        answer.expect_problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{closed}");
    }
    for inside in ["/docs/../v1/status", "/docs/%2e%2e/v1/status", "/docs/..%2fv1%2fstatus"] {
        server.request("GET", inside, "", "").await.expect_problem(404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_right_token_in_its_header_counts() {
    let server = Server::start().await;
    for right in [AGENT, APPROVER] {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let headers = format!("Authorization: {scheme} {right}\r\n");
            assert_eq!(server.request("GET", "/v1/status", &headers, "").await.status, 200, "{headers}");
        }
    }
    // Fewer than the burst that is answered with 401.
    for wrong in [
        format!("Authorization: {AGENT}\r\n"),
        format!("Authorization: Basic {AGENT}\r\n"),
        format!("Authorization: Bearer {AGENT}x\r\n"),
        "Authorization: Bearer\r\n".to_owned(),
        bearer(AGENT) + &bearer(AGENT),
        bearer("wrong") + &bearer(AGENT),
        format!("Cookie: token={AGENT}; Authorization=Bearer {AGENT}\r\n"),
        format!("X-Api-Key: {AGENT}\r\n"),
    ] {
        let answer = server.request("GET", "/v1/status", &wrong, "").await;
        let problem = answer.expect_problem(401, "unauthorized");
        assert!(!format!("{problem:?}").contains(AGENT), "{wrong}");
    }
    let body = format!(r#"{{"token":"{AGENT}"}}"#);
    let headers = "Content-Type: application/json\r\n";
    server.request("POST", "/v1/echo", headers, &body).await.expect_problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_url_is_refused_even_beside_a_right_one() {
    let server = Server::start().await;
    for query in ["token=x", "access_token=x", "TOKEN=x", "a=b&Access_Token=x", "%74oken=x", "token", "a=1&token="] {
        for path in ["/v1/status", "/healthz", "/docs/", "/nothing"] {
            server.get(&format!("{path}?{query}")).await.expect_problem(400, "invalid_request");
        }
    }
    assert_eq!(server.get("/v1/status?url=https%3A%2F%2Fsite.example%2F%3Ftoken%3D1&tokens=2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guesser_is_held_up_and_the_owner_is_not() {
    let server = Server::start().await;
    let mut held_up = 0;
    for guess in 0..100 {
        let answer = server.request("GET", "/v1/status", &bearer(&format!("guess-{guess}")), "").await;
        match answer.status {
            401 => {
                answer.expect_problem(401, "unauthorized");
            }
            _ => {
                answer.expect_problem(429, "too_many_requests");
                assert_eq!(answer.header("retry-after"), Some("1"));
                held_up += 1;
            }
        }
        assert_eq!(server.get("/v1/status").await.status, 200, "after guess {guess}");
    }
    assert!(held_up >= 50, "{held_up}");
}

/// As a JSON body of exactly so many bytes.
fn echo_of(bytes: usize) -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes - r#"{"text":""}"#.len()))
}

fn chunked(body: &str) -> String {
    let pieces = body.as_bytes().chunks(60_000);
    let pieces: String =
        pieces.map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap())).collect();
    pieces + "0\r\n\r\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_may_be_two_mebibytes_and_not_one_byte_more() {
    let server = Server::start().await;
    let chunks = json_headers() + "Transfer-Encoding: chunked\r\n";
    let fits = echo_of(MAX_BODY_BYTES);
    assert_eq!(server.request("POST", "/v1/echo", &json_headers(), &fits).await.body.len(), MAX_BODY_BYTES);
    let answer = server.send(server.head("POST", "/v1/echo", &chunks, 0) + &chunked(&fits)).await;
    assert_eq!(answer.body.len(), MAX_BODY_BYTES);

    let over = echo_of(MAX_BODY_BYTES + 1);
    for (method, target) in [("POST", "/v1/echo"), ("POST", "/nothing"), ("DELETE", "/v1/status"), ("GET", "/healthz")]
    {
        let plain = server.request(method, target, &json_headers(), &over).await;
        let problem = plain.expect_problem(413, "payload_too_large");
        assert_eq!(problem.extras["max_bytes"], MAX_BODY_BYTES);
        let chunked = server.send(server.head(method, target, &chunks, 0) + &chunked(&over)).await;
        chunked.expect_problem(413, "payload_too_large");
    }
    assert_eq!(server.request("POST", "/v1/echo", &json_headers(), &echo_of(100)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_before_it_sends_is_told_at_once() {
    let server = Server::start().await;
    let expects = json_headers() + "Expect: 100-continue\r\n";
    let answer = server.send(server.head("POST", "/v1/echo", &expects, MAX_BODY_BYTES + 1)).await;
    answer.expect_problem(413, "payload_too_large");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_readable_for_a_client_that_sends_a_large_body_first() {
    let server = Server::start().await;
    let wrong = bearer("wrong") + "Content-Type: application/json\r\n";
    server.request("POST", "/v1/echo", &wrong, &echo_of(MAX_BODY_BYTES)).await.expect_problem(401, "unauthorized");
}
