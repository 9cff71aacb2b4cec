//! PandaScripts: each in an engine process of its own.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::answer::Answer;
use crate::support::service::{Service, Setup};
use crate::support::site::{Pages, Site};
use crate::support::{eventually, process, until};

const PAGE: &str = "<!doctype html><title>page</title><h1>Heading</h1><p class=row>a</p><p class=row>b</p>";
/// For a process that is killed to be gone.
const GONE: Duration = Duration::from_secs(5);
/// For a script's process to be there.
const STARTED: Duration = Duration::from_secs(10);

fn site() -> Site {
    Pages::new().page("/", PAGE).serve()
}

/// A service that runs scripts, which may reach these sites.
fn enabled(sites: &[&Site]) -> Setup {
    Setup::new(sites).env("PANDARIUM_SCRIPTS", "true")
}

async fn run(service: &Service, script: &str) -> Answer {
    run_with(service, script, json!({})).await
}

async fn run_with(service: &Service, script: &str, fields: Value) -> Answer {
    let mut body = json!({ "script": script });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    service.post("/v1/scripts/run", &body).await
}

/// The processes of scripts: whatever works for this service and is no worker of its pool.
async fn scripts_of(service: &Service) -> Vec<u32> {
    let workers = service.workers().await;
    process::workers_of(service.data_dir()).into_iter().filter(|pid| !workers.contains(pid)).collect()
}

async fn no_script_is_left(service: &Service) {
    eventually("no script is left", GONE, async || scripts_of(service).await.is_empty().then_some(())).await;
}

/// The process of the script that is being run.
async fn running_script(service: &Service) -> u32 {
    eventually("a script runs", STARTED, async || scripts_of(service).await.first().copied()).await
}

/// The call of a script that never ends.
fn looping(service: &Service) -> RequestBuilder {
    service.request(Method::POST, "/v1/scripts/run").json(&json!({ "script": "for (;;) {}" }))
}

/// A service whose pool has started, so that whatever comes later is a script.
async fn ready(setup: Setup) -> Service {
    let service = setup.start().await;
    service.ready().await;
    service
}

#[tokio::test]
async fn scripts_are_off_until_a_person_turns_them_on() {
    let service = ready(Setup::new(&[])).await;
    let problem = run(&service, "return 1").await.problem(403, "forbidden");
    assert!(problem["hint"].as_str().unwrap().contains("PANDARIUM_SCRIPTS=true"), "{problem}");
    assert!(scripts_of(&service).await.is_empty());
    service.finish().await;
}

#[tokio::test]
async fn a_script_reads_a_page_and_its_result_is_json() {
    let site = site();
    let service = ready(enabled(&[&site])).await;
    let script = format!(
        "const page = new Page();\nawait page.goto('{}');\nconsole.log('at', 1, {{ a: [true] }});\n\
         console.error('two\\nlines');\nreturn page.extract({{ h: 'h1', rows: ['.row'] }});",
        site.url("/")
    );
    let answer = run(&service, &script).await.ok();
    assert_eq!(answer["result"], json!({ "h": "Heading", "rows": ["a", "b"] }));
    let output = json!([
        { "level": "log", "text": "at 1 {\"a\":[true]}" },
        { "level": "error", "text": "two\nlines" },
    ]);
    assert_eq!(answer["output"], output);
    assert_eq!((&answer["ok"], &answer["truncated"], &answer["exit_code"]), (&json!(true), &json!(false), &json!(0)));
    assert_eq!((&answer["stderr"], site.count("/")), (&json!([]), 1));
    no_script_is_left(&service).await;
    service.finish().await;
}

