//! What a caller may ask for.

use reqwest::Method;
use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};

#[tokio::test]
async fn a_page_comes_as_markdown_with_everything_that_is_known_of_it() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let answer = service.read(&url).await;
    assert_eq!((&answer["url"], &answer["final_url"]), (&json!(url), &json!(url)));
    assert_eq!(
        (&answer["http_status"], &answer["title"], &answer["lang"]),
        (&json!(200), &json!("Tides"), &json!("en"))
    );
    assert_eq!(answer["content_type"], "text/html; charset=utf-8");
    assert_eq!(answer["engine"], json!({ "name": "lightpanda", "version": "1.0.2" }));
    assert_eq!(
        (&answer["truncated"], &answer["artifact"], &answer["cached"]),
        (&json!(false), &json!(null), &json!(false))
    );
    let content = answer["content"].as_str().unwrap();
    assert_eq!(answer["chars"], content.chars().count());
    assert!(content.contains(&format!("[list of sources]({})", site.url("/sources.html"))), "{content}");
    assert!(content.contains("| Avonmouth |"), "{content}");
    assert_eq!(answer["coverage"]["tables"], json!({ "kept": 1, "on_page": 1 }));
    assert_eq!(answer["redirects"], json!([]));
    assert_eq!(answer["timeout_ms"], 90_000);
    for known in ["est_tokens", "mode_used", "elapsed_ms", "timings", "warnings", "wait_outcome", "encoding"] {
        assert!(!answer[known].is_null(), "{known}: {answer}");
    }
    service.finish().await;
}

#[tokio::test]
async fn each_format_has_its_own_form() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let content = async |format: &str| {
        let answer = service.fetch(json!({ "url": site.url("/static.html"), "format": format })).await.ok();
        assert_eq!(answer["format"], format);
        answer
    };
    let html = content("html").await;
    assert!(html["content"].as_str().unwrap().contains("<p>"), "{html}");
    let text = content("text").await;
    let plain = text["content"].as_str().unwrap();
    assert!(plain.contains("list of sources") && !plain.contains('<') && !plain.contains("]("), "{plain}");
    let links = content("links").await;
    assert_eq!(links["links"], json!([{ "text": "list of sources", "url": site.url("/sources.html") }]));
    let outline = content("outline").await;
    let headings = outline["content"].as_str().unwrap();
    assert!(headings.contains("h1: Tides") && headings.contains("h2: Spring and neap"), "{headings}");
    let data = content("structured_data").await;
    let data: serde_json::Value = serde_json::from_str(data["content"].as_str().unwrap()).unwrap();
    assert_eq!(data["json_ld"][0]["headline"], "Tides");
    assert_eq!(data["meta"]["description"], "Why the sea rises twice a day");
    service.finish().await;
}

#[tokio::test]
async fn the_main_content_leaves_out_what_stands_around_it_and_the_full_page_does_not() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let main = service.read(&site.url("/static.html")).await["content"].to_string();
    let full = service.fetch(json!({ "url": site.url("/static.html"), "content": "full" })).await.ok();
    assert_eq!(full["mode_used"], "full");
    let full = full["content"].to_string();
    for around in ["Navigation entry", "Imprint of the tide office"] {
        assert!(!main.contains(around) && full.contains(around), "{around}: {main}\n{full}");
    }
    assert!(main.contains("Where a coast narrows") && full.contains("Where a coast narrows"));
    service.finish().await;
}

#[tokio::test]
async fn a_selector_reads_only_what_it_matches() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let answer = service.fetch(json!({ "url": url, "selector": "footer" })).await.ok();
    assert_eq!((&answer["content"], &answer["mode_used"]), (&json!("Imprint of the tide office"), &json!("selector")));
    service.fetch(json!({ "url": url, "selector": "#absent" })).await.problem(409, "target_not_found");
    let problem = service.fetch(json!({ "url": url, "selector": "a[" })).await.problem(422, "invalid_field");
    assert_eq!(problem["field"], "selector");
    service.finish().await;
}

