//! Tricky pages and the Markdown that they should become.
//!
//! `tests/golden/NAME.html` is a page, `NAME.md` its Markdown, checked by hand, and `NAME.captured.html` what the page
//! script makes of it in Lightpanda. The captured form lets the converter be tested without a browser.

use std::collections::BTreeSet;

use dom_query::{Document, NodeRef};
use pandarium::reader::{ContentMode, Format, PageCapture, ReadRequest, read};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

pub struct Case {
    pub name: &'static str,
    pub content: ContentMode,
}

const fn full(name: &'static str) -> Case {
    Case { name, content: ContentMode::Full }
}

pub const CASES: [Case; 15] = [
    full("01-tables"),
    full("02-lists"),
    full("03-code"),
    full("04-preformatted"),
    full("05-links"),
    full("06-base"),
    full("07-images"),
    full("08-hidden"),
    full("09-inline"),
    full("10-escapes"),
    full("11-scripts"),
    full("12-frames"),
    full("13-math"),
    full("14-notes"),
    Case { name: "15-clutter", content: ContentMode::Main },
];

/// A file of `tests/golden`.
pub fn golden_file(name: &str) -> String {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a reader of the page, or of its Markdown, has to find.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub links: BTreeSet<String>,
    /// Texts without white space and list separators; empty cells do not count.
    pub cells: BTreeSet<String>,
    pub code: Vec<String>,
}

/// The facts of a cleaned page: the service's `html` format.
pub fn facts_of_page(html: &str) -> Facts {
    let document = Document::from(html);
    let mut facts = Facts::default();
    for node in document.root().descendants_it() {
        if let Some(url) = node.attr("href").filter(|_| is_readable_link(&node)) {
            facts.links.insert(url.to_string());
        } else if node.has_name("pre") {
            facts.code.push(code_text(&node));
        } else if (node.has_name("td") || node.has_name("th")) && !is_layout(&node) {
            facts.cells.insert(bare(&node.text()));
        }
    }
    facts.cells.remove("");
    facts
}

/// The facts of Markdown, as a CommonMark parser reads it.
pub fn facts_of_markdown(markdown: &str) -> Facts {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut facts = Facts::default();
    let mut cell: Option<String> = None;
    let mut code: Option<String> = None;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                facts.links.insert(dest_url.into_string());
            }
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => facts.cells.extend(cell.take().map(|text| bare(&text))),
            Event::Start(Tag::CodeBlock(_)) => code = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => facts.code.extend(code.take().map(|text| without_last_break(&text))),
            Event::Text(text) | Event::Code(text) => {
                for open in [&mut cell, &mut code].into_iter().flatten() {
                    open.push_str(&text);
                }
            }
            _ => {}
        }
    }
    facts.cells.remove("");
    facts
}

/// Links that Markdown can show: with text, a label or a picture, not in code, not a heading's link to itself.
fn is_readable_link(node: &NodeRef<'_>) -> bool {
    let text = node.text();
    let labelled =
        !text.trim().is_empty() || node.has_attr("aria-label") || node.descendants_it().any(|n| n.has_name("img"));
    let above: Vec<String> =
        node.ancestors_it(None).filter_map(|n| n.node_name()).map(|name| name.to_string()).collect();
    let in_heading = above.iter().any(|name| matches!(name.as_str(), "h1" | "h2" | "h3" | "h4" | "h5" | "h6"));
    let is_anchor = in_heading && !text.chars().any(char::is_alphanumeric);
    node.has_name("a") && labelled && !is_anchor && !above.iter().any(|name| name == "pre")
}

fn is_layout(cell: &NodeRef<'_>) -> bool {
    cell.ancestors_it(None).any(|above| above.attr("role").as_deref() == Some("presentation"))
}

/// The text of a code block: a `<br>` and the end of a `<div>` are line breaks.
fn code_text(pre: &NodeRef<'_>) -> String {
    let mut text = String::new();
    for node in pre.descendants_it() {
        if node.has_name("br") || (node.has_name("div") && !text.is_empty() && !text.ends_with('\n')) {
            text.push('\n');
        } else if node.is_text() {
            text.push_str(&node.text());
        }
    }
    without_last_break(&text)
}

fn without_last_break(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ';').collect()
}

/// The captured page of a case as `format`. Every page of `tests/golden` names the same base.
fn read_case(case: &Case, format: Format) -> String {
    let html = golden_file(&format!("{}.captured.html", case.name));
    let capture = PageCapture { html, base: "https://golden.example/docs/".to_owned(), ..PageCapture::default() };
    read(&capture, &ReadRequest { format, content: case.content }).unwrap().content
}

#[test]
fn each_tricky_page_becomes_its_golden_markdown() {
    for case in &CASES {
        assert_eq!(
            read_case(case, Format::Markdown),
            golden_file(&format!("{}.md", case.name)).trim_end(),
            "{}",
            case.name
        );
    }
}

#[test]
fn markdown_keeps_the_links_cells_and_code_of_the_page() {
    for case in CASES.iter().filter(|case| case.content == ContentMode::Full) {
        let page = facts_of_page(&read_case(case, Format::Html));
        assert_eq!(facts_of_markdown(&read_case(case, Format::Markdown)), page, "{}", case.name);
    }
}

#[test]
fn the_facts_of_a_page_are_found() {
    let page = facts_of_page("<p><a href='u'>x</a></p><pre>a\n</pre><table><tr><td>c d</td></tr></table>");
    assert_eq!(page.links, BTreeSet::from(["u".to_owned()]));
    assert_eq!(page.cells, BTreeSet::from(["cd".to_owned()]));
    assert_eq!(page.code, ["a"]);
}