#[tokio::test]
async fn every_kind_of_result_comes_back_as_what_it_is() {
    let service = ready(enabled(&[])).await;
    for (returned, expected) in [
        ("undefined", json!(null)),
        ("null", json!(null)),
        ("'plain\\n{\"a\":1}'", json!("plain\n{\"a\":1}")),
        ("''", json!("")),
        ("[1.5, 5n, NaN, -Infinity]", json!([1.5, "5", "NaN", "-Infinity"])),
        ("new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("Symbol('s')", json!("Symbol(s)")),
        ("'half \\ud83d'", json!("half \u{fffd}")),
        ("{ nested: await Promise.resolve({ é: '€' }) }", json!({ "nested": { "é": "€" } })),
    ] {
        let answer = run(&service, &format!("console.log('said'); return {returned};")).await.ok();
        assert_eq!(answer["result"], expected, "{returned}");
        assert_eq!(answer["output"], json!([{ "level": "log", "text": "said" }]), "{returned}");
    }
    let silent = run(&service, "console.log('only said')").await.ok();
    assert_eq!((&silent["result"], &silent["output"][0]["text"]), (&Value::Null, &json!("only said")));
    service.finish().await;
}

#[tokio::test]
async fn an_error_that_is_not_caught_is_told_with_its_place() {
    let service = ready(enabled(&[]).env("PANDARIUM_PAGE_HEAP_MB", "64")).await;
    let thrown = async |script: &str| run(&service, script).await.problem(422, "script_error");
    let problem = thrown("console.log('before');\nthrow new TypeError('my failure\\nin two lines');").await;
    assert_eq!(problem["message"], "TypeError: my failure\nin two lines");
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(7)));
    assert_eq!(problem["output"], json!([{ "level": "log", "text": "before" }]));
    assert_eq!(problem["exit_code"], 1);
    let problem = thrown("throw { code: 5 }").await;
    assert_eq!((&problem["message"], &problem["line"]), (&json!("{\"code\":5}"), &Value::Null));
    let problem = thrown("return (;").await;
    assert!(problem["message"].as_str().unwrap().starts_with("SyntaxError: "), "{problem}");
    let problem = thrown("const a = {}; a.a = a; return a;").await;
    assert!(problem["message"].as_str().unwrap().contains("circular"), "{problem}");
    thrown("}); console.log('out of the function'); ({").await;
    // A heap that is full ends the script without a word of its own.
    let problem = thrown("const all = []; for (;;) all.push({ text: 'x' + all.length })").await;
    assert!(problem["stderr"].to_string().contains("heap limit"), "{problem}");
    service.finish().await;
}

#[tokio::test]
async fn a_script_that_waits_for_nothing_is_no_success() {
    let service = ready(enabled(&[])).await;
    let problem = run(&service, "await new Promise(() => {}); return 1").await.problem(422, "script_error");
    assert_eq!(problem["exit_code"], 0, "{problem}");
    service.finish().await;
}

#[tokio::test]
async fn an_endless_loop_is_ended_at_the_deadline() {
    let service = ready(enabled(&[])).await;
    let started = Instant::now();
    let script = "console.log('begun'); for (;;) {}";
    let problem = run_with(&service, script, json!({ "timeout_ms": 1000 })).await.problem(504, "deadline_exceeded");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(problem["output"][0]["text"], "begun");
    assert!(scripts_of(&service).await.is_empty(), "it is gone when the answer is there");
    service.finish().await;
}

#[tokio::test]
async fn what_a_script_says_is_bounded_and_the_rest_is_counted() {
    let service = ready(enabled(&[])).await;
    let script = "for (let n = 0; n < 1000; n++) console.log('line ' + n); return 'x'.repeat(500)";
    let answer = run_with(&service, script, json!({ "max_output_bytes": 1000 })).await.ok();
    let kept = answer["output"].as_array().unwrap().len() as u64;
    assert!((10..100).contains(&kept), "{kept}");
    assert_eq!((&answer["truncated"], &answer["omitted"]["console_lines"]), (&json!(true), &json!(1000 - kept)));
    assert_eq!(answer["result"].as_str().unwrap().len(), 500, "the result has room of its own");
    let answer = run_with(&service, script, json!({ "max_output_bytes": 100 })).await.ok();
    assert_eq!((&answer["result"], &answer["omitted"]["result_bytes"]), (&Value::Null, &json!(502)));
    service.finish().await;
}

#[tokio::test]
async fn a_script_that_prints_or_allocates_without_end_is_ended() {
    let service = ready(enabled(&[]).env("PANDARIUM_PAGE_HEAP_MB", "64")).await;
    let before = process::peak_bytes_of(service.pid());
    let flood = "for (;;) console.log('x'.repeat(1000))";
    let problem = run(&service, flood).await.problem(422, "script_error");
    assert!(problem["detail"].as_str().unwrap().contains("printed"), "{problem}");
    let grown = process::peak_bytes_of(service.pid()) - before;
    assert!(grown < 40 * 1024 * 1024, "the service grew by {grown} bytes");
    let hog = "const all = []; for (;;) all.push(new Uint8Array(10_000_000).fill(1))";
    let problem = run(&service, hog).await.problem(422, "script_error");
    assert!(problem["detail"].as_str().unwrap().contains("memory"), "{problem}");
    no_script_is_left(&service).await;
    service.finish().await;
}

