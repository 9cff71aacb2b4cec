//! Rewrites a page's tree as the HTML dialect that [`super::handlers`] reads.
//!
//! Generic containers become borders between blocks (`<hr class="b">`), so that only lists, quotes, tables and inline
//! elements nest. A loop over an explicit stack: depth costs no call stack.

use std::borrow::Cow;

use dom_query::{Document, NodeRef};

use super::escape::{CELL_BREAK, CELL_ITEM, CODE_SPACE, push_text, push_verbatim};
use crate::reader::tree::{collapsed_text, escape_html, is_block};

/// Elements of the dialect nested deeper than this are written without their tags: the converter recurses.
const MAX_NESTING: u8 = 40;
const BORDER: &str = "<hr class=\"b\">";

/// Where in the dialect a node stands.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    nesting: u8,
    pre: bool,
    code: bool,
    cell: bool,
    heading: bool,
    link: bool,
    strong: bool,
    emphasis: bool,
    deleted: bool,
    list: bool,
    item: bool,
    definitions: bool,
}

enum Step<'a> {
    Node(NodeRef<'a>, Place),
    /// A list item with its marker, for example `-` or `3.`.
    Item(NodeRef<'a>, String, Place),
    Raw(Cow<'static, str>),
    /// A border between blocks, in the form that the place allows.
    Border(Place),
    /// The end of a line inside a code block, if one is needed.
    LineEnd,
}

/// The body of `document` in the dialect.
pub(super) fn write(document: &Document) -> String {
    let mut writer = Writer { out: String::new(), steps: Vec::new() };
    if let Some(body) = document.body() {
        writer.children(&body, Place::default());
    }
    writer.run();
    writer.out
}

struct Writer<'a> {
    out: String,
    steps: Vec<Step<'a>>,
}

impl<'a> Writer<'a> {
    fn run(&mut self) {
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Node(node, place) if node.is_text() => self.text(&node.text(), place),
                Step::Node(node, place) => self.element(node, place),
                Step::Item(node, marker, place) => self.item(&node, &marker, place),
                Step::Raw(text) => self.out.push_str(&text),
                Step::Border(place) => self.border(place),
                Step::LineEnd => self.line_end(),
            }
        }
    }

    fn children(&mut self, node: &NodeRef<'a>, place: Place) {
        self.steps.extend(node.children_it(true).map(|child| Step::Node(child, place)));
    }

    /// `open`, the children, `close`.
    fn wrapped(&mut self, open: &str, node: &NodeRef<'a>, close: &'static str, place: Place) {
        self.out.push_str(open);
        self.steps.push(Step::Raw(close.into()));
        self.children(node, Place { nesting: place.nesting + 1, ..place });
    }

    fn text(&mut self, text: &str, place: Place) {
        if place.pre {
            push_verbatim(&mut self.out, text);
        } else if place.code {
            push_collapsed(&mut self.out, text);
        } else {
            push_text(&mut self.out, text);
        }
    }

    fn border(&mut self, place: Place) {
        match place {
            Place { pre: true, .. } => self.line_end(),
            Place { heading: true, .. } | Place { code: true, .. } => self.out.push(' '),
            Place { cell: true, .. } => self.out.push(CELL_BREAK),
            _ => self.out.push_str(BORDER),
        }
    }

    fn line_end(&mut self) {
        if !self.out.ends_with('\n') && !self.out.ends_with('>') {
            self.out.push('\n');
        }
    }

    /// A container without a form of its own.
    fn block(&mut self, node: &NodeRef<'a>, place: Place) {
        if place.list && !place.cell {
            return self.children(node, place); // a wrapper between a list and its items
        }
        self.border(place);
        self.steps.push(Step::Border(place));
        self.children(node, place);
    }

    fn element(&mut self, node: NodeRef<'a>, place: Place) {
        let Some(name) = node.node_name() else { return };
        let name = &*name;
        if is_left_out(name) {
            return;
        }
        match name {
            "br" => self.line_break(place),
            "img" => self.image(&node, place),
            _ if place.pre => self.inside_pre(&node, name, place),
            "a" => self.link(&node, place),
            "code" | "kbd" | "samp" | "tt" => self.code(&node, place),
            _ if place.code => self.children(&node, place),
            "b" | "strong" | "em" | "i" | "cite" | "dfn" | "del" | "s" | "strike" | "sub" | "sup" => {
                self.inline(&node, name, place)
            }
            "q" => self.quotation(&node, place),
            "rt" => self.wrapped("(", &node, ")", place),
            "span" if is_math(&node) => self.math(&node, place),
            "input" => self.input(&node, place),
            _ if is_block(name) => self.block_element(&node, name, place),
            _ => self.children(&node, place),
        }
    }

    fn block_element(&mut self, node: &NodeRef<'a>, name: &str, place: Place) {
        let nests = place.nesting < MAX_NESTING && !place.heading && !place.cell;
        match name {
            "pre" => self.pre(node, place),
            "hr" if nests => self.out.push_str("<hr>"),
            "ul" | "ol" | "menu" | "dir" => self.list(node, name == "ol", place),
            "li" => self.stray_item(node, place),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" if nests => self.heading(node, name, place),
            "blockquote" if nests => self.quote(node, place),
            "dl" if nests && has_terms(node) => {
                self.wrapped("<dl>", node, "</dl>", Place { definitions: true, list: false, ..place });
            }
            "dt" if nests && place.definitions => {
                self.wrapped("<dt>", node, "</dt>", Place { definitions: false, ..place })
            }
            "dd" if nests && place.definitions => {
                self.wrapped("<dd>", node, "</dd>", Place { definitions: false, ..place })
            }
            "table" if nests && is_data_table(node) => self.table(node, place),
            _ => self.block(node, place),
        }
    }

    fn line_break(&mut self, place: Place) {
        match place {
            Place { pre: true, .. } => self.out.push('\n'),
            Place { heading: true, .. } | Place { code: true, .. } => self.out.push(' '),
            Place { cell: true, .. } => self.out.push(CELL_BREAK),
            _ => self.out.push_str("<br>"),
        }
    }

    fn image(&mut self, node: &NodeRef<'a>, place: Place) {
        let alt = node.attr("alt").unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        let source = node.attr("src").filter(|source| !source.starts_with("data:"));
        if place.pre || place.code || source.is_none() {
            return self.text(&alt, place);
        }
        self.out.push_str("<img src=\"");
        self.out.push_str(&escape_html(&source.unwrap_or_default()));
        self.out.push_str("\" alt=\"");
        push_text(&mut self.out, &alt.replace('"', "'"));
        self.out.push('"');
        self.title_attribute(node, &alt);
        self.out.push('>');
    }

    /// A title that only repeats the text is left out.
    fn title_attribute(&mut self, node: &NodeRef<'a>, text: &str) {
        let title = node.attr("title").map(|title| title.split_whitespace().collect::<Vec<_>>().join(" "));
        if let Some(title) = title.filter(|title| !title.is_empty() && title.to_lowercase() != text.to_lowercase()) {
            self.out.push_str(" title=\"");
            self.out.push_str(&escape_html(&title));
            self.out.push('"');
        }
    }

    /// Code keeps its text only. Blocks (a `<div>` a line) become lines.
    fn inside_pre(&mut self, node: &NodeRef<'a>, name: &str, place: Place) {
        if is_block(name) {
            self.line_end();
            self.steps.push(Step::LineEnd);
        }
        self.children(node, place);
    }

    fn link(&mut self, node: &NodeRef<'a>, place: Place) {
        let Some(url) = node.attr("href").filter(|_| !place.link) else {
            return self.children(node, place);
        };
        let text = collapsed_text(node);
        if place.heading && is_heading_anchor(&url, &text) {
            return;
        }
        let shows_image = node.descendants_it().any(|inner| inner.has_name("img") && inner.has_attr("src"));
        let open = format!("<a href=\"{}\"", escape_html(&url));
        let place = Place { link: true, nesting: place.nesting + 1, ..place };
        if text.is_empty() && !shows_image {
            let label = node.attr("aria-label").or_else(|| node.attr("title")).unwrap_or_default();
            if !label.trim().is_empty() {
                self.out.push_str(&open);
                self.out.push('>');
                push_text(&mut self.out, label.trim());
                self.out.push_str("</a>");
            }
            return;
        }
        // A code span cannot hold a link, a link can hold a code span: turn them inside out.
        let (before, inner, after) =
            if place.code { ("</code>", "><code>", "</code></a><code>") } else { ("", ">", "</a>") };
        self.out.push_str(before);
        self.out.push_str(&open);
        self.title_attribute(node, &text);
        self.out.push_str(inner);
        self.steps.push(Step::Raw(after.into()));
        self.children(node, place);
    }

    fn code(&mut self, node: &NodeRef<'a>, place: Place) {
        if place.code {
            return self.children(node, place);
        }
        self.wrapped("<code>", node, "</code>", Place { code: true, ..place });
    }

    fn inline(&mut self, node: &NodeRef<'a>, name: &str, place: Place) {
        let already = Place { nesting: place.nesting + 1, ..place };
        match name {
            _ if place.nesting >= MAX_NESTING => self.children(node, place),
            "b" | "strong" if place.strong || place.heading => self.children(node, place),
            "b" | "strong" => self.merged("<b>", "</b>", node, Place { strong: true, ..already }),
            "em" | "i" | "cite" | "dfn" if place.emphasis => self.children(node, place),
            "em" | "i" | "cite" | "dfn" => self.merged("<i>", "</i>", node, Place { emphasis: true, ..already }),
            "del" | "s" | "strike" if place.deleted => self.children(node, place),
            "del" | "s" | "strike" => self.merged("<del>", "</del>", node, Place { deleted: true, ..already }),
            // A raised link is a note's number: the link says enough.
            "sup" if node.descendants_it().any(|inner| inner.has_name("a")) => self.children(node, place),
            "sup" => self.wrapped("<sup>", node, "</sup>", place),
            _ => self.wrapped("<sub>", node, "</sub>", place),
        }
    }

    /// Two runs of the same emphasis side by side are one: `**a****b**` is no Markdown.
    fn merged(&mut self, open: &'static str, close: &'static str, node: &NodeRef<'a>, place: Place) {
        if self.out.ends_with(close) {
            self.out.truncate(self.out.len() - close.len());
        } else {
            self.out.push_str(open);
        }
        self.steps.push(Step::Raw(close.into()));
        self.children(node, place);
    }

    fn quotation(&mut self, node: &NodeRef<'a>, place: Place) {
        self.out.push('“');
        self.steps.push(Step::Raw("”".into()));
        self.children(node, place);
    }

    fn math(&mut self, node: &NodeRef<'a>, place: Place) {
        let tex = collapsed_text(node);
        let display = node.has_class("math-display");
        if display {
            self.border(place);
        }
        push_verbatim(&mut self.out, &tex);
        if display {
            self.border(place);
        }
    }

    fn input(&mut self, node: &NodeRef<'a>, place: Place) {
        match node.attr("type").as_deref() {
            Some("checkbox") if place.item => {
                self.out.push_str(if node.has_attr("checked") { "<input checked>" } else { "<input>" });
            }
            Some("text") => {
                self.out.push(' ');
                self.text(&node.attr("value").unwrap_or_default(), place);
                self.out.push(' ');
            }
            _ => {}
        }
    }

    fn pre(&mut self, node: &NodeRef<'a>, place: Place) {
        if place.cell || place.heading || place.nesting >= MAX_NESTING {
            self.border(place);
            self.steps.push(Step::Border(place));
            return self.code(node, place);
        }
        let language = language_of(node).unwrap_or_default();
        // The parser takes one line break away at the start.
        let open = format!("<pre class=\"{}\">\n", escape_html(&language));
        self.wrapped(&open, node, "</pre>", Place { pre: true, ..place });
    }

    fn heading(&mut self, node: &NodeRef<'a>, name: &str, place: Place) {
        self.out.push_str(&format!("<{name}>"));
        self.steps.push(Step::Raw(format!("</{name}>").into()));
        self.children(node, Place { heading: true, nesting: place.nesting + 1, ..place });
    }

    fn quote(&mut self, node: &NodeRef<'a>, place: Place) {
        let inside = Place { list: false, item: false, definitions: false, ..place };
        self.wrapped("<blockquote>", node, "</blockquote>", inside);
    }

    fn list(&mut self, node: &NodeRef<'a>, ordered: bool, place: Place) {
        if place.cell || place.heading || place.nesting >= MAX_NESTING {
            return self.block(node, Place { list: true, ..place });
        }
        let inside = Place { list: true, item: false, definitions: false, nesting: place.nesting + 1, ..place };
        self.out.push_str(if place.item { "<ul class=\"n\">" } else { "<ul>" });
        self.steps.push(Step::Raw("</ul>".into()));
        let mut number = node.attr("start").and_then(|start| start.trim().parse::<u32>().ok()).unwrap_or(1);
        let mut items = Vec::new();
        for child in node.children_it(false) {
            if child.has_name("li") {
                number = child.attr("value").and_then(|value| value.trim().parse().ok()).unwrap_or(number);
                let marker = if ordered { format!("{}.", number.min(999_999_999)) } else { "-".to_owned() };
                number = number.saturating_add(1);
                items.push(Step::Item(child, marker, inside));
            } else {
                items.push(Step::Node(child, inside));
            }
        }
        self.steps.extend(items.into_iter().rev());
    }

    fn item(&mut self, node: &NodeRef<'a>, marker: &str, place: Place) {
        let open = format!("<li class=\"{marker}\">");
        self.wrapped(&open, node, "</li>", Place { list: false, item: true, ..place });
    }

    /// An item that is no list's own child.
    fn stray_item(&mut self, node: &NodeRef<'a>, place: Place) {
        if place.cell {
            self.out.push(CELL_ITEM);
            self.children(node, place);
        } else if place.heading || place.nesting >= MAX_NESTING {
            self.block(node, place);
        } else if place.list {
            self.item(node, "-", place);
        } else {
            self.out.push_str("<ul>");
            self.steps.push(Step::Raw("</ul>".into()));
            self.steps.push(Step::Item(*node, "-".to_owned(), place));
        }
    }

    fn table(&mut self, node: &NodeRef<'a>, place: Place) {
        let inside =
            Place { cell: true, list: false, item: false, definitions: false, nesting: place.nesting + 2, ..place };
        let captions = node.children_it(false).filter(|child| child.has_name("caption"));
        let mut steps: Vec<_> = captions.map(|caption| Step::Node(caption, place)).collect();
        steps.push(Step::Raw("<table>".into()));
        for row in node.descendants_it().filter(|inner| inner.has_name("tr")) {
            steps.push(Step::Raw("<tr>".into()));
            for cell in row.children_it(false).filter(is_cell) {
                steps.push(Step::Raw(cell_tag(&cell).into()));
                steps.extend(cell.children_it(false).map(|child| Step::Node(child, inside)));
                steps.push(Step::Raw("</td>".into()));
            }
            steps.push(Step::Raw("</tr>".into()));
        }
        steps.push(Step::Raw("</table>".into()));
        self.steps.extend(steps.into_iter().rev());
    }
}

