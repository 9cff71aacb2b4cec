//! Faults that were publicly reported in tools of this kind: the cases of the project's bug fixtures, by their names.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};
use crate::support::{process, until};

/// Text and target of every link and image, as a CommonMark parser reads them.
fn links_in(markdown: &str) -> Vec<(String, String)> {
    let mut links = Vec::new();
    let mut open: Option<(String, String)> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                open = Some((String::new(), dest_url.to_string()));
            }
            Event::Text(text) => {
                if let Some((said, _)) = &mut open {
                    said.push_str(&text);
                }
            }
            Event::End(TagEnd::Link | TagEnd::Image) => links.extend(open.take()),
            _ => {}
        }
    }
    links
}

/// The text of the first heading.
fn heading_in(markdown: &str) -> Option<String> {
    let mut events = Parser::new(markdown).skip_while(|event| !matches!(event, Event::Start(Tag::Heading { .. })));
    events.next()?;
    let inside = events.take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    Some(inside.filter_map(|event| if let Event::Text(text) = event { Some(text.to_string()) } else { None }).collect())
}

/// unclecode/crawl4ai#1680: links are resolved against the page's own URL although the page sets a base.
#[tokio::test]
async fn s03_links_are_resolved_against_the_base_that_the_page_sets() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/base-href-links.html");
    let expected = [
        ("sibling", "https://docs.example/v2/guide.html"),
        ("rooted", "https://docs.example/root.html"),
        ("query", "https://docs.example/v2/?q=1"),
        ("fragment", "https://docs.example/v2/#part"),
        ("scheme-less", "https://cdn.example/x"),
        ("up", "https://docs.example/v1/old.html"),
        ("space", "https://docs.example/v2/guide%20two.html"),
    ];
    let markdown = service.fetch(json!({ "url": url, "timeout_ms": 5000 })).await.ok();
    let markdown = markdown["content"].as_str().unwrap();
    let picture = ("a picture", "https://docs.example/v2/pic.png");
    let wanted: BTreeSet<_> =
        expected.into_iter().chain([picture]).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    assert_eq!(links_in(markdown).into_iter().collect::<BTreeSet<_>>(), wanted, "{markdown}");
    assert!(markdown.contains("script") && !markdown.contains("javascript:"), "{markdown}");
    let links = service.fetch(json!({ "url": url, "format": "links", "timeout_ms": 5000 })).await.ok();
    let listed = expected.map(|(text, url)| json!({ "text": text, "url": url }));
    assert_eq!(links["links"], json!(listed));
    service.finish().await;
}

/// The same page with the two other hosts at a listener of ours: nothing is requested from them.
#[tokio::test]
async fn s03_nothing_is_requested_from_the_base() {
    let base = Pages::new().serve();
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/site/base-href-links.html"));
    let page = page.replace("https://docs.example", &base.url("")).replace("cdn.example", &base.address().to_string());
    let site = Pages::new().page("/page", page).serve();
    let service = Service::for_sites(&[&site, &base]).await;
    let links = service.fetch(json!({ "url": site.url("/page"), "format": "links" })).await.ok();
    assert_eq!(links["links"][0]["url"], base.url("/v2/guide.html"));
    assert_eq!(base.connections(), 0);
    service.finish().await;
}

fn encoded_page(encoding: &'static encoding_rs::Encoding, text: &str, meta: &str) -> Vec<u8> {
    let page = format!(
        "<!doctype html><html><head>{meta}<title>{text}</title></head><body><main><h1>{text}</h1>\
         <p>{text} {text} {text}</p></main></body></html>"
    );
    if encoding == encoding_rs::UTF_16LE {
        let units = page.encode_utf16().flat_map(u16::to_le_bytes);
        return [0xff, 0xfe].into_iter().chain(units).collect();
    }
    let (bytes, _, unmappable) = encoding.encode(&page);
    assert!(!unmappable, "{text} has no {}", encoding.name());
    bytes.into_owned()
}

struct Encoded {
    path: &'static str,
    content_type: String,
    encoding: &'static encoding_rs::Encoding,
    text: &'static str,
    meta: &'static str,
    /// The encoding that must have been used.
    name: &'static str,
    /// What must have said so.
    source: &'static str,
}

const JAPANESE: &str = "価格の比較表";
const RUSSIAN: &str = "Привет мир";

fn encoded_pages() -> [Encoded; 8] {
    let page = |path, content_type: &str, encoding, text, meta, (name, source)| Encoded {
        path,
        content_type: content_type.to_owned(),
        encoding,
        text,
        meta,
        name,
        source,
    };
    let sjis = r#"<meta charset="shift_jis">"#;
    let euc_kr = r#"<meta http-equiv="Content-Type" content="text/html; charset=euc-kr">"#;
    let html = "text/html";
    let labelled = ["windows-1251", "utf-8", "latin1", "iso-88509-1"];
    let [windows, utf_8, latin1, unknown] = labelled.map(|label| format!("text/html; charset={label}"));
    use encoding_rs::{EUC_KR, SHIFT_JIS, UTF_8, UTF_16LE, WINDOWS_1251, WINDOWS_1252};
    [
        page("/meta-sjis", html, SHIFT_JIS, JAPANESE, sjis, ("Shift_JIS", "meta")),
        page("/header-1251", &windows, WINDOWS_1251, RUSSIAN, "", ("windows-1251", "header")),
        page("/bom-utf16", html, UTF_16LE, JAPANESE, "", ("UTF-16LE", "bom")),
        page("/header-beats-meta", &utf_8, UTF_8, JAPANESE, sjis, ("UTF-8", "header")),
        page("/http-equiv-euckr", html, EUC_KR, "한국어 문서", euc_kr, ("EUC-KR", "meta")),
        page("/none-1252", html, WINDOWS_1252, "café déjà vu", "", ("windows-1252", "default")),
        page("/label-alias", &latin1, WINDOWS_1252, "price 5€", "", ("windows-1252", "header")),
        page("/unknown-label", &unknown, UTF_8, RUSSIAN, "", ("UTF-8", "utf8")),
    ]
}

