use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn a_content_type_says_how_its_body_is_treated() {
    let rows = [
        ("text/html", Kind::Html),
        ("TEXT/HTML; Charset=UTF-8", Kind::Html),
        (" text/html ;", Kind::Html),
        ("application/xhtml+xml", Kind::Xhtml),
        ("text/plain", Kind::Text),
        ("text/x-python", Kind::Text),
        ("text/css", Kind::Text),
        ("application/javascript", Kind::Text),
        ("application/x-ndjson", Kind::Text),
        ("text/markdown; variant=GFM", Kind::Markdown),
        ("application/json", Kind::Json),
        ("application/problem+json; charset=utf-8", Kind::Json),
        ("application/ld+json", Kind::Json),
        ("application/xml", Kind::Xml),
        ("application/rss+xml", Kind::Xml),
        ("image/svg+xml", Kind::Xml),
        ("text/csv; header=present", Kind::Csv),
        ("application/pdf", Kind::Unsupported),
        ("application/octet-stream", Kind::Unsupported),
        ("image/png", Kind::Unsupported),
        ("video/mp4", Kind::Unsupported),
        ("text/rtf", Kind::Unsupported),
        ("application/jsonish", Kind::Unsupported),
        ("", Kind::Unsupported),
        ("text", Kind::Unsupported),
        ("text/", Kind::Unsupported),
        ("*/*", Kind::Unsupported),
        ("text/html, text/plain", Kind::Unsupported),
    ];
    for (content_type, kind) in rows {
        assert_eq!(classify(content_type), kind, "{content_type:?}");
    }
}

#[test]
fn a_parameter_is_read_with_and_without_quotes() {
    let rows = [
        ("text/html; charset=utf-8", Some("utf-8")),
        ("text/html;CHARSET=utf-8", Some("utf-8")),
        ("text/html; a=b; charset = \"utf-8\" ; charset=big5", Some("utf-8")),
        (r#"text/html; a="; charset=big5"; charset="ut\f-8""#, Some("utf-8")),
        (r#"text/html; a="\"; charset=big5"; charset=koi8-r"#, Some("koi8-r")),
        ("text/html; charset=\"utf-8", Some("utf-8")),
        ("text/html; charset", None),
        ("text/html; xcharset=utf-8", None),
        ("charset=utf-8", None),
        ("text/html", None),
    ];
    for (content_type, value) in rows {
        assert_eq!(parameter(content_type, "charset").as_deref(), value, "{content_type}");
    }
}

#[test]
fn a_body_without_a_type_is_named_by_its_first_bytes() {
    let rows: &[(&[u8], &str)] = &[
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"\x1f\x8b\x08\0", "application/gzip"),
        (b"PK\x03\x04\x14", "application/zip"),
        (b"RIFF\0\0\0\0WEBPVP", "image/webp"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"BM\x36\0\0\0", "application/octet-stream"),
        (b"some text\0and more", "application/octet-stream"),
        (b"BMW and ID3", "text/plain"),
        (b"  \n<!DOCTYPE html>", "text/html"),
        (b"<html>", "text/html"),
        (b"<p class=x>", "text/html"),
        (b"<!-- a -->", "text/html"),
        (b"<pre>", "text/plain"),
        (b"<p", "text/plain"),
        (b"<?xml version='1.0'?>", "text/xml"),
        (b"\xef\xbb\xbf<html>", "text/html"),
        (b"\xff\xfea\0b\0", "text/plain"),
        ("plain åäö \x1b[1m\n".as_bytes(), "text/plain"),
        (b"", "text/plain"),
    ];
    for (bytes, name) in rows {
        assert_eq!(sniff(bytes), *name, "{:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(sniff(&[vec![b'a'; 1445], vec![0]].concat()), "text/plain", "only the first bytes are looked at");
}

fn plain(kind: Kind, text: &str) -> Rendered {
    render(kind, text, Format::Plain)
}

#[test]
fn json_is_indented_and_otherwise_as_written() {
    let text = "\n{\"b\":1.10e+2,\"a\":[12345678901234567890123,-0.0,{},[ ],\"x\\\"{,\\\\\"],\"b\":null , \"é\\ud800\":[[true]]} ";
    let indented = r#"{
  "b": 1.10e+2,
  "a": [
    12345678901234567890123,
    -0.0,
    {},
    [],
    "x\"{,\\"
  ],
  "b": null,
  "é\ud800": [
    [
      true
    ]
  ]
}"#;
    assert_eq!(plain(Kind::Json, text), Rendered { text: indented.to_owned(), as_is: None });
    for scalar in ["1", "\"\"", "null", "-1.5E-300"] {
        assert_eq!(plain(Kind::Json, &format!(" {scalar}\r\n")).text, scalar);
    }
}

#[test]
fn invalid_json_comes_as_it_is_and_says_so() {
    for text in ["", "{", "{\"a\":1,}", "[1] [2]", "[01]", "NaN", "{'a':1}", "\u{feff}{}", "[\"\n\"]"] {
        assert_eq!(plain(Kind::Json, text), Rendered { text: text.to_owned(), as_is: Some(AsIs::InvalidJson) });
    }
    assert_eq!(render(Kind::Json, "{", Format::Markdown).text, "```json\n{\n```\n");
}

#[test]
fn json_that_is_all_brackets_neither_fills_the_memory_nor_the_stack() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_eq!(plain(Kind::Json, &deep), Rendered { text: deep.clone(), as_is: Some(AsIs::NestedTooDeeply) });
    let wide = format!("{}{}{}", "[".repeat(120), vec!["1"; 100_000].join(","), "]".repeat(120));
    assert_eq!(plain(Kind::Json, &wide).as_is, Some(AsIs::NestedTooDeeply));
    assert_eq!(plain(Kind::Json, "[[[[[[[[1]]]]]]]]").as_is, None, "a small one may grow");
}

#[test]
fn data_is_fenced_in_markdown_and_prose_is_not() {
    let markdown = |kind, text| render(kind, text, Format::Markdown).text;
    assert_eq!(markdown(Kind::Csv, "a,b\n"), "```csv\na,b\n```\n");
    assert_eq!(markdown(Kind::Xml, "<a>```` ``</a>"), "`````xml\n<a>```` ``</a>\n`````\n");
    assert_eq!(markdown(Kind::Json, "[]"), "```json\n[]\n```\n");
    assert_eq!(markdown(Kind::Csv, ""), "```csv\n```\n");
    for kind in [Kind::Text, Kind::Markdown] {
        assert_eq!(markdown(kind, "# as `it` is\n"), "# as `it` is\n");
    }
    for kind in [Kind::Text, Kind::Markdown, Kind::Xml, Kind::Csv] {
        assert_eq!(plain(kind, "<as it is>").text, "<as it is>");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_indented_as_serde_json_indents_it(value in any_json()) {
        let indented = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(&plain(Kind::Json, &value.to_string()).text, &indented);
        prop_assert_eq!(plain(Kind::Json, &indented).text, indented);
    }

    #[test]
    fn a_fence_is_read_back_as_the_text(text in "[`~a\n ]{0,40}") {
        use pulldown_cmark::{Event, Parser};
        let fenced = fenced(&text, "csv");
        let code: String = Parser::new(&fenced).filter_map(|event| match event {
            Event::Text(text) => Some(text.into_string()),
            _ => None,
        }).collect();
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        prop_assert_eq!(code, text + end);
    }

    #[test]
    fn any_header_is_classified(value: String, name: String) {
        classify(&value);
        parameter(&value, &name);
    }
}
