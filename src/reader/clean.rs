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
