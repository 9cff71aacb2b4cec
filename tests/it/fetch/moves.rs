//! Redirects of every kind.

use serde_json::json;

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};

#[tokio::test]
async fn a_chain_of_redirects_is_followed_and_told() {
    let site = Pages::new()
        .route("/1", |_| Reply::redirect(301, "/2?a=b"))
        .route("/2", |_| Reply::redirect(307, "3"))
        .route("/3", |_| Reply::redirect(303, "/static.html#part"))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/1")).await;
    let moves = json!([
        { "url": site.url("/1"), "status": 301 },
        { "url": site.url("/2?a=b"), "status": 307 },
        { "url": site.url("/3"), "status": 303 },
    ]);
    assert_eq!((&answer["redirects"], &answer["http_status"]), (&moves, &json!(200)));
    assert_eq!((&answer["url"], &answer["title"]), (&json!(site.url("/1")), &json!("Tides")));
    assert!(answer["final_url"].as_str().unwrap().starts_with(&site.url("/static.html")), "{answer}");
    service.finish().await;
}

#[tokio::test]
async fn a_redirect_to_a_text_is_told_as_one_to_a_page_is() {
    let site = Pages::new()
        .route("/1", |_| Reply::redirect(302, "/data.json"))
        .route("/data.json", |_| Reply::new(200, "application/json", "{}"))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/1")).await;
    assert_eq!(answer["redirects"], json!([{ "url": site.url("/1"), "status": 302 }]));
    assert_eq!(answer["final_url"], site.url("/data.json"));
    service.finish().await;
}

#[tokio::test]
async fn redirects_without_an_end_are_a_loop() {
    let site = Pages::new()
        .route("/a", |_| Reply::redirect(302, "/b"))
        .route("/b", |_| Reply::redirect(302, "/a"))
        .route("/grows", |request| Reply::redirect(302, format!("/grows?n={}", request.number("n").unwrap_or(0) + 1)))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    for path in ["/a", "/grows"] {
        service.fetch(json!({ "url": site.url(path), "timeout_ms": 20_000 })).await.navigation_failed("redirect_loop");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_moves_by_script_is_followed_and_the_move_told() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/moves-by-script.html")).await;
    assert_eq!((&answer["final_url"], &answer["title"]), (&json!(site.url("/static.html?by=script")), &json!("Tides")));
    assert_eq!(answer["redirects"], json!([{ "url": site.url("/moves-by-script.html"), "status": null }]));
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_moves_by_meta_refresh_is_followed_and_the_move_told() {
    let site = Site::of_files();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/moves-by-meta.html")).await;
    assert_eq!((&answer["final_url"], &answer["title"]), (&json!(site.url("/static.html?by=meta")), &json!("Tides")));
    assert_eq!(answer["redirects"], json!([{ "url": site.url("/moves-by-meta.html"), "status": null }]));
    service.finish().await;
}
