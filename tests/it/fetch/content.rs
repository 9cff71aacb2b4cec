//! What is read, what comes as it is, and what is refused.

use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply};

#[tokio::test]
async fn what_is_a_text_by_itself_comes_as_it_is() {
    let site = Pages::new()
        .route("/json", |_| Reply::new(200, "application/json", r#"{"b":[1,2],"a":"é"}"#))
        .route("/broken.json", |_| Reply::new(200, "application/json", "{\"b\":"))
        .route("/csv", |_| Reply::new(200, "text/csv", "name,size\nant,1\n"))
        .route("/xml", |_| Reply::new(200, "application/rss+xml", "<rss><channel><title>T</title></channel></rss>"))
        .route("/text", |_| Reply::new(200, "text/plain", "one\n  two < three\n"))
        .route("/markdown", |_| Reply::new(200, "text/markdown", "# Title\n\n*text*\n"))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    for (path, format, content) in [
        ("/json", "text", "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": \"é\"\n}"),
        ("/json", "markdown", "```json\n{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": \"é\"\n}\n```"),
        ("/broken.json", "text", "{\"b\":"),
        ("/csv", "text", "name,size\nant,1\n"),
        ("/xml", "text", "<rss><channel><title>T</title></channel></rss>"),
        ("/text", "text", "one\n  two < three\n"),
        ("/markdown", "markdown", "# Title\n\n*text*\n"),
    ] {
        let answer = service.fetch(json!({ "url": site.url(path), "format": format })).await.ok();
        assert_eq!(answer["content"].as_str().map(str::trim_end), Some(content.trim_end()), "{path} as {format}");
        assert_eq!((&answer["mode_used"], &answer["http_status"]), (&json!("verbatim"), &json!(200)), "{path}");
    }
    for (path, fence) in [("/csv", "ant,1"), ("/xml", "<rss>"), ("/text", "two < three")] {
        let answer = service.read(&site.url(path)).await;
        assert!(answer["content"].as_str().unwrap().contains(fence), "{path}: {answer}");
    }
    let broken = service.read(&site.url("/broken.json")).await;
    assert_eq!(broken["warnings"], json!([{ "code": "invalid_json" }]));
    let links = service.fetch(json!({ "url": site.url("/json"), "format": "links" })).await;
    assert_eq!(links.problem(415, "unsupported_content_type")["content_type"], "application/json");
    service.finish().await;
}

#[tokio::test]
async fn what_is_no_text_is_refused_by_its_content_type() {
    let types =
        [("/pdf", "application/pdf"), ("/png", "image/png"), ("/zip", "application/zip"), ("/mp4", "video/mp4")];
    let site = types.into_iter().fold(Pages::new(), |pages, (path, content_type)| {
        pages.route(path, move |_| Reply::new(200, content_type, b"%PDF-1.7 \x00\x01\x02".to_vec()))
    });
    let site = site.page("/page", "<!doctype html><title>p</title><h1>Page</h1>").serve();
    let service = Service::for_sites(&[&site]).await;
    for (path, content_type) in types {
        let problem = service.fetch(json!({ "url": site.url(path) })).await.problem(415, "unsupported_content_type");
        assert_eq!((&problem["content_type"], &problem["url"]), (&json!(content_type), &json!(site.url(path))));
        assert_eq!(site.count(path), 1, "{path} is not tried again");
    }
    assert_eq!(service.read(&site.url("/page")).await["title"], "p", "the next page is read as ever");
    assert_eq!(service.status().await["pool"]["busy"], 0);
    service.finish().await;
}

#[tokio::test]
async fn a_file_to_save_is_no_page() {
    let site = Pages::new()
        .route("/report", |_| {
            Reply::html("<!doctype html><h1>Report</h1>")
                .header("content-disposition", "attachment; filename=report.html")
        })
        .serve();
    let service = Service::for_sites(&[&site]).await;
    let problem = service.fetch(json!({ "url": site.url("/report") })).await.navigation_failed("download");
    assert_eq!(problem["url"], site.url("/report"));
    service.finish().await;
}

#[tokio::test]
async fn an_answer_without_a_body_is_told_with_its_status() {
    let statuses = [204_u16, 205, 200, 404, 500];
    let site = statuses
        .into_iter()
        .fold(Pages::new(), |pages, status| pages.route(&format!("/{status}"), move |_| Reply::empty(status)));
    let site = site.route("/typed", |_| Reply::html("")).serve();
    let service = Service::for_sites(&[&site]).await;
    for status in statuses {
        let path = format!("/{status}");
        let problem =
            service.fetch(json!({ "url": site.url(&path), "artifact": "always" })).await.navigation_failed("empty");
        assert_eq!((&problem["http_status"], &problem["retryable"]), (&json!(status), &json!(false)));
        assert_eq!(site.count(&path), 1, "{path} is not tried again");
    }
    service.fetch(json!({ "url": site.url("/typed") })).await.navigation_failed("empty");
    assert_eq!(service.status().await["store"]["artifacts"], 0);
    service.finish().await;
}

#[tokio::test]
async fn a_page_with_an_error_status_is_a_page() {
    let reply = |status| Reply::new(status, "text/html", "<!doctype html><title>Sorry</title><h1>Nothing here</h1>");
    let site = Pages::new().route("/404", move |_| reply(404)).route("/500", move |_| reply(500)).serve();
    let service = Service::for_sites(&[&site]).await;
    for status in [404, 500] {
        let answer = service.read(&site.url(&format!("/{status}"))).await;
        assert_eq!(answer["http_status"], status);
        assert!(answer["content"].as_str().unwrap().contains("Nothing here"), "{answer}");
    }
    service.finish().await;
}

#[tokio::test]
async fn compressed_and_chunked_bodies_are_read() {
    use std::io::Write;
    let html = "<!doctype html><title>z</title><h1>Compressed heading</h1>";
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(html.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let site = Pages::new()
        .route("/gzip", move |_| Reply::html(packed.clone()).header("content-encoding", "gzip"))
        .route("/chunked", move |_| Reply::html(html).chunked(7))
        .route("/broken", |_| Reply::html("not gzip at all").header("content-encoding", "gzip"))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    for path in ["/gzip", "/chunked"] {
        let answer = service.read(&site.url(path)).await;
        assert!(answer["content"].as_str().unwrap().contains("Compressed heading"), "{path}: {answer}");
    }
    service.fetch(json!({ "url": site.url("/broken") })).await.navigation_failed("bad_encoding");
    service.finish().await;
}

#[tokio::test]
async fn a_body_above_the_limit_is_too_large() {
    let site =
        Pages::new().page("/big", format!("<!doctype html><title>b</title><p>{}", "word ".repeat(60_000))).serve();
    let setup = crate::support::service::Setup::new(&[&site]).env("PANDARIUM_MAX_RESPONSE_BYTES", "200000");
    let service = setup.start().await;
    service.fetch(json!({ "url": site.url("/big") })).await.navigation_failed("too_large");
    service.finish().await;
}

#[tokio::test]
async fn the_text_of_a_page_is_in_no_log_line() {
    let secret = "Quetzalcoatlus";
    let html = format!("<!doctype html><title>{secret}</title><main><h1>{secret}</h1><p>{secret} flew.</p></main>");
    let html = format!("{html}<script>console.error('{secret}'); throw new Error('{secret}')</script>");
    let site = Pages::new().page("/page", html).serve();
    let service = crate::support::service::Setup::new(&[&site]).env("PANDARIUM_LOG", "trace").start().await;
    let answer = service.read(&site.url("/page")).await;
    assert!(answer["content"].as_str().unwrap().contains(secret));
    service
        .fetch(json!({ "url": site.url("/page"), "wait_for_script": format!("{secret} +") }))
        .await
        .problem(422, "script_error");
    let log = service.log();
    assert!(log.contains("/v1/fetch"), "the call is logged");
    let told = log.lines().find(|line| line.contains(secret));
    assert_eq!(told, None);
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_breaks_the_built_ins_is_read_all_the_same() {
    let breaks = "Element.prototype.getAttribute = () => 'forged'; Array.prototype.push = null; Set.prototype.add = null; \
                  String.prototype.replaceAll = () => ''; Object.prototype.toJSON = () => 'forged';";
    let page = format!(
        "<!doctype html><title>broken</title><h1>Kept</h1><p>Text with a <a href='/a'>link</a>.</p><script>{breaks}</script>"
    );
    let site = Pages::new().page("/", page).serve();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.fetch(json!({ "url": site.url("/"), "content": "full" })).await.ok();
    let wanted = format!("# Kept\n\nText with a [link]({}).", site.url("/a"));
    assert_eq!((&answer["content"], &answer["title"]), (&json!(wanted), &json!("broken")));
    service.finish().await;
}
