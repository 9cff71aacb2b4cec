use super::*;

const PARAGRAPH: &str = "The ferry crosses the strait four times a day between April and October, and twice a day in winter, \
                         when the weather allows it and the ice has not closed the harbour on the far side. ";

fn capture(html: &str) -> PageCapture {
    PageCapture { html: html.to_owned(), title: "Title".to_owned(), ..PageCapture::default() }
}

fn read_as(html: &str, format: Format, content: ContentMode) -> Reading {
    read(&capture(html), &ReadRequest { format, content }).unwrap()
}

fn main_markdown(html: &str) -> Reading {
    read_as(html, Format::Markdown, ContentMode::Main)
}

fn article_with_furniture() -> String {
    format!(
        "<nav><ul><li><a href='https://a.example/home'>Home</a></li><li><a href='https://a.example/news'>News</a></li></ul></nav>\
         <main><article><h1>Ferry</h1><p>{0}</p><p>{0}<a href='https://a.example/pier'>the pier</a></p><p>{0}</p>\
         <table><tr><th>Leaves</th><th>Arrives</th></tr><tr><td>08:00</td><td>09:10</td></tr></table></article></main>\
         <aside><p>Advertisement</p></aside><footer><a href='https://a.example/legal'>Legal</a></footer>",
        PARAGRAPH.repeat(2)
    )
}

#[test]
fn main_content_leaves_the_furniture_out_and_says_so() {
    let mut page = capture(&article_with_furniture());
    page.hidden_nodes = 3;
    let reading = read(&page, &ReadRequest::default()).unwrap();
    assert_eq!(reading.mode_used, ModeUsed::Article);
    assert!(
        reading.content.contains("# Ferry") && reading.content.contains("| 08:00 | 09:10 |"),
        "{}",
        reading.content
    );
    assert!(!reading.content.contains("Home") && !reading.content.contains("Advertisement"), "{}", reading.content);
    assert_eq!(reading.coverage.links, Share { kept: 1, on_page: 4 });
    assert_eq!(reading.coverage.tables, Share { kept: 1, on_page: 1 });
    assert_eq!(reading.coverage.hidden_nodes, 3);
    assert_eq!(reading.warnings, []);
}

#[test]
fn full_content_keeps_everything() {
    let reading = read_as(&article_with_furniture(), Format::Markdown, ContentMode::Full);
    assert_eq!(reading.mode_used, ModeUsed::Full);
    assert!(reading.content.contains("Home") && reading.content.contains("Advertisement"));
}

#[test]
fn a_page_of_short_entries_is_not_reduced_to_one_of_them() {
    let entry = |n: u32| {
        format!(
            "<li class='product'><a href='https://a.example/{n}'>Product {n}</a> <span class='price'>{n}.00</span></li>"
        )
    };
    let list: String = (1..=60).map(entry).collect();
    let reading = main_markdown(&format!(
        "<header><h1>Shop</h1></header><ul class='products'>{list}</ul><footer>Imprint</footer>"
    ));
    for n in 1..=60 {
        assert!(
            reading.content.contains(&format!("[Product {n}](https://a.example/{n}) {n}.00")),
            "{n}: {}",
            reading.content
        );
    }
}

#[test]
fn a_small_page_is_read_whole() {
    let reading = main_markdown(
        "<nav><a href='https://a.example/'>Home</a></nav><h1>Notice</h1><p>Closed today.</p><form><button>Send</button></form>",
    );
    assert!(reading.content.contains("Notice") && reading.content.contains("Closed today."), "{}", reading.content);
}

#[test]
fn an_empty_page_has_no_content() {
    for format in [Format::Markdown, Format::Html, Format::Text, Format::Links, Format::Outline] {
        assert_eq!(read_as("", format, ContentMode::Main).content, "", "{format:?}");
    }
}

#[test]
fn selected_elements_are_read_as_they_are() {
    let mut page = capture("<p>chosen</p>\n");
    page.selector_matched = Some(1);
    let reading = read(&page, &ReadRequest::default()).unwrap();
    assert_eq!((reading.content.as_str(), reading.mode_used), ("chosen", ModeUsed::Selector));
}

#[test]
fn a_selector_that_matches_nothing_is_an_error() {
    let page = PageCapture { selector_matched: Some(0), ..capture("") };
    assert_eq!(read(&page, &ReadRequest::default()), Err(ReaderError::SelectorNotFound));
    let page = PageCapture { selector_error: Some("SyntaxError".to_owned()), ..page };
    assert_eq!(
        read(&page, &ReadRequest::default()),
        Err(ReaderError::InvalidSelector { name: "SyntaxError".to_owned() })
    );
}

