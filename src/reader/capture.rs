//! What the page script `browser/js/normalise.js` hands over.

use serde::Deserialize;

/// The result of `normalise.js`: the visible page as HTML, and what was counted on the way.
///
/// Scripts, styles, hidden text and the values of secret fields are gone. URLs and attributes are the page's own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageCapture {
    /// Serialised children of the body, or the elements that the selector matched.
    pub html: String,
    /// The serialised `<meta>`, canonical and alternate `<link>`, and JSON-LD `<script>` elements.
    pub head: String,
    /// The document's own URL after redirects and history changes.
    pub url: String,
    /// The URL that relative links were resolved against.
    pub base: String,
    pub title: String,
    /// The `lang` attribute of the root element.
    pub lang: Option<String>,
    /// `document.contentType`, for example `text/html`.
    pub content_type: String,
    /// `document.characterSet`, for example `UTF-8`.
    pub character_set: String,
    /// Elements that the selector matched; absent when the whole page was taken.
    pub selector_matched: Option<u32>,
    /// The name of the exception that the selector raised, for example `SyntaxError`.
    pub selector_error: Option<String>,
    /// DOM nodes visited; a subtree that the engine wrote out by itself counts as one.
    pub nodes: u32,
    /// The node limit ended the walk before the end of the page.
    pub truncated: bool,
    /// Frames whose content stands in `html`.
    pub frames_inlined: u32,
    /// Frames of other origins, and frames that the engine did not load.
    pub frames_unread: u32,
    /// Hidden elements with text that were left out, each counted once with all that it holds.
    pub hidden_nodes: u32,
    /// Drawings, canvases, plug-ins and `noscript`s that were left out.
    pub dropped: u32,
}