/// Two sites; the first redirects to the second, and has a page that takes a script from it.
fn two_origins() -> (Site, Site) {
    let other = Pages::new()
        .page("/landed", "<!doctype html><title>landed</title><h1>Landed</h1>")
        .route("/script.js", |_| Reply::new(200, "text/javascript", "document.title = 'ran'"))
        .serve();
    let (landed, script) = (other.url("/landed"), other.url("/script.js"));
    let first = Pages::new()
        .route("/redirects", move |_| Reply::redirect(302, landed.clone()))
        .page("/embeds", format!("<!doctype html><title>x</title><h1>Embeds</h1><script src='{script}'></script><script src='/own.js'></script>"))
        .route("/own.js", |_| Reply::new(200, "text/javascript", ""))
        .serve();
    (first, other)
}

#[tokio::test]
async fn headers_reach_the_first_origin_and_no_other() {
    let (first, other) = two_origins();
    let service = Service::for_sites(&[&first, &other]).await;
    let headers = json!({ "Authorization": "Bearer of-the-site", "X-Trace": "7" });
    let answer = service.fetch(json!({ "url": first.url("/redirects"), "headers": headers })).await.ok();
    assert_eq!(answer["final_url"], other.url("/landed"));
    let answer = service.fetch(json!({ "url": first.url("/embeds"), "headers": headers })).await.ok();
    assert_eq!(answer["title"], "ran", "the script of the other origin ran");
    for path in ["/redirects", "/embeds", "/own.js"] {
        let request = &first.requests(path)[0];
        assert_eq!(request.header("authorization"), Some("Bearer of-the-site"), "{path}");
        assert_eq!(request.header("x-trace"), Some("7"), "{path}");
    }
    for path in ["/landed", "/script.js"] {
        let request = &other.requests(path)[0];
        assert_eq!((request.header("authorization"), request.header("x-trace")), (None, None), "{path}");
    }
    service.finish().await;
}

#[tokio::test]
async fn no_request_tells_a_site_that_it_came_through_a_proxy() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    service.read(&site.url("/static.html")).await;
    let request = &site.requests("/static.html")[0];
    for header in ["proxy-authorization", "proxy-connection", "via", "forwarded", "x-forwarded-for"] {
        assert_eq!(request.header(header), None, "{header}");
    }
    assert_eq!(request.header("host"), Some(site.address().to_string().as_str()));
    service.finish().await;
}

#[tokio::test]
async fn cookies_reach_the_site_and_the_page_and_no_later_call() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/tells-cookies.html");
    let cookies =
        json!([{ "name": "taste", "value": "vanilla" }, { "name": "far", "value": "1", "path": "/elsewhere" }]);
    let answer = service.fetch(json!({ "url": url, "cookies": cookies })).await.ok();
    assert!(answer["content"].as_str().unwrap().contains("document has taste=vanilla"), "{answer}");
    let next = service.read(&url).await;
    assert!(!next["content"].as_str().unwrap().contains("vanilla"), "{next}");
    let sent: Vec<_> =
        site.requests("/tells-cookies.html").iter().map(|r| r.header("cookie").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("taste=vanilla".to_owned()), None]);
    service.finish().await;
}

#[tokio::test]
async fn headers_and_cookies_go_together() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let cookies = json!([{ "name": "one", "value": "first" }, { "name": "two", "value": "second" }]);
    let url = site.url("/tells-cookies.html");
    let answer = service.fetch(json!({ "url": url, "headers": { "X-Trace": "7" }, "cookies": cookies })).await.ok();
    assert!(answer["content"].as_str().unwrap().contains("document has one=first; two=second"), "{answer}");
    let request = &site.requests("/tells-cookies.html")[0];
    assert_eq!((request.header("x-trace"), request.header("cookie")), (Some("7"), Some("one=first; two=second")));
    service.finish().await;
}

