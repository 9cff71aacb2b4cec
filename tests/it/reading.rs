//! Real and tricky pages through the running service.

use serde_json::json;

use crate::golden::{CASES, facts_of_markdown, facts_of_page, golden_file};
use crate::scoring::{PAGES, average, saved_page, score};
use crate::support::service::Service;
use crate::support::site::{Pages, Site};

fn tricky_site() -> Site {
    let add = |pages: Pages, name: &'static str| pages.page(&format!("/{name}"), golden_file(&format!("{name}.html")));
    CASES.iter().map(|case| case.name).fold(Pages::new(), add).serve()
}

#[tokio::test]
async fn each_tricky_page_becomes_its_golden_markdown_through_the_service() {
    let site = tricky_site();
    let service = Service::for_sites(&[&site]).await;
    for case in &CASES {
        let request = json!({ "url": site.url(&format!("/{}", case.name)), "content": case.content });
        let answer = service.fetch(request).await.ok();
        let markdown = answer["content"].as_str().unwrap();
        assert_eq!(markdown, golden_file(&format!("{}.md", case.name)).trim_end(), "{}", case.name);
    }
    service.finish().await;
}

#[tokio::test]
async fn markdown_has_the_links_cells_and_code_of_the_page_that_the_service_read() {
    let site = tricky_site();
    let service = Service::for_sites(&[&site]).await;
    for case in &CASES {
        let read = async |format: &str| {
            let url = site.url(&format!("/{}", case.name));
            let answer = service.fetch(json!({ "url": url, "content": "full", "format": format })).await.ok();
            answer["content"].as_str().unwrap().to_owned()
        };
        let (html, markdown) = (read("html").await, read("markdown").await);
        assert_eq!(facts_of_markdown(&markdown), facts_of_page(&html), "{}", case.name);
    }
    service.finish().await;
}

/// The bar is the seed extractor's own score; the pages are described in `pages/README.md`.
#[tokio::test]
async fn the_main_text_of_real_pages_is_found() {
    let saved: Vec<(String, String)> = PAGES.iter().map(|name| saved_page(name)).collect();
    let add =
        |pages: Pages, (name, (html, _)): (&&str, &(String, String))| pages.page(&format!("/{name}"), html.clone());
    let site = PAGES.iter().zip(&saved).fold(Pages::new(), add).serve();
    let service = Service::for_sites(&[&site]).await;
    let mut scores = Vec::new();
    for (name, (_, gold)) in PAGES.iter().zip(&saved) {
        let request = json!({ "url": site.url(&format!("/{name}")), "max_chars": 1_000_000, "artifact": "never" });
        let answer = service.fetch(request).await.ok();
        scores.push(score(gold, answer["content"].as_str().unwrap()));
    }
    let f1 = average(&scores).f1();
    assert!(f1 >= 0.95, "4-gram F1 {f1}");
    service.finish().await;
}
