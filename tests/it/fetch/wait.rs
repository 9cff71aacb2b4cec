//! When a page counts as ready.

use serde_json::{Value, json};

use crate::support::service::Service;
use crate::support::site::{Pages, Reply, Site};

/// The pages of `tests/site` and the data that they ask for.
fn site() -> Site {
    Pages::new()
        .route("/items.json", |_| Reply::new(200, "application/json", r#"["apples","pears"]"#))
        .route("/poll", |_| Reply::new(200, "text/plain", "nothing new"))
        .serve()
}

fn outcome(answer: &Value) -> (&Value, &Value, &Value) {
    let outcome = &answer["wait_outcome"];
    (&outcome["reached"], &outcome["requests_pending"], &outcome["timers_pending"])
}

#[tokio::test]
async fn a_static_page_settles_with_nothing_pending() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/static.html")).await;
    assert_eq!(answer["wait_outcome"]["wait_until"], "settled");
    assert_eq!(outcome(&answer), (&json!(true), &json!(0), &json!(0)));
    service.finish().await;
}

#[tokio::test]
async fn a_list_that_a_script_fills_after_its_timer_is_read_without_being_asked_for() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/late-list.html")).await;
    let content = answer["content"].as_str().unwrap();
    assert!(content.contains("- apples") && content.contains("- pears"), "{content}");
    assert_eq!(outcome(&answer), (&json!(true), &json!(0), &json!(0)));
    assert_eq!(site.count("/items.json"), 1);
    service.finish().await;
}

#[tokio::test]
async fn a_list_at_the_end_of_a_chain_of_requests_is_read() {
    let fill = "document.querySelector('ul').innerHTML = items.map((item) => `<li>${item}</li>`).join('')";
    let page = |script: &str| {
        format!("<!doctype html><title>chain</title><main><h1>Stock</h1><ul></ul></main><script>{script}</script>")
    };
    let by_fetch = format!(
        "(async () => {{ for (let n = 0; n < 4; n++) await (await fetch('/poll?' + n)).text(); \
         const items = await (await fetch('/items.json')).json(); {fill} }})()"
    );
    let by_xhr = format!(
        "const get = (url, then) => {{ const call = new XMLHttpRequest(); call.open('GET', url); \
         call.onload = () => then(call.responseText); call.send(); }}; \
         get('/poll', () => get('/poll', () => get('/items.json', (text) => {{ const items = JSON.parse(text); {fill} }})));"
    );
    let site = Pages::new()
        .route("/items.json", |_| Reply::new(200, "application/json", r#"["apples","pears"]"#))
        .route("/poll", |_| Reply::new(200, "text/plain", "go on"))
        .page("/fetch", page(&by_fetch))
        .page("/xhr", page(&by_xhr))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    for path in ["/fetch", "/xhr"] {
        let answer = service.read(&site.url(path)).await;
        assert!(answer["content"].as_str().unwrap().contains("- apples"), "{path}: {answer}");
        assert_eq!(outcome(&answer), (&json!(true), &json!(0), &json!(0)), "{path}");
    }
    service.finish().await;
}

#[tokio::test]
async fn a_ticking_clock_neither_holds_the_late_list_back_nor_the_answer() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.read(&site.url("/late-list-beside-a-clock.html")).await;
    assert!(answer["content"].as_str().unwrap().contains("- apples"), "{answer}");
    assert_eq!(outcome(&answer), (&json!(true), &json!(0), &json!(1)), "the clock itself is still set");
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_polls_for_ever_is_read_when_the_cap_is_reached() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.fetch(json!({ "url": site.url("/polls-for-ever.html"), "settle_ms": 700 })).await.ok();
    assert_eq!(answer["wait_outcome"]["reached"], false);
    assert!(answer["wait_outcome"]["elapsed_ms"].as_u64().unwrap() >= 650, "{answer}");
    assert!(answer["content"].as_str().unwrap().contains("Asks again"), "{answer}");
    service.finish().await;
}

#[tokio::test]
async fn an_answer_that_stays_away_is_waited_for_until_the_cap_and_then_told() {
    let site = Pages::new()
        .page("/waits", "<!doctype html><title>w</title><h1>Waits</h1><script>fetch('/never')</script>")
        .route("/never", |_| Reply::silent())
        .serve();
    let service = Service::for_sites(&[&site]).await;
    let answer = service.fetch(json!({ "url": site.url("/waits"), "settle_ms": 400 })).await.ok();
    assert_eq!(outcome(&answer), (&json!(false), &json!(1), &json!(0)));
    service.finish().await;
}

#[tokio::test]
async fn each_other_moment_can_be_asked_for() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    for (moment, has_list) in [("dom_content_loaded", false), ("load", false), ("network_idle", true)] {
        let answer = service.fetch(json!({ "url": site.url("/late-list.html"), "wait_until": moment })).await.ok();
        assert_eq!(
            (&answer["wait_outcome"]["wait_until"], &answer["wait_outcome"]["reached"]),
            (&json!(moment), &json!(true))
        );
        assert_eq!(answer["content"].as_str().unwrap().contains("apples"), has_list, "{moment}: {answer}");
    }
    let problem = service.fetch(json!({ "url": site.url("/static.html"), "wait_until": "soon" })).await;
    assert_eq!(problem.problem(422, "invalid_field")["field"], "wait_until");
    service.finish().await;
}

