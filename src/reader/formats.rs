//! The forms of the content that are not Markdown.

use std::collections::BTreeMap;

use dom_query::{Document, NodeRef};
use serde_json::{Value, json};

use super::capture::PageCapture;
use super::clean::seen;
use super::metadata::Metadata;
use super::reading::{PageLink, ReadWarning};
use super::tree::collapsed_text;

/// Plain text, a blank line between blocks.
pub(super) fn text(document: &Document) -> String {
    document.body().map(|body| body.formatted_text().trim().to_owned()).unwrap_or_default()
}

/// The cleaned HTML inside the body.
pub(super) fn html(document: &Document) -> String {
    let document = document.clone();
    for node in document.root().descendants_it().filter(|node| node.has_name("pre")).collect::<Vec<_>>() {
        // A parser takes the first line break after the tag for layout: one that is text needs one before it.
        if node.text().starts_with('\n') {
            node.prepend_html("\n");
        }
    }
    document.body().map(|body| body.inner_html().trim().to_owned()).unwrap_or_default()
}

/// Every link in document order. A link without text takes its label, its title or its image's description.
pub(super) fn links(document: &Document) -> Vec<PageLink> {
    let root = document.root();
    let anchors = root.descendants_it().filter(|node| node.has_name("a"));
    anchors.filter_map(|node| Some(PageLink { url: node.attr("href")?.to_string(), text: link_text(&node) })).collect()
}

fn link_text(link: &NodeRef<'_>) -> String {
    let text = collapsed_text(link);
    if !text.is_empty() {
        return text;
    }
    let image = link.descendants_it().find_map(|node| node.attr("alt").filter(|alt| !alt.trim().is_empty()));
    let label = link.attr("aria-label").or_else(|| link.attr("title")).or(image);
    label.map(|label| label.trim().to_owned()).unwrap_or_default()
}

/// The headings as a list, indented by level from the highest level that occurs.
pub(super) fn outline(document: &Document) -> String {
    let headings: Vec<_> = document.root().descendants_it().filter_map(|node| heading(&node)).collect();
    let top = headings.iter().map(|(level, _)| *level).min().unwrap_or(1);
    let lines: Vec<_> =
        headings.iter().map(|(level, text)| format!("{}- h{level}: {text}", "  ".repeat(level - top))).collect();
    lines.join("\n")
}

fn heading(node: &NodeRef<'_>) -> Option<(usize, String)> {
    let level = ["h1", "h2", "h3", "h4", "h5", "h6"].iter().position(|name| node.has_name(name))? + 1;
    let text = collapsed_text(node);
    (!text.is_empty()).then_some((level, text))
}

/// The page's metadata as JSON text. A JSON-LD script that is no JSON is given as a string.
pub(super) fn structured_data(capture: &PageCapture, warnings: &mut Vec<ReadWarning>) -> String {
    let Metadata { json_ld, open_graph, twitter, description, canonical, alternates } =
        &Metadata::of(&capture.head, &capture.base);
    let mut invalid = 0;
    let parsed: Vec<Value> = json_ld
        .iter()
        .map(|script| {
            serde_json::from_str(script).unwrap_or_else(|_| {
                invalid += 1;
                Value::String(script.clone())
            })
        })
        .collect();
    if invalid > 0 {
        warnings.push(ReadWarning::InvalidJsonLd { scripts: invalid });
    }
    let data = json!({
        "json_ld": parsed,
        "open_graph": grouped(open_graph),
        "twitter": grouped(twitter),
        "meta": { "title": seen(&capture.title), "description": description, "language": capture.lang },
        "links": { "canonical": canonical, "alternates": alternates },
    });
    format!("{data:#}")
}

/// Values by name: a name that occurs once has a string, one that repeats has a list.
fn grouped(pairs: &[(String, String)]) -> BTreeMap<&str, Value> {
    let mut groups: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, value) in pairs {
        let value = Value::String(value.clone());
        match groups.get_mut(name.as_str()) {
            None => {
                groups.insert(name, value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(single) => *single = Value::Array(vec![single.take(), value]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_reads_back_with_the_line_break_that_begins_a_pre() {
        let document = Document::from("<pre>\n\nx</pre><pre>y</pre>");
        assert_eq!(html(&document), "<pre>\n\nx</pre><pre>y</pre>");
    }
}
