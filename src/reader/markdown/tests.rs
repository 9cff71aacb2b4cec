use dom_query::Document;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::to_markdown;
use crate::reader::tree::escape_html;

fn convert(html: &str) -> String {
    to_markdown(&Document::from(format!("<body>{html}</body>"))).unwrap()
}

fn parsed(markdown: &str) -> Vec<Event<'_>> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
        .collect()
}

/// The text that a parser shows, blocks run together.
fn shown(markdown: &str) -> String {
    parsed(markdown)
        .into_iter()
        .map(|event| match event {
            Event::Text(text) | Event::Code(text) => text.into_string(),
            Event::SoftBreak | Event::HardBreak => " ".to_owned(),
            _ => String::new(),
        })
        .collect()
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Delimited TeX is kept as it is, on purpose, and a Markdown parser takes its backslashes for escapes.
fn may_hold_tex(text: &str) -> bool {
    text.contains("\\(") || text.contains("\\[")
}

proptest! {
    #[test]
    fn text_reads_the_same_after_markdown(text in r"[ab1 .)(\[\]{}*_`~#+=|&;:!<>/\\-]{0,40}") {
        prop_assume!(!may_hold_tex(&text));
        let markdown = convert(&format!("<p>{}</p>", escape_html(&text)));
        prop_assert_eq!(collapsed(&shown(&markdown)), collapsed(&text), "{}", markdown);
    }

    #[test]
    fn code_reads_the_same_after_markdown(code in "[ab `~#*\t\n<&|-]{0,60}") {
        let markdown = convert(&format!("<ul><li>x<pre>\n{}</pre></li></ul>", escape_html(&code)));
        let text: String = shown(&markdown);
        let wanted = code.strip_suffix('\n').unwrap_or(&code);
        if !wanted.trim_matches([' ', '\n', '\t']).is_empty() {
            prop_assert_eq!(text.strip_prefix('x').and_then(|t| t.strip_suffix('\n')), Some(wanted), "{}", markdown);
        }
    }

    #[test]
    fn a_cell_reads_the_same_after_markdown(text in r"[ab1 .)(\[\]*_`~#+|&;!<>/\\-]{1,30}") {
        prop_assume!(!may_hold_tex(&text));
        let html = format!("<table><tr><th>h</th><th>{0}</th></tr><tr><td><code>{0}</code></td><td>z</td></tr></table>", escape_html(&text));
        let markdown = convert(&html);
        let mut cells = Vec::new();
        for event in parsed(&markdown) {
            match event {
                Event::Start(Tag::TableCell) => cells.push(String::new()),
                Event::Text(piece) | Event::Code(piece) => if let Some(cell) = cells.last_mut() { cell.push_str(&piece) },
                _ => {}
            }
        }
        prop_assert_eq!(cells.len(), 4, "{}", &markdown);
        prop_assert_eq!(collapsed(&cells[1]), collapsed(&text), "{}", &markdown);
    }

    #[test]
    fn no_markup_makes_the_converter_fail(html in r#"(<(/)?(div|p|b|i|a href="u"|ul|ol|li|table|tr|td|pre|code|h1|blockquote|br|hr|dl|dt|dd|sup|span|img src="s"|input type="checkbox")>|[a-z |*\n]{1,4}){0,60}"#) {
        prop_assert!(to_markdown(&Document::from(html)).is_some());
    }
}

#[test]
fn urls_read_the_same_after_markdown() {
    for url in [
        "https://a.example/x_(y)",
        "https://a.example/x)y(",
        "https://a.example/?a=1&copy=2&lt;=3",
        "https://a.example/*_`\\|",
        "mailto:a@b.example",
    ] {
        let markdown = convert(&format!(
            "<table><tr><td><a href=\"{0}\" title='a \"b\" \\'>t</a></td><td>x</td></tr></table><p><a href=\"{0}\">t</a></p>",
            escape_html(url)
        ));
        let urls: Vec<_> = parsed(&markdown)
            .into_iter()
            .filter_map(|event| match event {
                Event::Start(Tag::Link { dest_url, .. }) => Some(dest_url.into_string()),
                _ => None,
            })
            .collect();
        assert_eq!(urls, [url, url], "{markdown}");
    }
}

#[test]
fn a_fence_is_longer_than_any_run_of_backticks_in_the_code() {
    assert_eq!(convert("<pre>a\n`````\nb</pre>"), "``````\na\n`````\nb\n``````");
    assert_eq!(convert("<p><code>a``b</code></p>"), "```a``b```");
}

#[test]
fn the_language_of_a_code_block_comes_from_its_classes() {
    for class in ["language-rust", "lang-rust", "highlight-source-rust", "brush: rust;", "brush:rust"] {
        assert_eq!(convert(&format!("<pre class='{class}'>x</pre>")), "```rust\nx\n```", "{class}");
        assert_eq!(
            convert(&format!("<div class='{class}'><pre><code>x</code></pre></div>")),
            "```rust\nx\n```",
            "{class}"
        );
    }
    assert_eq!(convert("<pre class='language-`evil'>x</pre>"), "```\nx\n```");
}

#[test]
fn emphasis_that_markdown_could_not_read_is_dropped_not_garbled() {
    assert_eq!(convert("<p><b>「引用」</b>です</p>"), "「引用」です");
    assert_eq!(convert("<p>a<b> b </b>c</p>"), "a **b** c");
    assert_eq!(convert("<p><b>x<p>y</p></b></p>").matches("**").count() % 2, 0);
}

#[test]
fn every_row_is_as_wide_as_the_widest() {
    let markdown = convert("<table><tr><td>a</td></tr><tr><td>b</td><td>c</td><td>d</td></tr></table>");
    assert_eq!(markdown, "| a | | |\n| --- | --- | --- |\n| b | c | d |");
}

#[test]
fn a_huge_span_stays_small() {
    let markdown = convert("<table><tr><td colspan=1000 rowspan=1000>a</td><td>b</td></tr><tr><td>c</td></tr></table>");
    assert!(markdown.len() < 4_000, "{}", markdown.len());
}

#[test]
fn a_link_around_blocks_is_carried_by_their_first_line() {
    assert_eq!(convert("<a href='u'><h2>T</h2><p>text</p></a>"), "## [T](u)\n\ntext");
    let markdown = convert("<a href='u'><pre>code</pre></a>");
    assert_eq!(markdown, "```\ncode\n```\n\n[u](u)");
}

#[test]
fn elements_nested_20_000_deep_are_converted() {
    for path in ["ul li", "blockquote", "b", "div", "ol li p", "a", "dl dd", "table tr td", "sup", "pre", "h1"] {
        let names: Vec<&str> = path.split(' ').collect();
        let repeats = 20_000 / names.len();
        let open: String = names.iter().map(|name| format!("<{name} href=\"u\">")).collect();
        let close: String = names.iter().rev().map(|name| format!("</{name}>")).collect();
        let html = format!("{}bottom{}", open.repeat(repeats), close.repeat(repeats));
        let document = crate::reader::tree::parse(&html, "", None, &mut Vec::new());
        assert!(to_markdown(&document).unwrap().contains("bottom"), "{path}");
    }
}
