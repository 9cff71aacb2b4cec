//! The parsed page: parsing, bounding its depth, counting.

use dom_query::{Document, NodeId, NodeRef};

use super::reading::ReadWarning;

/// Elements nested deeper than this lose their tags, not their text.
///
/// Real pages stay below 60. The extractors and the converter recurse, and a thread has 2 MiB of stack.
pub(super) const MAX_DEPTH: usize = 100;

/// Parses `html` and flattens what is nested too deep for the libraries behind.
pub(super) fn parse(html: &str, title: &str, lang: Option<&str>, warnings: &mut Vec<ReadWarning>) -> Document {
    let page = format!(
        "<!DOCTYPE html><html lang=\"{}\"><head><title>{}</title></head><body>{html}</body></html>",
        escape_html(lang.unwrap_or_default()),
        escape_html(title),
    );
    let document = Document::from(page);
    let elements = flatten(&document);
    if elements > 0 {
        warnings.push(ReadWarning::DeepNestingFlattened { elements });
    }
    document
}

/// Text as HTML source, fit for element content and quoted attributes.
pub(super) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Unwraps every element below [`MAX_DEPTH`]; links stay. Returns how many elements were unwrapped.
fn flatten(document: &Document) -> u32 {
    let deep = elements_below(document, MAX_DEPTH);
    for id in &deep {
        // In document order each of these hangs at the limit by the time its turn comes, so every child moves once.
        let Some(node) = document.tree.get(id) else { continue };
        if let Some(first) = node.first_child() {
            node.insert_siblings_before(&first);
        }
        if node.query_or(false, |inner| inner.as_element().is_some_and(|e| is_block(&e.name.local))) {
            node.rename("br");
            node.remove_all_attrs();
        } else {
            node.remove_from_parent();
        }
    }
    u32::try_from(deep.len()).unwrap_or(u32::MAX)
}

fn elements_below(document: &Document, limit: usize) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut open = vec![(document.root(), 0_usize, false)];
    while let Some((node, depth, in_link)) = open.pop() {
        let is_link = node.has_name("a");
        let keeps_tag = is_void(&node) || (is_link && !in_link);
        if depth > limit && node.is_element() && !keeps_tag {
            found.push(node.id);
        }
        open.extend(node.children_it(true).map(|child| (child, depth + 1, in_link || is_link)));
    }
    found
}

fn is_void(node: &NodeRef<'_>) -> bool {
    ["br", "hr", "img", "input", "wbr"].iter().any(|name| node.has_name(name))
}

/// Elements that start on a line of their own.
pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address" | "article" | "aside" | "blockquote" | "body" | "caption" | "center" | "dd" | "details" | "dialog"
            | "dir" | "div" | "dl" | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form" | "frameset"
            | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "header" | "hgroup" | "hr" | "html" | "legend" | "li" | "main"
            | "menu" | "nav" | "ol" | "optgroup" | "option" | "p" | "pre" | "search" | "section" | "summary" | "table"
            | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr" | "ul"
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
