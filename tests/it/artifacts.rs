//! `/v1/artifacts`.

use std::path::Path;
use std::time::Duration;

use pandarium::store::Digest;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::service::{Service, Setup};
use crate::support::site::{Pages, Reply, Site};
use crate::support::{eventually, until};

/// Retention runs every 10 s; the rest is for a busy machine.
const RETENTION: Duration = Duration::from_secs(20);

/// Pages of their own for as many numbers as one likes: `/page?n=3`.
fn numbered_site() -> Site {
    let page = |number: usize| {
        let sections: String = (0..40)
            .map(|section| {
                format!("<h2>Section {section} of {number}</h2><p>Text of the ünïque section {section} 🦦.</p>")
            })
            .collect();
        format!("<!doctype html><title>Page {number}</title><main><h1>Page {number}</h1>{sections}</main>")
    };
    Pages::new().route("/page", move |request| Reply::html(page(request.number("n").unwrap_or(0)))).serve()
}

/// Keeps the page of this number and returns the artifact as the fetch told it.
async fn keep(service: &Service, site: &Site, number: usize) -> Value {
    let url = site.url(&format!("/page?n={number}"));
    let answer = service.fetch(json!({ "url": url, "artifact": "always", "content": "full" })).await.ok();
    answer["artifact"].clone()
}

fn id_of(artifact: &Value) -> &str {
    artifact["id"].as_str().expect("an artifact has an id")
}

async fn list(service: &Service) -> Vec<Value> {
    service.get("/v1/artifacts?limit=500").await.ok()["items"].as_array().unwrap().clone()
}

/// The whole text, which must be what the artifact's hash and counts say.
async fn whole(service: &Service, artifact: &Value) -> String {
    let path = format!("/v1/artifacts/{}/content?limit=1000000", id_of(artifact));
    let text = service.get(&path).await.ok()["content"].as_str().unwrap().to_owned();
    assert_eq!(artifact["sha256"], Digest::of(text.as_bytes()).to_string());
    assert_eq!((&artifact["bytes"], &artifact["chars"]), (&json!(text.len()), &json!(text.chars().count())));
    text
}

fn blobs_in(data_dir: &Path) -> usize {
    let mut directories = vec![data_dir.join("artifacts")];
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() { directories.push(entry.path()) } else { files += 1 }
        }
    }
    files
}

#[tokio::test]
async fn the_list_goes_from_the_newest_page_by_page() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let mut kept = Vec::new();
    for number in 0..5 {
        kept.push(id_of(&keep(&service, &site, number).await).to_owned());
    }
    kept.reverse();
    let (mut seen, mut path) = (Vec::new(), "/v1/artifacts?limit=2".to_owned());
    loop {
        let page = service.get(&path).await.ok();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| id_of(item).to_owned()));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/artifacts?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, kept);
    let first = service.get(&format!("/v1/artifacts/{}", kept[0])).await.ok();
    for (field, value) in [
        ("title", json!("Page 4")),
        ("kind", json!("fetch")),
        ("format", json!("markdown")),
        ("http_status", json!(200)),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    let created: &str = first["created_at"].as_str().unwrap();
    assert!(created.ends_with('Z') && created.parse::<jiff::Timestamp>().is_ok(), "{created}");
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("cursor=zzz", "cursor"),
        ("page=2", "page"),
    ] {
        let problem = service.get(&format!("/v1/artifacts?{query}")).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{query}");
    }
    service.finish().await;
}