#[tokio::test]
async fn a_script_reaches_no_address_that_pages_may_not_reach() {
    let forbidden = Pages::new().page("/", PAGE).serve_at(Ipv4Addr::LOCALHOST);
    let site = site();
    // With no exemption the engine's own filter stands; with one, the proxy.
    for service in [enabled(&[]), enabled(&[&site])] {
        let service = ready(service).await;
        let own = format!("{}/healthz", service.url);
        for url in [forbidden.url("/"), own, "file:///etc/passwd".to_owned()] {
            let script = format!("const page = new Page(); await page.goto('{url}'); return page.evaluate('1');");
            let answer = run(&service, &script).await;
            if answer.status == 200 {
                // The proxy answers in place of the server.
                let body = run(&service, &script.replace("'1'", "'document.body.textContent'")).await.ok();
                assert!(!body.to_string().contains("Heading") && !body.to_string().contains("root:"), "{body}");
            } else {
                answer.problem(422, "script_error");
            }
        }
        assert_eq!(forbidden.connections(), 0);
        service.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_script() {
    let service = ready(enabled(&[])).await;
    let call = run(&service, "for (;;) {}");
    let left = tokio::time::timeout(Duration::from_secs(2), call).await;
    assert!(left.is_err(), "it loops");
    no_script_is_left(&service).await;
    // Its place is free: as many as there are cores run again.
    assert_eq!(run(&service, "return 7").await.ok()["result"], 7);
    service.finish().await;
}

#[tokio::test]
async fn scripts_above_the_limit_are_refused_at_once() {
    let service = ready(enabled(&[]).env("PANDARIUM_MAX_SCRIPTS", "1")).await;
    let first = run_with(&service, "for (;;) {}", json!({ "timeout_ms": 4000 }));
    let second = async {
        running_script(&service).await;
        run(&service, "return 1").await.problem(503, "pool_exhausted");
    };
    let (first, ()) = tokio::join!(first, second);
    first.problem(504, "deadline_exceeded");
    assert_eq!(run(&service, "return 1").await.ok()["result"], 1);
    service.finish().await;
}

#[tokio::test]
async fn a_script_of_a_killed_service_is_ended_by_the_next_start() {
    let service = ready(enabled(&[])).await;
    let call = looping(&service).send();
    let killed = async {
        let script = running_script(&service).await;
        (script, service.kill().await)
    };
    let (answer, (script, data_dir)) = tokio::join!(call, killed);
    assert!(answer.is_err(), "nobody is left to answer");
    assert!(process::resident_bytes_of(script).is_some(), "it loops on");
    let service = ready(enabled(&[]).data_dir(data_dir)).await;
    until("the leftover is gone", GONE, || process::resident_bytes_of(script).is_none()).await;
    service.finish().await;
}

#[tokio::test]
async fn a_service_that_stops_ends_its_scripts_with_a_typed_error() {
    let service = ready(enabled(&[])).await;
    let call = looping(&service).send();
    let stopped = async {
        running_script(&service).await;
        process::signal(service.pid(), Signal::SIGTERM);
    };
    let (answer, ()) = tokio::join!(call, stopped);
    Answer::of(answer.unwrap()).await.problem(503, "shutting_down");
    service.finish_stopped().await;
}

#[tokio::test]
async fn each_field_that_cannot_be_used_is_named() {
    let service = ready(enabled(&[])).await;
    for (field, value) in [
        ("script", json!("")),
        ("script", json!("x".repeat(1024 * 1024 + 1))),
        ("timeout_ms", json!(0)),
        ("timeout_ms", json!(600_001)),
        ("max_output_bytes", json!(0)),
        ("max_output_bytes", json!(10_000_001)),
        ("env", json!({})),
    ] {
        let problem = run_with(&service, "return 1", json!({ field: value })).await.problem(422, "invalid_field");
        assert_eq!(problem["field"], field);
    }
    service.finish().await;
}