#[test]
fn links_come_with_their_texts() {
    let html =
        "<p><a href='https://a.example/(x)'>a  [b]</a><a href='https://a.example/y'><img src='i' alt='pic'></a></p>";
    let reading = read_as(html, Format::Links, ContentMode::Full);
    let link = |text: &str, url: &str| PageLink { text: text.to_owned(), url: url.to_owned() };
    assert_eq!(reading.links, [link("a [b]", "https://a.example/(x)"), link("pic", "https://a.example/y")]);
    assert_eq!(reading.content, "- [a \\[b\\]](https://a.example/(x))\n- [pic](https://a.example/y)");
}

#[test]
fn the_outline_is_indented_by_level() {
    let reading = read_as("<h2>A</h2><h3>B <em>c</em></h3><h2> </h2><h2>D</h2>", Format::Outline, ContentMode::Full);
    assert_eq!(reading.content, "- h2: A\n  - h3: B c\n- h2: D");
}

#[test]
fn text_keeps_blocks_apart() {
    let reading =
        read_as("<h1>A</h1><div><p>b <b>c</b></p><p>d</p></div><pre>e\n  f</pre>", Format::Text, ContentMode::Full);
    assert_eq!(reading.content, "A\n\nb c\n\nd\n\ne\n  f");
}

#[test]
fn structured_data_is_json_even_where_the_page_s_is_not() {
    let mut page = capture("<p>x</p>");
    page.base = "https://a.example/x/".to_owned();
    page.head = "<script type=\"application/ld+json\">{\"@type\": \"Article\"}</script>\
                 <script type=\"application/ld+json\">{broken</script>\
                 <meta property=\"og:image\" content=\"a\"><meta property=\"og:image\" content=\"b\">\
                 <link rel=\"Canonical\" href=\"/\"><link rel=\"alternate\" href=\"feed\" type=\"text/xml\">"
        .to_owned();
    let reading = read(&page, &ReadRequest { format: Format::StructuredData, content: ContentMode::Main }).unwrap();
    let data: serde_json::Value = serde_json::from_str(&reading.content).unwrap();
    assert_eq!(data["json_ld"], serde_json::json!([{ "@type": "Article" }, "{broken"]));
    assert_eq!(data["open_graph"]["og:image"], serde_json::json!(["a", "b"]));
    assert_eq!(data["links"]["canonical"], "https://a.example/");
    assert_eq!(data["links"]["alternates"][0]["href"], "https://a.example/x/feed");
    assert_eq!(data["meta"]["title"], "Title");
    assert_eq!(reading.warnings, [ReadWarning::InvalidJsonLd { scripts: 1 }]);
}

#[test]
fn what_was_cut_or_unreadable_is_a_warning() {
    let page = PageCapture { truncated: true, nodes: 5, frames_unread: 2, ..capture("<p>x</p>") };
    let request = ReadRequest { content: ContentMode::Full, ..ReadRequest::default() };
    let reading = read(&page, &request).unwrap();
    assert_eq!(reading.warnings, [ReadWarning::PageTruncated { nodes: 5 }, ReadWarning::FramesUnread { frames: 2 }]);
}

#[test]
fn twenty_thousand_nested_elements_are_read() {
    let html = format!("{}<p>bottom</p>{}", "<div>".repeat(20_000), "</div>".repeat(20_000));
    let reading = main_markdown(&html);
    assert_eq!(reading.content, "bottom");
    assert!(
        reading.warnings.contains(&ReadWarning::DeepNestingFlattened { elements: 19_901 }),
        "{:?}",
        reading.warnings
    );
}

#[test]
fn a_panic_inside_a_library_is_contained() {
    assert_eq!(contain::contained(|| 1), Some(1));
    assert_eq!(contain::contained(|| -> u8 { panic!("boom") }), None);
}

#[test]
fn a_capture_is_what_the_page_script_returns() {
    let json = r#"{"html":"<p>x</p>","head":"","url":"https://a.example/","base":"https://a.example/","title":"T","lang":null,
        "contentType":"text/html","characterSet":"UTF-8","selectorMatched":null,"selectorError":null,"nodes":3,
        "truncated":false,"framesInlined":0,"framesUnread":1,"hiddenNodes":0,"dropped":0}"#;
    let capture: PageCapture = serde_json::from_str(json).unwrap();
    assert_eq!((capture.html.as_str(), capture.frames_unread), ("<p>x</p>", 1));
}