fn is_cell(node: &NodeRef<'_>) -> bool {
    node.has_name("td") || node.has_name("th")
}

fn cell_tag(cell: &NodeRef<'_>) -> String {
    let number =
        |name: &str| cell.attr(name).and_then(|value| value.trim().parse::<u16>().ok()).unwrap_or(1).clamp(1, 1000);
    let align = match cell.attr("align").as_deref() {
        Some("center" | "-webkit-center") => "center",
        Some("right" | "end" | "-webkit-right") => "right",
        Some("left" | "start" | "-webkit-left") => "left",
        _ => "",
    };
    format!("<td class=\"{},{},{align}\">", number("colspan"), number("rowspan"))
}

/// Tables that arrange a page hold other tables, code or a single column; tables that hold data have columns or headers.
fn is_data_table(table: &NodeRef<'_>) -> bool {
    if matches!(table.attr("role").as_deref(), Some("presentation" | "none")) {
        return false;
    }
    let mut has_columns = false;
    for inner in table.descendants_it() {
        if inner.has_name("table") || inner.has_name("pre") {
            return false;
        }
        has_columns |=
            inner.has_name("th") || (inner.has_name("tr") && inner.children_it(false).filter(is_cell).count() > 1);
    }
    has_columns
}

fn has_terms(list: &NodeRef<'_>) -> bool {
    list.descendants_it().any(|inner| inner.has_name("dt"))
}

