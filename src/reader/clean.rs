//! Cleans a captured page: what `browser/js/normalise.js` leaves as the page has it.
//!
//! Afterwards URLs are absolute, images have their real sources, formulas are TeX, and only attributes that tell a
//! reader something are left.

use std::borrow::Cow;

use dom_query::{Document, NodeRef};
use url::Url;

use super::tree::is_block;
use super::{formula, image};

/// Longer `data:` URLs are images for eyes, not text for readers.
const MAX_DATA_URL: usize = 256;
/// Bytes; a longer class or title tells a reader nothing.
const MAX_ATTRIBUTE: usize = 2048;
/// Bytes; a longer text is content, also where it is meant for screen readers.
const MAX_LABEL: usize = 200;
/// Where `normalise.js` tells the base URL of an inlined frame.
const FRAME_BASE: &str = "data-frame-base";

/// What was taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// Texts for screen readers that repeat what is seen beside them.
    pub hidden: u32,
    /// Images without a source that can be told.
    pub dropped: u32,
}

/// `text` without characters that reorder what a person reads (embeddings, overrides, isolates) or that nobody sees
/// (tag characters).
pub(super) fn seen(text: &str) -> Cow<'_, str> {
    let is_unseen =
        |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}');
    if text.contains(is_unseen) { Cow::Owned(text.replace(is_unseen, "")) } else { Cow::Borrowed(text) }
}

/// Cleans the body of `document` in place. Relative URLs are resolved against `base`.
pub(super) fn clean(document: &Document, base: &str) -> Removed {
    let Some(body) = document.body() else { return Removed::default() };
    let bases = Bases::new(base, &body);
    let elements: Vec<NodeRef<'_>> = body.descendants_it().filter(NodeRef::is_element).collect();
    let has_formula_scripts = elements.iter().any(formula::is_from_script);
    let mut removed = Removed::default();
    for node in &elements {
        match node.node_name().as_deref() {
            Some("a") => resolve_link(node, &bases),
            Some("img") => removed.dropped += u32::from(!image::resolve(node, |url| bases.absolute(node, url))),
            Some("audio" | "video") => resolve_media(node, &bases),
            Some("math") => formula::write(node),
            _ => {}
        }
    }
    // Children come before their parents: what is decided about a parent looks at clean children.
    for node in elements.iter().rev() {
        if is_repeated_for_screen_readers(node) {
            removed.hidden += 1;
            node.remove_from_parent();
        } else if is_no_content(node) || formula::is_rendering(node, has_formula_scripts) {
            node.remove_from_parent();
        } else if node.has_name("picture") || node.has_name("slot") {
            unwrap(node);
        } else {
            rename(node);
            clean_attributes(node);
        }
    }
    removed
}

/// The URLs that relative links are resolved against.
struct Bases {
    page: Option<Url>,
    has_frames: bool,
}

impl Bases {
    fn new(page: &str, body: &NodeRef<'_>) -> Self {
        let has_frames = body.descendants_it().any(|node| node.has_attr(FRAME_BASE));
        Self { page: Url::parse(page).ok(), has_frames }
    }

    /// `None` for what is no URL, runs a script, or is data for eyes only.
    fn absolute(&self, node: &NodeRef<'_>, url: &str) -> Option<String> {
        let options = Url::options();
        let frame = self.frame_of(node);
        let url = options.base_url(frame.as_ref().or(self.page.as_ref())).parse(url.trim()).ok()?;
        let is_readable = match url.scheme() {
            "javascript" | "vbscript" => false,
            "data" => url.as_str().len() <= MAX_DATA_URL,
            _ => true,
        };
        is_readable.then(|| url.into())
    }

    fn frame_of(&self, node: &NodeRef<'_>) -> Option<Url> {
        if !self.has_frames {
            return None;
        }
        Url::parse(&node.ancestors_it(None).find_map(|above| above.attr(FRAME_BASE))?).ok()
    }
}

/// A link that leads nowhere becomes a span.
fn resolve_link(link: &NodeRef<'_>, bases: &Bases) {
    let href = link.attr("href").filter(|href| !href.trim().is_empty());
    match href.and_then(|href| bases.absolute(link, &href)) {
        Some(url) => link.set_attr("href", &url),
        None => {
            link.remove_all_attrs();
            link.rename("span");
        }
    }
}

