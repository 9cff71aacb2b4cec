use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    fetch: FetchArguments,
}

fn arguments(words: &[&str]) -> FetchArguments {
    Line::try_parse_from(std::iter::once("fetch").chain(words.iter().copied())).unwrap().fetch
}

fn answer(document: Value) -> Answer {
    Answer::deserialize(document).unwrap()
}

#[test]
fn only_what_was_given_is_sent() {
    assert_eq!(arguments(&["http://a.example/"]).body().unwrap(), json!({"url": "http://a.example/"}));
}

#[test]
fn every_option_of_the_call_is_a_flag() {
    let words = "http://a.example/ --format text --content full --selector main --wait-until load --wait-for-selector li \
                 --wait-for-script done --settle-ms 5 --header Accept-Language:de --header X-A:b:c --cookie k=v=w \
                 --locale de-CH --timeout-ms 900 --max-chars 10 --max-age-s 60 --artifact always --engine lightpanda --json";
    let words: Vec<&str> = words.split_whitespace().collect();
    let expected = json!({
        "url": "http://a.example/", "format": "text", "content": "full", "selector": "main", "wait_until": "load",
        "wait_for_selector": "li", "wait_for_script": "done", "settle_ms": 5,
        "headers": {"Accept-Language": "de", "X-A": "b:c"}, "cookies": [{"name": "k", "value": "v=w"}],
        "locale": "de-CH", "timeout_ms": 900, "max_chars": 10, "max_age_s": 60, "artifact": "always",
        "engine": "lightpanda",
    });
    let arguments = arguments(&words);
    assert_eq!(arguments.body().unwrap(), expected);
    assert!(arguments.json);
}

#[test]
fn a_header_that_is_given_twice_keeps_both_values() {
    let body = arguments(&["http://a.example/", "--header=Accept: a", "--header=accept: b"]).body().unwrap();
    assert_eq!(body["headers"], json!({"Accept": "a, b"}));
}

#[test]
fn prose_stands_under_one_line_that_names_the_page() {
    let titled = json!({"final_url": "http://a.example/x", "title": " Two\nlines\u{1b}[2J ", "content": "# Hi\n\ntext\n",
                        "truncated": false});
    assert_eq!(answer(titled.clone()).page(true), "Two lines[2J — http://a.example/x\n\n# Hi\n\ntext");
    assert_eq!(answer(titled).page(false), "# Hi\n\ntext");
    let untitled = json!({"final_url": "http://a.example/x", "title": null, "content": "text", "truncated": false});
    assert_eq!(answer(untitled).page(true), "http://a.example/x\n\ntext");
}

#[test]
fn html_and_structured_data_get_no_line_above_them() {
    for (format, is_prose) in [
        ("markdown", true),
        ("text", true),
        ("links", true),
        ("outline", true),
        ("html", false),
        ("structured_data", false),
    ] {
        assert_eq!(arguments(&["http://a.example/", "--format", format]).is_prose(), is_prose, "{format}");
    }
    let data = json!({"final_url": "http://a.example/", "content": {"name": "x"}, "truncated": false});
    assert_eq!(answer(data).page(false), "{\n  \"name\": \"x\"\n}");
}

#[test]
fn what_was_cut_is_named_with_the_artifact_that_has_it() {
    let id = "0123456789abcdef0123456789abcdef";
    let cut = json!({"final_url": "http://a.example/", "content": "häl", "truncated": true, "warnings": ["a frame was left out"],
                     "artifact": {"id": id, "chars": 900, "sha256": "x", "bytes": 901}});
    let notes = answer(cut).notes();
    assert_eq!(notes[0], "warning: a frame was left out");
    assert!(notes[1].starts_with("cut: 3 of 900 characters") && notes[1].contains(id), "{notes:?}");
    let lost = json!({"final_url": "http://a.example/", "content": "häl", "truncated": true, "artifact": null});
    assert!(answer(lost).notes()[0].contains("nothing was kept"));
    let whole = json!({"final_url": "http://a.example/", "content": "häl", "truncated": false,
                       "artifact": {"id": id, "chars": 3}});
    assert!(answer(whole).notes().is_empty());
}
