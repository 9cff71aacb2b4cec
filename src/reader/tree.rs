//! The parsed page: parsing and counting.

use dom_query::{Document, NodeRef};

use super::clean::seen;
use super::depth::bounded;
use super::reading::ReadWarning;

/// Parses captured HTML, its nesting bounded and without characters that nobody sees.
pub(super) fn parse(html: &str, title: &str, lang: Option<&str>, warnings: &mut Vec<ReadWarning>) -> Document {
    let html = seen(html);
    let (html, elements) = bounded(&html);
    if elements > 0 {
        warnings.push(ReadWarning::DeepNestingFlattened { elements });
    }
    Document::from(format!(
        "<!DOCTYPE html><html lang=\"{}\"><head><title>{}</title></head><body>{html}</body></html>",
        escape_html(lang.unwrap_or_default()),
        escape_html(&seen(title)),
    ))
}

/// Text as HTML source, fit for element content and quoted attributes.
pub(super) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Elements that start on a line of their own.
pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "frameset"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "html"
            | "legend"
            | "li"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "optgroup"
            | "option"
            | "p"
            | "pre"
            | "search"
            | "section"
            | "summary"
            | "table"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
            | "ul"
    )
}

/// What a tree holds of the things that [`super::Coverage`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    pub links: u32,
    pub images: u32,
    pub tables: u32,
    pub code_blocks: u32,
}

pub(super) fn holdings(document: &Document) -> Holdings {
    let mut found = Holdings::default();
    for node in document.root().descendants_it() {
        let Some(element) = node.element_ref() else { continue };
        match &*element.name.local {
            "a" if element.has_attr("href") => found.links += 1,
            "img" if element.has_attr("src") => found.images += 1,
            "table" => found.tables += 1,
            "pre" => found.code_blocks += 1,
            _ => {}
        }
    }
    found
}

/// Characters of visible text, white space not counted.
pub(super) fn text_size(document: &Document) -> usize {
    let Some(body) = document.body() else { return 0 };
    body.text().chars().filter(|character| !character.is_whitespace()).count()
}

/// The text below `node`, white space collapsed.
pub(super) fn collapsed_text(node: &NodeRef<'_>) -> String {
    node.text().split_whitespace().collect::<Vec<_>>().join(" ")
}