fn resolve_media(media: &NodeRef<'_>, bases: &Bases) {
    let nested = || media.descendants_it().filter(|node| node.has_name("source")).find_map(|node| node.attr("src"));
    let source = media.attr("src").or_else(nested).and_then(|url| bases.absolute(media, &url));
    let poster = media.attr("poster").and_then(|url| bases.absolute(media, &url));
    media.remove_children();
    media.remove_all_attrs();
    for (name, url) in [("src", source), ("poster", poster)] {
        if let Some(url) = url {
            media.set_attr(name, &url);
        }
    }
}

fn is_repeated_for_screen_readers(node: &NodeRef<'_>) -> bool {
    const CLASSES: [&str; 6] =
        ["sr-only", "visuallyhidden", "visually-hidden", "screen-reader-text", "a11y-hidden", "u-hidden-visually"];
    let Some(class) = node.class() else { return false };
    if !class.split_whitespace().any(|name| CLASSES.iter().any(|known| name.eq_ignore_ascii_case(known))) {
        return false;
    }
    let (text, Some(parent)) = (node.text(), node.parent()) else { return false };
    let (text, around) = (text.trim(), parent.text());
    !text.is_empty() && text.len() <= MAX_LABEL && around.find(text) != around.rfind(text)
}

fn is_no_content(node: &NodeRef<'_>) -> bool {
    matches!(
        node.node_name().as_deref(),
        Some(
            "base"
                | "canvas"
                | "datalist"
                | "embed"
                | "head"
                | "iframe"
                | "link"
                | "meta"
                | "noscript"
                | "object"
                | "param"
                | "script"
                | "source"
                | "style"
                | "svg"
                | "template"
                | "title"
                | "track"
        )
    )
}

fn unwrap(node: &NodeRef<'_>) {
    for child in node.children() {
        node.insert_before(&child);
    }
    node.remove_from_parent();
}

/// Custom elements say nothing by their names: they are blocks where they hold blocks.
fn rename(node: &NodeRef<'_>) {
    let Some(name) = node.node_name() else { return };
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return;
    }
    let holds_blocks = node.children_it(false).any(|child| child.node_name().is_some_and(|name| is_block(&name)));
    node.rename(if holds_blocks { "div" } else { "span" });
}

fn clean_attributes(node: &NodeRef<'_>) {
    let align = if node.has_name("td") || node.has_name("th") { alignment(node) } else { None };
    node.update(|node| {
        let Some(element) = node.as_element_mut() else { return };
        let name = element.name.local.clone();
        element.attrs.retain(|attribute| is_kept(&name, &attribute.name.local, attribute.value.len()));
    });
    if let Some(align) = align {
        node.set_attr("align", &align);
    }
}

fn is_kept(element: &str, attribute: &str, length: usize) -> bool {
    match (element, attribute) {
        ("a", "href") | ("img" | "audio" | "video", "src") | ("img", "alt") | ("video", "poster") => true,
        ("input", name) => matches!(name, "type" | "value" | "checked"),
        (
            _,
            "id" | "class" | "itemprop" | "role" | "lang" | "dir" | "title" | "rel" | "aria-label" | "open" | "value"
            | "start" | "reversed" | "colspan" | "rowspan" | "scope" | "datetime",
        ) => length <= MAX_ATTRIBUTE,
        _ => false,
    }
}

