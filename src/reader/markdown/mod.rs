//! HTML to Markdown: the one seam to the converter.
//!
//! Three steps. [`dialect`] rewrites the tree as a small, shallow HTML in which every element has one meaning and the
//! page's punctuation is out of the converter's reach. `htmd` walks that and joins the blocks; what each element
//! becomes is in [`handlers`]. [`escape`] then puts the punctuation back.
//!
//! The result is CommonMark with GFM tables, task lists and strikethrough. TeX stays between `$` or `$$`; superscripts,
//! subscripts and line breaks in table cells are inline HTML, because Markdown has no other form for them.

mod dialect;
mod escape;
mod handlers;
mod table;

#[cfg(test)]
mod tests;

use dom_query::Document;

use super::contain::contained;
use super::reading::PageLink;

/// The content of `document`'s body as Markdown without a final line break, or `None` when the converter failed.
pub(super) fn to_markdown(document: &Document) -> Option<String> {
    let html = dialect::write(document);
    let converted = contained(|| handlers::converter().convert(&html).ok()).flatten()?;
    let settled = handlers::settle(&converted);
    Some(escape::finish(settled.trim_matches('\n')))
}

/// A Markdown list of links, one a line.
pub(super) fn link_list(links: &[PageLink]) -> String {
    let lines: Vec<_> = links.iter().map(handlers::link_line).collect();
    escape::finish(&lines.join("\n"))
}
