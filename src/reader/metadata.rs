//! What the head of a page says about it.

use dom_query::{Document, NodeRef};
use url::Url;

use super::clean::seen;

/// Metadata as the page wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The text of each JSON-LD script; not necessarily valid JSON.
    pub json_ld: Vec<String>,
    /// `og:`, `article:` and related properties with their values, in document order.
    pub open_graph: Vec<(String, String)>,
    /// `twitter:` names with their values, in document order.
    pub twitter: Vec<(String, String)>,
    pub description: Option<String>,
    pub canonical: Option<String>,
    pub alternates: Vec<Alternate>,
}

/// A `<link rel="alternate">`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Alternate {
    pub href: String,
    pub r#type: Option<String>,
    pub hreflang: Option<String>,
}

impl Metadata {
    /// Reads the `head` of a [`super::PageCapture`]; links are resolved against `base`.
    pub(super) fn of(head: &str, base: &str) -> Self {
        let base = Url::parse(base).ok();
        let document = Document::from(seen(head).as_ref());
        let mut metadata = Self::default();
        for node in document.root().descendants_it() {
            match node.node_name().as_deref() {
                Some("script") => metadata.json_ld.push(node.text().to_string()),
                Some("meta") => metadata.take_meta(&node),
                Some("link") => metadata.take_link(&node, base.as_ref()),
                _ => {}
            }
        }
        metadata
    }

    fn take_meta(&mut self, meta: &NodeRef<'_>) {
        const OPEN_GRAPH: [&str; 6] = ["og", "article", "book", "profile", "music", "video"];
        let Some(content) = meta.attr("content") else { return };
        let (name, content) = (meta.attr("property").or_else(|| meta.attr("name")), content.to_string());
        let name = name.unwrap_or_default().to_lowercase();
        match name.split_once(':') {
            Some(("twitter", _)) => self.twitter.push((name, content)),
            Some((prefix, _)) if OPEN_GRAPH.contains(&prefix) => self.open_graph.push((name, content)),
            _ if name == "description" => self.description = Some(content),
            _ => {}
        }
    }

    fn take_link(&mut self, link: &NodeRef<'_>, base: Option<&Url>) {
        let href = link.attr("href").filter(|href| !href.trim().is_empty());
        let Some(Ok(href)) = href.map(|href| Url::options().base_url(base).parse(href.trim())) else { return };
        if matches!(href.scheme(), "javascript" | "vbscript" | "data") {
            return;
        }
        let relations = link.attr_or("rel", "").to_lowercase();
        let is = |relation: &str| relations.split_whitespace().any(|name| name == relation);
        let text = |name: &str| link.attr(name).map(|value| value.to_string());
        if is("canonical") {
            self.canonical = Some(href.into());
        } else if is("alternate") && !is("stylesheet") {
            self.alternates.push(Alternate { href: href.into(), r#type: text("type"), hreflang: text("hreflang") });
        }
    }
}