/// firecrawl/firecrawl#1142: a page not in UTF-8 comes back garbled.
#[tokio::test]
async fn s07_a_page_in_any_encoding_is_read_and_the_encoding_told() {
    let site = encoded_pages().into_iter().fold(Pages::new(), |pages, page| {
        let body = encoded_page(page.encoding, page.text, page.meta);
        pages.route(page.path, move |_| Reply::new(200, &page.content_type, body.clone()))
    });
    let site = site.serve();
    let service = Service::for_sites(&[&site]).await;
    for Encoded { path, text, name, source, .. } in encoded_pages() {
        let answer = service.fetch(json!({ "url": site.url(path), "timeout_ms": 5000 })).await.ok();
        let markdown = answer["content"].as_str().unwrap();
        assert_eq!(heading_in(markdown).as_deref(), Some(text), "{path}: {markdown}");
        assert_eq!(answer["title"], text, "{path}");
        assert!(!answer.to_string().contains('\u{fffd}'), "{path}: {answer}");
        assert_eq!(answer["encoding"], json!({ "name": name, "source": source }), "{path}");
    }
    service.finish().await;
}

const MEGABYTE: u64 = 1024 * 1024;

fn gzip(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    parts.into_iter().for_each(|part| encoder.write_all(&part).unwrap());
    encoder.finish().unwrap()
}

/// A page of 256 MB that is about 250 kB on the wire.
fn bomb() -> Vec<u8> {
    let head = b"<!doctype html><title>bomb</title><h1>grows</h1><p>".to_vec();
    gzip(std::iter::once(head).chain((0..256).map(|_| vec![b'A'; 1024 * 1024])))
}

/// gocolly/colly#886: the size limit counts compressed bytes, so a few hundred kilobytes fill the memory.
#[tokio::test]
async fn s09_the_size_limit_counts_decoded_bytes() {
    let body = bomb();
    let (chunked, nested) = (body.clone(), gzip([body.clone()]));
    let site = Pages::new()
        .route("/bomb", move |_| Reply::html(body.clone()).header("content-encoding", "gzip"))
        .route("/chunked", move |_| Reply::html(chunked.clone()).header("content-encoding", "gzip").chunked(4096))
        .route("/nested", move |_| Reply::html(nested.clone()).header("content-encoding", "gzip, gzip"))
        .page("/ok", "<!doctype html><title>ok</title><h1>small page</h1>")
        .serve();
    let service = Service::for_sites(&[&site]).await;
    service.read(&site.url("/ok")).await;
    let limit = service.status().await["limits"]["max_response_bytes"].as_u64().unwrap();
    let worker = service.workers().await[0];
    let resident = |pid| process::resident_bytes_of(pid).unwrap_or(0);
    let (service_before, worker_before) = (resident(service.pid()), resident(worker));
    for path in ["/bomb", "/nested", "/chunked"] {
        let answer = service.fetch(json!({ "url": site.url(path), "artifact": "always", "timeout_ms": 8000 })).await;
        let problem = answer.problem(502, "navigation_failed");
        let is_unread = path == "/nested" && problem["reason"] == "bad_encoding";
        assert!(is_unread || problem["reason"] == "too_large", "{path}: {problem}");
        assert!(is_unread || problem["detail"].as_str().unwrap().contains("max_response_bytes"), "the limit is named");
    }
    let grown = |peak: u64, before: u64| peak.saturating_sub(before) / MEGABYTE;
    assert!(grown(process::peak_bytes_of(service.pid()), service_before) < 32, "the service grew");
    assert!(grown(process::peak_bytes_of(worker), worker_before) <= limit / MEGABYTE * 4 + 100, "the worker grew");
    let fell_back =
        || resident(service.pid()) < service_before + 32 * MEGABYTE && resident(worker) < worker_before + 50 * MEGABYTE;
    until("the memory falls back", Duration::from_secs(5), fell_back).await;
    assert_eq!(service.status().await["store"]["artifacts"], 0);
    let started = Instant::now();
    assert_eq!(service.read(&site.url("/ok")).await["title"], "ok");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    service.finish().await;
}

/// puppeteer/puppeteer#9458: a 204 answer to a navigation is thrown as an aborted-navigation error.
#[tokio::test]
async fn s10_an_answer_without_a_document_is_told_as_one() {
    let page = "<!doctype html><meta charset=utf-8><title>stay</title><h1>Still here</h1><a href=/204>Nothing</a> \
                <a href=/205>Reset</a> <button onclick=\"this.textContent='pressed'\">Press</button>";
    let site =
        Pages::new().page("/", page).route("/204", |_| Reply::empty(204)).route("/205", |_| Reply::empty(205)).serve();
    let service = Service::for_sites(&[&site]).await;
    for status in [204, 205] {
        let path = format!("/{status}");
        let call = json!({ "url": site.url(&path), "artifact": "always", "timeout_ms": 5000 });
        let problem = service.fetch(call).await.navigation_failed("empty");
        assert_eq!(problem["http_status"], status);
        assert_eq!(site.count(&path), 1, "no retry");
    }
    assert_eq!(service.status().await["store"]["artifacts"], 0);
    let answer = service.read(&site.url("/")).await;
    assert_eq!(heading_in(answer["content"].as_str().unwrap()).as_deref(), Some("Still here"));
    service.finish().await;
}