fn is_math(node: &NodeRef<'_>) -> bool {
    node.has_class("math-inline") || node.has_class("math-display")
}

/// A link of a heading to itself, shown as a sign.
fn is_heading_anchor(url: &str, text: &str) -> bool {
    url.contains('#') && !text.chars().any(char::is_alphanumeric)
}

fn is_left_out(name: &str) -> bool {
    matches!(
        name,
        "script"
            | "style"
            | "noscript"
            | "template"
            | "head"
            | "title"
            | "meta"
            | "link"
            | "svg"
            | "canvas"
            | "iframe"
            | "object"
            | "embed"
            | "audio"
            | "video"
            | "rp"
            | "source"
            | "track"
            | "datalist"
    )
}

/// The language that a code block's classes name, on the block itself, its `<code>`, or up to two elements around it.
fn language_of(pre: &NodeRef<'_>) -> Option<String> {
    let code = pre.children_it(false).find(|child| child.has_name("code"));
    let around = pre.ancestors_it(Some(2));
    code.into_iter().chain([*pre]).chain(around).find_map(|node| class_language(&node.class()?))
}

fn class_language(classes: &str) -> Option<String> {
    let mut words = classes.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let named = ["language-", "lang-", "highlight-source-", "highlight-text-", "brush:"]
            .iter()
            .find_map(|p| word.strip_prefix(p));
        let language = match named {
            Some("") if word == "brush:" => words.peek().copied(),
            other => other,
        };
        let language = language.map(|found| found.trim_matches([';', ':']).to_ascii_lowercase());
        if let Some(language) = language.filter(|found| is_language_name(found)) {
            return Some(language);
        }
    }
    None
}

fn is_language_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 32 && name.chars().all(|c| c.is_ascii_alphanumeric() || "+#.-_".contains(c))
}

/// Inline code: white space as a browser shows it, the rest as it is.
fn push_collapsed(out: &mut String, text: &str) {
    for (index, word) in text.split_ascii_whitespace().enumerate() {
        if (index > 0 || text.starts_with(|c: char| c.is_ascii_whitespace())) && !out.ends_with(CODE_SPACE) {
            out.push(CODE_SPACE);
        }
        push_verbatim(out, word);
    }
    if text.ends_with(|c: char| c.is_ascii_whitespace()) && !out.ends_with(CODE_SPACE) {
        out.push(CODE_SPACE);
    }
}