#[tokio::test]
async fn parts_that_follow_each_other_are_the_whole_text() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let artifact = keep(&service, &site, 1).await;
    let text = whole(&service, &artifact).await;
    for limit in [1000, 97, 30] {
        let (mut joined, mut offset) = (String::new(), 0);
        loop {
            let path = format!("/v1/artifacts/{}/content?offset={offset}&limit={limit}", id_of(&artifact));
            let part = service.get(&path).await.ok();
            assert_eq!((&part["offset"], &part["total_chars"]), (&json!(offset), &artifact["chars"]));
            let content = part["content"].as_str().unwrap();
            assert!(content.chars().count() <= limit, "{content}");
            joined.push_str(content);
            match part["next_offset"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(joined, text, "in parts of {limit}");
    }
    let beyond = service.get(&format!("/v1/artifacts/{}/content?offset=99999999", id_of(&artifact))).await.ok();
    assert_eq!((&beyond["content"], &beyond["next_offset"]), (&json!(""), &json!(null)));
    service.finish().await;
}

#[tokio::test]
async fn a_text_is_searched_and_read_by_section() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let artifact = keep(&service, &site, 1).await;
    let text = whole(&service, &artifact).await;
    let content = format!("/v1/artifacts/{}/content", id_of(&artifact));
    let found = service.get(&format!("{content}?find=%C3%9CN%C3%8FQUE%20section%207%20")).await.ok();
    assert_eq!(found["total_matches"], 1, "whatever its case: {found}");
    let hit = &found["matches"][0];
    let offset = usize::try_from(hit["offset"].as_u64().unwrap()).unwrap();
    let there: String = text.chars().skip(offset).take(hit["match"].as_str().unwrap().chars().count()).collect();
    assert_eq!((hit["match"].as_str(), there.as_str()), (Some("ünïque section 7 "), "ünïque section 7 "));
    assert!(hit["before"].as_str().unwrap().contains("Section 7 of 1"), "{hit}");
    assert!(hit["after"].as_str().unwrap().contains('🦦'), "{hit}");
    let none = service.get(&format!("{content}?find=absent")).await.ok();
    assert_eq!((&none["total_matches"], &none["matches"]), (&json!(0), &json!([])));
    let section = service.get(&format!("{content}?heading=Section%207%20of%201")).await.ok();
    let read = section["content"].as_str().unwrap();
    assert!(read.contains("section 7 ") && !read.contains("section 8 ") && !read.contains("section 6 "), "{read}");
    service.get(&format!("{content}?heading=Absent")).await.problem(404, "not_found");
    for query in ["find=a&heading=b", "find=", "limit=0", "offset=-1"] {
        service.get(&format!("{content}?{query}")).await.problem(422, "invalid_field");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_text_comes_alone_where_the_client_prefers_that_and_is_no_page_of_ours() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let artifact = keep(&service, &site, 1).await;
    let text = whole(&service, &artifact).await;
    let path = format!("/v1/artifacts/{}/content", id_of(&artifact));
    let answer = service.send(service.request(Method::GET, &path).header("accept", "text/markdown")).await;
    assert_eq!((answer.status, answer.text()), (200, text.as_str()));
    assert_eq!(answer.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert_eq!(answer.header("content-disposition"), Some("attachment"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    service.finish().await;
}

#[tokio::test]
async fn what_is_deleted_is_gone_from_the_list_and_from_the_disk() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let (first, second) = (keep(&service, &site, 1).await, keep(&service, &site, 2).await);
    assert_eq!(blobs_in(service.data_dir()), 2);
    let path = format!("/v1/artifacts/{}", id_of(&first));
    assert_eq!(service.delete(&path).await.status, 204);
    for gone in [&path, &format!("{path}/content")] {
        service.get(gone).await.problem(404, "not_found");
    }
    service.delete(&path).await.problem(404, "not_found");
    assert_eq!(blobs_in(service.data_dir()), 1);
    let items = list(&service).await;
    assert_eq!(items.iter().map(id_of).collect::<Vec<_>>(), [id_of(&second)]);
    service.finish().await;
}

#[tokio::test]
async fn a_text_that_two_artifacts_share_stays_until_both_are_gone() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let (first, second) = (keep(&service, &site, 1).await, keep(&service, &site, 1).await);
    assert_ne!(first["id"], second["id"]);
    assert_eq!((&first["sha256"], blobs_in(service.data_dir())), (&second["sha256"], 1));
    service.delete(&format!("/v1/artifacts/{}", id_of(&first))).await;
    whole(&service, &second).await;
    service.delete(&format!("/v1/artifacts/{}", id_of(&second))).await;
    assert_eq!(blobs_in(service.data_dir()), 0);
    service.finish().await;
}

#[tokio::test]
async fn an_id_that_is_not_ours_names_nothing() {
    let service = Service::for_sites(&[]).await;
    let long = "a".repeat(4000);
    for id in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e%2ftoken",
        "..%5ctoken",
        "%00",
        "pandarium.db",
        "0",
        "-1",
        "é",
        "%C3%A9",
        "%ff",
        "0123456789ABCDEF0123456789ABCDEF",
        "0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef%20",
        "0123456789abcdef0123456789abcde",
        "%20",
        "'%20or%201=1",
        &long,
    ] {
        for path in [format!("/v1/artifacts/{id}"), format!("/v1/artifacts/{id}/content")] {
            service.get(&path).await.problem(404, "not_found");
        }
        service.delete(&format!("/v1/artifacts/{id}")).await.problem(404, "not_found");
    }
    for target in [
        "/v1/artifacts/../../etc/passwd",
        "/v1/artifacts/../token",
        "/v1/artifacts//etc/passwd",
        "/v1/artifacts/./x/content",
    ] {
        let answer = service.raw(&format!("GET {target} HTTP/1.1\r\n"));
        assert!(answer.starts_with("HTTP/1.1 404 "), "{target}: {answer}");
        assert!(!answer.contains("root:") && !answer.contains(&service.token), "{target}: {answer}");
    }
    service.finish().await;
}

#[tokio::test]
async fn artifacts_go_when_they_are_too_old() {
    let site = numbered_site();
    let service = Setup::new(&[&site]).env("PANDARIUM_ARTIFACT_MAX_AGE_S", "1").start().await;
    let artifact = keep(&service, &site, 1).await;
    let path = format!("/v1/artifacts/{}", id_of(&artifact));
    eventually("the artifact is gone", RETENTION, async || (service.get(&path).await.status == 404).then_some(()))
        .await;
    assert_eq!(list(&service).await, Vec::<Value>::new());
    until("its text is gone", RETENTION, || blobs_in(service.data_dir()) == 0).await;
    service.finish().await;
}

#[tokio::test]
async fn the_oldest_artifacts_go_when_all_are_too_large() {
    let site = numbered_site();
    let setup = Setup::new(&[&site]);
    let service = setup.env("PANDARIUM_ARTIFACT_MAX_TOTAL_BYTES", "5000").start().await;
    let mut kept = Vec::new();
    for number in 0..4 {
        kept.push(keep(&service, &site, number).await);
    }
    let bytes = kept[0]["bytes"].as_u64().unwrap();
    assert!((1250..2500).contains(&bytes), "two fit, four do not: {bytes}");
    let fit = usize::try_from(5000 / bytes).unwrap();
    eventually("the surplus is gone", RETENTION, async || (list(&service).await.len() == fit).then_some(())).await;
    let left: Vec<_> = list(&service).await.iter().map(|item| id_of(item).to_owned()).collect();
    let newest: Vec<_> = kept.iter().rev().take(fit).map(|item| id_of(item).to_owned()).collect();
    assert_eq!(left, newest);
    service.finish().await;
}

#[tokio::test]
async fn artifacts_outlive_a_restart_and_a_kill() {
    let site = numbered_site();
    let service = Service::for_sites(&[&site]).await;
    let first = keep(&service, &site, 1).await;
    let token = service.token.clone();
    let data_dir = service.stop_and_keep().await;
    let service = Setup::new(&[&site]).data_dir(data_dir).start().await;
    assert_eq!(service.token, token, "the token stays");
    whole(&service, &first).await;
    let second = keep(&service, &site, 2).await;
    let data_dir = service.kill().await;
    let service = Setup::new(&[&site]).data_dir(data_dir).start().await;
    whole(&service, &first).await;
    whole(&service, &second).await;
    service.finish().await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_no_half_artifact_is_listed_after_kills_while_writing() {
    let site = numbered_site();
    let mut service = Service::for_sites(&[&site]).await;
    let mut acknowledged: Vec<Value> = Vec::new();
    for round in 0..4_usize {
        let writing = async {
            for number in (round * 1000).. {
                acknowledged.push(keep(&service, &site, number).await);
            }
        };
        // Not at a moment of the test's own making: somewhere in the midst of a write.
        let moment = Duration::from_millis(900 + 137 * u64::try_from(round).unwrap());
        assert!(tokio::time::timeout(moment, writing).await.is_err());
        let data_dir = service.kill().await;
        service = Setup::new(&[&site]).data_dir(data_dir).start().await;
        let listed = list(&service).await;
        for artifact in &acknowledged {
            assert!(listed.iter().any(|item| item["id"] == artifact["id"]), "lost: {artifact}");
        }
        for artifact in &listed {
            whole(&service, artifact).await;
        }
    }
    assert!(acknowledged.len() >= 8, "only {} were written", acknowledged.len());
    service.finish().await;
}