/// The alignment of a table cell: its own style's before its attribute's.
fn alignment(cell: &NodeRef<'_>) -> Option<String> {
    let style = cell.attr("style").unwrap_or_default();
    let mut declared = style.split(';').filter_map(|declaration| declaration.split_once(':'));
    let aligned = declared.rfind(|(name, _)| name.trim().eq_ignore_ascii_case("text-align"));
    let align = match aligned {
        Some((_, value)) => value.trim_end_matches("!important").trim().to_owned(),
        None => cell.attr("align")?.to_string(),
    };
    (!align.is_empty()).then_some(align)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(html: &str) -> (String, Removed) {
        let document = Document::from(html);
        let removed = clean(&document, "https://a.example/b/c?d");
        (document.body().unwrap().inner_html().to_string(), removed)
    }

    #[test]
    fn links_are_absolute_and_those_that_lead_nowhere_are_spans() {
        for (link, expected) in [
            ("<a href=\" ../x y \">t</a>", "<a href=\"https://a.example/x%20y\">t</a>"),
            ("<a href=\"#n\" onclick=\"f()\">t</a>", "<a href=\"https://a.example/b/c?d#n\">t</a>"),
            ("<a href=\"mailto:m@a.example\">t</a>", "<a href=\"mailto:m@a.example\">t</a>"),
            ("<a href=\"JavaScript:f()\" class=\"x\">t</a>", "<span>t</span>"),
            ("<a href=\"\">t</a>", "<span>t</span>"),
            ("<a name=\"n\">t</a>", "<span>t</span>"),
        ] {
            assert_eq!(cleaned(link).0, expected);
        }
    }

    #[test]
    fn what_stands_in_a_frame_is_resolved_against_the_frame() {
        let html = "<div data-frame-base=\"https://f.example/g/\"><a href=\"h\">t</a></div><a href=\"h\">t</a>";
        assert_eq!(
            cleaned(html).0,
            "<div><a href=\"https://f.example/g/h\">t</a></div><a href=\"https://a.example/b/h\">t</a>"
        );
    }

    #[test]
    fn only_attributes_that_tell_something_are_left() {
        let long = "x".repeat(MAX_ATTRIBUTE + 1);
        let html = format!(
            "<p class=\"c\" style=\"color:red\" data-x=\"1\" onclick=\"f()\" title=\"{long}\">t</p>\
             <input type=\"text\" value=\"v\" name=\"n\" class=\"c\">"
        );
        assert_eq!(cleaned(&html).0, "<p class=\"c\">t</p><input type=\"text\" value=\"v\">");
    }

    #[test]
    fn a_cell_is_aligned_by_its_style_before_its_attribute() {
        let html = "<table><tbody><tr><td style=\"color:red; Text-Align: right !important\" align=\"left\">1</td>\
                    <td align=\"center\">2</td></tr></tbody></table>";
        assert_eq!(
            cleaned(html).0,
            "<table><tbody><tr><td align=\"right\">1</td><td align=\"center\">2</td></tr></tbody></table>"
        );
    }

    #[test]
    fn unknown_elements_are_blocks_where_they_hold_blocks() {
        let html = "<x-card><p>a</p></x-card><x-price>5</x-price><o:p>b</o:p><picture><slot>c</slot></picture>";
        assert_eq!(cleaned(html).0, "<div><p>a</p></div><span>5</span><span>b</span>c");
    }

    #[test]
    fn a_text_for_screen_readers_goes_where_it_repeats_what_is_seen() {
        let (html, removed) = cleaned(
            "<p>Share <span class=\"Sr-Only\">Share</span></p><p>More <span class=\"sr-only\">about it</span></p>",
        );
        assert_eq!(html, "<p>Share </p><p>More <span class=\"sr-only\">about it</span></p>");
        assert_eq!(removed.hidden, 1);
    }

    #[test]
    fn an_image_without_a_source_that_can_be_told_is_counted() {
        let data = format!("data:image/png;base64,{}", "A".repeat(MAX_DATA_URL));
        let (html, removed) = cleaned(&format!("<img src=\"{data}\" alt=\"a\"><img src=\"{data}\"><img alt=\"b\">"));
        assert_eq!(html, "<img alt=\"a\"><img alt=\"b\">");
        assert_eq!(removed.dropped, 2);
    }

    #[test]
    fn a_film_keeps_its_source_and_its_poster() {
        let html = "<video poster=\"p.png\" controls><source src=\"f.mp4\"><p>No film</p></video>";
        let expected = "<video src=\"https://a.example/b/f.mp4\" poster=\"https://a.example/b/p.png\"></video>";
        assert_eq!(cleaned(html).0, expected);
    }

    #[test]
    fn characters_that_nobody_sees_go() {
        assert_eq!(seen("a\u{202E}b\u{E0041}c\u{2066}"), "abc");
        assert!(matches!(seen("plain é"), Cow::Borrowed(_)));
    }
}
