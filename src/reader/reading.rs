//! What a caller asks of the reader, and what it gets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The form of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Markdown,
    /// The cleaned HTML that the other forms are made from.
    Html,
    /// Plain text, a blank line between blocks.
    Text,
    /// Every link with its text.
    Links,
    /// The headings as an indented list.
    Outline,
    /// JSON-LD, OpenGraph, Twitter cards and link relations as JSON.
    StructuredData,
}

/// How much of the page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentMode {
    /// The main content, without navigation and other furniture.
    #[default]
    Main,
    /// Everything that a person can see.
    Full,
}

/// What to make of a captured page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadRequest {
    pub format: Format,
    /// Ignored for a page that was captured with a selector.
    pub content: ContentMode,
}

/// What the content was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeUsed {
    /// The main content, as an extractor found it.
    Article,
    /// No extractor was convincing: the page without navigation, asides and footers.
    Stripped,
    /// The whole page.
    Full,
    /// The elements that the caller's selector matched.
    Selector,
}

/// How many things of one kind the content keeps, and how many the page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub kept: u32,
    pub on_page: u32,
}

/// How many frames were read in place, and how many could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct FrameCoverage {
    /// Frames of the page's own origin: their content stands where the frame stood.
    pub inlined: u32,
    /// Frames of other origins, or not loaded by the engine.
    pub unread: u32,
}

/// What the content lost on the way from the page, so that nothing is lost silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Coverage {
    /// Characters of text, white space not counted.
    pub text: Share,
    pub links: Share,
    pub images: Share,
    pub tables: Share,
    pub code_blocks: Share,
    pub frames: FrameCoverage,
    /// Hidden elements with text that were left out, each counted once with all that it holds.
    pub hidden_nodes: u32,
    /// Drawings, canvases, plug-ins, `noscript`s and large `data:` images that were left out.
    pub dropped: u32,
}

/// A link of the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageLink {
    /// The text of the link, white space collapsed.
    pub text: String,
    /// Absolute.
    pub url: String,
}

/// Something that the caller should know about the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ReadWarning {
    /// The page has more nodes than are read: its end is missing.
    PageTruncated { nodes: u32 },
    /// Elements nested deeper than the limit were read without their structure.
    DeepNestingFlattened { elements: u32 },
    /// No extractor found a main content: the page without its furniture was taken.
    MainContentUncertain,
    /// A library failed on this page; a simpler way was taken.
    ExtractorFailed,
    /// The converter failed on this page: the content is plain text.
    ConverterFailed,
    /// Frames whose content could not be read.
    FramesUnread { frames: u32 },
    /// JSON-LD scripts that are no JSON are given as strings.
    InvalidJsonLd { scripts: u32 },
}

/// The content of a page, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Markdown, HTML, text, a Markdown list of links, a Markdown outline or JSON, as asked. The title is not added.
    pub content: String,
    /// Filled for [`Format::Links`] only.
    pub links: Vec<PageLink>,
    pub title: String,
    pub lang: Option<String>,
    pub mode_used: ModeUsed,
    pub coverage: Coverage,
    pub warnings: Vec<ReadWarning>,
}

/// Why a page could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReaderError {
    /// `name` is the exception's name, never the selector.
    #[error("the selector is not valid CSS ({name})")]
    InvalidSelector { name: String },
    #[error("the selector matches nothing on the page")]
    SelectorNotFound,
}
