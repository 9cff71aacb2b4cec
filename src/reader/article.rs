//! Finding the main content.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability};

use super::contain::contained;
use super::reading::{ModeUsed, ReadWarning};
use super::tree::text_size;

/// An article shorter than this, in characters without white space, is looked at a second time (Readability's own
/// threshold for "found nothing").
const SHORT: usize = 500;
/// An extract below this part of what another reading finds has collapsed.
const COLLAPSED: f64 = 0.25;
/// Marks the elements that were `h1` before the extraction.
const TOP_HEADING: &str = "data-top-heading";

/// The main content of `page` as a document of its own.
///
/// Readability's rules come first: they keep tables, code and links. Where they find suspiciously little, another
/// extractor is asked; where both do, the page without its furniture is the answer.
pub(super) fn main_content(page: &Document, warnings: &mut Vec<ReadWarning>) -> (Document, ModeUsed) {
    let on_page = text_size(page);
    let first = extracted(readability(page), warnings);
    if let Some(article) = &first {
        restore_top_headings(article);
    }
    let found = first.as_ref().map_or(0, text_size);
    if found >= SHORT
        && !collapsed(found, on_page)
        && let Some(article) = first
    {
        return (article, ModeUsed::Article);
    }
    let second = extracted(second_opinion(page), warnings);
    let best = better(first, second);
    let stripped = stripped(page);
    match best {
        Some(article) if is_convincing(text_size(&article), text_size(&stripped)) => (article, ModeUsed::Article),
        _ => {
            warnings.push(ReadWarning::MainContentUncertain);
            (stripped, ModeUsed::Stripped)
        }
    }
}

fn collapsed(found: usize, reference: usize) -> bool {
    (found as f64) < COLLAPSED * reference as f64
}

/// A long article stands by itself, a short one has to be most of a short page.
fn is_convincing(found: usize, stripped: usize) -> bool {
    found >= SHORT || (found > 0 && found * 2 >= stripped)
}

/// The first, unless the second has found much more.
fn better(first: Option<Document>, second: Option<Document>) -> Option<Document> {
    let (Some(one), Some(other)) = (&first, &second) else { return first.or(second) };
    if collapsed(text_size(one), text_size(other)) { second } else { first }
}

/// The extractor's answer parsed; `Err` means that the library panicked.
fn extracted(html: Result<Option<String>, ReadWarning>, warnings: &mut Vec<ReadWarning>) -> Option<Document> {
    match html {
        Ok(html) => html.map(Document::from),
        Err(warning) => {
            warnings.push(warning);
            None
        }
    }
}

fn readability(page: &Document) -> Result<Option<String>, ReadWarning> {
    // Classes tell a code block's language and where TeX stands.
    let config = Config { keep_classes: true, disable_json_ld: true, ..Config::default() };
    let marked = page.clone();
    // It would take a heading that says the same as the title out of the text.
    marked.select("title").remove();
    for node in marked.root().descendants_it().filter(|node| node.has_name("h1")).collect::<Vec<_>>() {
        node.set_attr(TOP_HEADING, "");
    }
    let parsed = contained(|| {
        let article = Readability::with_document(marked, None, Some(config)).ok()?.parse().ok()?;
        Some(article.content.to_string())
    });
    parsed.ok_or(ReadWarning::ExtractorFailed)
}

/// Readability makes every `h1` an `h2`, because it shows the title above: here the title is not part of the content.
fn restore_top_headings(article: &Document) {
    for node in article.root().descendants_it().filter(|node| node.has_attr(TOP_HEADING)).collect::<Vec<_>>() {
        node.rename("h1");
        node.remove_attr(TOP_HEADING);
    }
}

fn second_opinion(page: &Document) -> Result<Option<String>, ReadWarning> {
    let options = trafilatura::Options::default()
        .with_fallback(true)
        .with_links(true)
        .with_images(true)
        .with_exclude_comments(true);
    let html = page.html();
    let parsed = contained(|| trafilatura::extract(&html, &options).ok().map(|result| result.content_html));
    parsed.ok_or(ReadWarning::ExtractorFailed)
}

/// The page without what stands around the content on most sites.
fn stripped(page: &Document) -> Document {
    let copy = page.clone();
    let furniture: Vec<_> = copy.root().descendants_it().filter(is_furniture).map(|node| node.id).collect();
    for id in furniture {
        if let Some(node) = copy.tree.get(&id) {
            node.remove_from_parent();
        }
    }
    copy
}

fn is_furniture(node: &NodeRef<'_>) -> bool {
    if ["nav", "aside", "footer"].iter().any(|name| node.has_name(name)) {
        return true;
    }
    let role = node.attr("role");
    matches!(
        role.as_deref(),
        Some("navigation" | "complementary" | "contentinfo" | "search" | "dialog" | "alertdialog")
    )
}
