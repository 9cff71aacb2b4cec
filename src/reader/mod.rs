//! From a captured page to what the caller wants to read. Pure functions: no I/O, no clock.
//!
//! `browser/js/normalise.js` makes a [`PageCapture`] inside the page; [`read`] parses and cleans it, finds the main content and
//! writes it in the wanted form. Nothing is lost silently: [`Coverage`] compares what is kept with what the page shows,
//! [`ModeUsed`] tells what the content was taken from, and [`ReadWarning`]s tell the rest.

mod article;
mod capture;
pub mod charset;
mod clean;
mod contain;
mod depth;
mod formats;
mod formula;
mod image;
mod markdown;
mod metadata;
mod reading;
pub mod text_types;
mod tree;
pub mod window;

#[cfg(test)]
mod tests;

pub use capture::PageCapture;
pub use reading::{
    ContentMode, Coverage, Format, FrameCoverage, ModeUsed, PageLink, ReadRequest, ReadWarning, ReaderError, Reading,
    Share,
};

use dom_query::Document;

/// The content of a captured page in the form that `request` names.
///
/// CPU-bound: some milliseconds for an ordinary page, more for a large one. Call it off the async threads.
pub fn read(capture: &PageCapture, request: &ReadRequest) -> Result<Reading, ReaderError> {
    check_selector(capture)?;
    let mut warnings = page_warnings(capture);
    let page = tree::parse(&capture.html, &capture.title, capture.lang.as_deref(), &mut warnings);
    let removed = clean::clean(&page, &capture.base);
    let (on_page, text_on_page) = (tree::holdings(&page), count(tree::text_size(&page)));
    let (document, mode_used) = chosen_content(capture, request, page, &mut warnings);
    let text = share(count(tree::text_size(&document)), text_on_page);
    let coverage = coverage(capture, removed, on_page, tree::holdings(&document), text);
    let links = if request.format == Format::Links { formats::links(&document) } else { Vec::new() };
    let content = match request.format {
        Format::Markdown => as_markdown(&document, &mut warnings),
        Format::Html => formats::html(&document),
        Format::Text => formats::text(&document),
        Format::Links => markdown::link_list(&links),
        Format::Outline => formats::outline(&document),
        Format::StructuredData => formats::structured_data(capture, &mut warnings),
    };
    Ok(Reading {
        content,
        links,
        title: clean::seen(&capture.title).into_owned(),
        lang: capture.lang.clone(),
        mode_used,
        coverage,
        warnings,
    })
}

fn check_selector(capture: &PageCapture) -> Result<(), ReaderError> {
    if let Some(name) = &capture.selector_error {
        return Err(ReaderError::InvalidSelector { name: name.clone() });
    }
    if capture.selector_matched == Some(0) { Err(ReaderError::SelectorNotFound) } else { Ok(()) }
}

fn page_warnings(capture: &PageCapture) -> Vec<ReadWarning> {
    let mut warnings = Vec::new();
    if capture.truncated {
        warnings.push(ReadWarning::PageTruncated { nodes: capture.nodes });
    }
    if capture.frames_unread > 0 {
        warnings.push(ReadWarning::FramesUnread { frames: capture.frames_unread });
    }
    warnings
}

fn chosen_content(
    capture: &PageCapture,
    request: &ReadRequest,
    page: Document,
    warnings: &mut Vec<ReadWarning>,
) -> (Document, ModeUsed) {
    let needs_extraction = request.content == ContentMode::Main && request.format != Format::StructuredData;
    if capture.selector_matched.is_some() {
        (page, ModeUsed::Selector)
    } else if needs_extraction {
        article::main_content(&page, warnings)
    } else {
        (page, ModeUsed::Full)
    }
}

fn as_markdown(document: &Document, warnings: &mut Vec<ReadWarning>) -> String {
    markdown::to_markdown(document).unwrap_or_else(|| {
        warnings.push(ReadWarning::ConverterFailed);
        formats::text(document)
    })
}

fn coverage(
    capture: &PageCapture,
    removed: clean::Removed,
    on_page: tree::Holdings,
    kept: tree::Holdings,
    text: Share,
) -> Coverage {
    Coverage {
        text,
        links: share(kept.links, on_page.links),
        images: share(kept.images, on_page.images),
        tables: share(kept.tables, on_page.tables),
        code_blocks: share(kept.code_blocks, on_page.code_blocks),
        frames: FrameCoverage { inlined: capture.frames_inlined, unread: capture.frames_unread },
        hidden_nodes: capture.hidden_nodes.saturating_add(removed.hidden),
        dropped: capture.dropped.saturating_add(removed.dropped),
    }
}

fn share(kept: u32, on_page: u32) -> Share {
    Share { kept: kept.min(on_page), on_page }
}

fn count(characters: usize) -> u32 {
    u32::try_from(characters).unwrap_or(u32::MAX)
}