#[tokio::test]
async fn a_selector_is_waited_for_beyond_the_settling() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/appears-late.html");
    let at_once = service.fetch(json!({ "url": url, "settle_ms": 100 })).await.ok();
    assert!(!at_once["content"].as_str().unwrap().contains("The sign has come"), "{at_once}");
    let asked = service.fetch(json!({ "url": url, "settle_ms": 100, "wait_for_selector": "#sign" })).await.ok();
    assert!(asked["content"].as_str().unwrap().contains("The sign has come"), "{asked}");
    let absent = json!({ "url": url, "wait_for_selector": "#absent", "timeout_ms": 1500 });
    service.fetch(absent).await.problem(504, "deadline_exceeded");
    let invalid = json!({ "url": url, "wait_for_selector": "p[" });
    let problem = service.fetch(invalid).await.problem(422, "invalid_field");
    assert_eq!(problem["field"], "wait_for_selector");
    service.finish().await;
}

#[tokio::test]
async fn an_expression_is_waited_for_beyond_the_settling() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let url = site.url("/appears-late.html");
    let asked = json!({ "url": url, "settle_ms": 100, "wait_for_script": "globalThis.ready" });
    let asked = service.fetch(asked).await.ok();
    assert!(asked["content"].as_str().unwrap().contains("The sign has come"), "{asked}");
    let throws_at_first = json!({ "url": url, "wait_for_script": "document.getElementById('sign').textContent" });
    service.fetch(throws_at_first).await.ok();
    let never = json!({ "url": url, "wait_for_script": "false", "timeout_ms": 1500 });
    service.fetch(never).await.problem(504, "deadline_exceeded");
    let broken = service.fetch(json!({ "url": url, "wait_for_script": "1 +" })).await.problem(422, "script_error");
    assert!(broken["message"].as_str().unwrap().contains("SyntaxError"), "{broken}");
    let throws = json!({ "url": url, "wait_for_script": "absent.member", "timeout_ms": 2500 });
    let thrown = service.fetch(throws).await.problem(422, "script_error");
    assert!(thrown["message"].as_str().unwrap().contains("absent"), "{thrown}");
    service.finish().await;
}

#[tokio::test]
async fn a_page_that_asks_in_dialogs_while_loading_is_read() {
    let site = site();
    let service = Service::for_sites(&[&site]).await;
    let answer =
        service.fetch(json!({ "url": site.url("/alerts-while-loading.html"), "timeout_ms": 10_000 })).await.ok();
    assert!(answer["content"].as_str().unwrap().contains("After the dialogs"), "{answer}");
    service.finish().await;
}

#[tokio::test]
async fn a_settled_page_with_a_large_script_is_read_whole() {
    let script = format!("const filler = '{}'; document.title = 'script ran ' + filler.length;", "x".repeat(3_000_000));
    let site = Pages::new()
        .page("/heavy", "<!doctype html><title>x</title><h1>Heavy</h1><script src='/big.js'></script>")
        .route("/big.js", move |_| Reply::new(200, "text/javascript", script.clone()))
        .serve();
    let service = Service::for_sites(&[&site]).await;
    assert_eq!(service.read(&site.url("/heavy")).await["title"], "script ran 3000000");
    service.finish().await;
}