#[tokio::test]
async fn a_locale_reaches_the_site_and_the_page() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/tells-language.html");
    let answer = service.fetch(json!({ "url": url, "locale": "de-CH" })).await.ok();
    assert!(answer["content"].as_str().unwrap().contains("navigator says de-CH"), "{answer}");
    let answer = service.read(&url).await;
    assert!(answer["content"].as_str().unwrap().contains("navigator says en-US"), "{answer}");
    let requests = site.requests("/tells-language.html");
    assert!(requests[0].header("accept-language").is_some_and(|sent| sent.starts_with("de-CH")), "{requests:?}");
    assert!(!requests[1].header("accept-language").unwrap_or_default().contains("de"), "{requests:?}");
    service.finish().await;
}

fn many_lines(count: usize) -> String {
    let lines: String = (0..count).map(|number| format!("<p>Paragraph number {number} of a long page.</p>")).collect();
    format!("<!doctype html><title>Long</title><main><h1>Long</h1>{lines}</main>")
}

#[tokio::test]
async fn a_long_text_is_cut_on_a_line_border_and_kept_whole() {
    let site = Pages::new().page("/long", many_lines(400)).serve();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.fetch(json!({ "url": site.url("/long"), "max_chars": 1000 })).await.ok();
    let content = answer["content"].as_str().unwrap();
    assert!(content.chars().count() <= 1000 && content.trim_end().ends_with("of a long page."), "{content}");
    assert_eq!((&answer["truncated"], &answer["chars"]), (&json!(true), &json!(content.chars().count())));
    let artifact = &answer["artifact"];
    assert_eq!(artifact["chars"], answer["total_chars"]);
    let whole = service.get(&format!("/v1/artifacts/{}/content?limit=1000000", artifact["id"].as_str().unwrap())).await;
    let whole = whole.ok()["content"].as_str().unwrap().to_owned();
    assert!(whole.starts_with(content) && whole.contains("Paragraph number 399"), "{whole}");
    let never = json!({ "url": site.url("/long"), "max_chars": 1000, "artifact": "never" });
    let never = service.fetch(never).await.ok();
    assert_eq!((&never["truncated"], &never["artifact"]), (&json!(true), &json!(null)));
    let always = service.fetch(json!({ "url": site.url("/long"), "artifact": "always" })).await.ok();
    assert_eq!((&always["truncated"], &always["artifact"]["sha256"]), (&json!(false), &artifact["sha256"]));
    assert_eq!(service.status().await["store"]["artifacts"], 2);
    service.finish().await;
}

#[tokio::test]
async fn a_client_that_prefers_text_gets_the_text_alone() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let json = service.read(&url).await;
    for (accept, content_type) in
        [("text/markdown", "text/markdown; charset=utf-8"), ("text/plain", "text/plain; charset=utf-8")]
    {
        let request = service.request(Method::POST, "/v1/fetch").header("accept", accept).json(&json!({ "url": url }));
        let answer = service.send(request).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(content_type)));
        assert_eq!(json["content"], answer.text());
        let total = json["total_chars"].to_string();
        for (name, value) in [
            ("content-location", url.as_str()),
            ("x-pandarium-http-status", "200"),
            ("x-pandarium-truncated", "false"),
            ("x-pandarium-total-chars", &total),
            ("x-pandarium-title", "Tides"),
            ("x-pandarium-engine", "lightpanda/1.0.2"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
    }
    service.finish().await;
}

#[tokio::test]
async fn a_get_answers_as_the_post_does() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/static.html");
    let posted = service.fetch(json!({ "url": url, "format": "text", "max_chars": 300 })).await.ok();
    let query = format!("/v1/fetch?url={url}&format=text&max_chars=300&artifact=never");
    let got = service.get(&query).await.ok();
    assert_eq!((&got["content"], &got["chars"]), (&posted["content"], &posted["chars"]));
    let problem = service.get(&format!("/v1/fetch?url={url}&colour=red")).await.problem(422, "invalid_field");
    assert_eq!(problem["field"], "colour");
    service.finish().await;
}
