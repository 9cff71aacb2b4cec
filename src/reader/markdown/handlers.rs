//! What each element of the dialect becomes in Markdown.

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdown};

use super::escape::{
    CELL_START, CELL_TEXT, CLOSE_DELETED, CLOSE_EMPHASIS, CLOSE_STRONG, CODE_BACKTICK, CODE_SPACE, LINE_BREAK,
    OPEN_DELETED, OPEN_EMPHASIS, OPEN_STRONG, ROW_END, force_brackets, push_text,
};
use super::table;
use crate::reader::reading::PageLink;

/// The converter with all of the dialect's elements taught to it.
pub(super) fn converter() -> HtmlToMarkdown {
    HtmlToMarkdown::builder()
        .add_handler(vec!["hr"], rule)
        .add_handler(vec!["br"], |_: &dyn Handlers, _: Element<'_>| some(LINE_BREAK.to_string()))
        .add_handler(vec!["h1", "h2", "h3", "h4", "h5", "h6"], heading)
        .add_handler(vec!["blockquote"], quote)
        .add_handler(vec!["ul"], list)
        .add_handler(vec!["li"], item)
        .add_handler(vec!["dl"], definitions)
        .add_handler(vec!["dt"], term)
        .add_handler(vec!["dd"], definition)
        .add_handler(vec!["input"], task_box)
        .add_handler(vec!["pre"], code_block)
        .add_handler(vec!["code"], code_span)
        .add_handler(vec!["b"], |h: &dyn Handlers, e: Element<'_>| emphasis(h, &e, OPEN_STRONG, CLOSE_STRONG))
        .add_handler(vec!["i"], |h: &dyn Handlers, e: Element<'_>| emphasis(h, &e, OPEN_EMPHASIS, CLOSE_EMPHASIS))
        .add_handler(vec!["del"], |h: &dyn Handlers, e: Element<'_>| emphasis(h, &e, OPEN_DELETED, CLOSE_DELETED))
        .add_handler(vec!["sub", "sup"], raised)
        .add_handler(vec!["a"], link)
        .add_handler(vec!["img"], image)
        .add_handler(vec!["table"], table_block)
        .add_handler(vec!["tbody"], |h: &dyn Handlers, e: Element<'_>| some(h.walk_children(e.node).content))
        .add_handler(vec!["tr"], |h: &dyn Handlers, e: Element<'_>| {
            some(h.walk_children(e.node).content + &ROW_END.to_string())
        })
        .add_handler(vec!["td"], table_cell)
        .build()
}

fn some(content: String) -> Option<HandlerResult> {
    Some(content.into())
}

fn attribute<'a>(element: &'a Element<'_>, name: &str) -> Option<&'a str> {
    element.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}

fn content(handlers: &dyn Handlers, element: &Element<'_>) -> String {
    handlers.walk_children(element.node).content
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\t' | LINE_BREAK)
}

fn block(text: &str) -> Option<HandlerResult> {
    if text.is_empty() { None } else { some(format!("\n\n{text}\n\n")) }
}

/// Turns line breaks into Markdown's: none at the edges of a block, two or more in a row part paragraphs.
pub(super) fn settle(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split(LINE_BREAK);
    out.push_str(pieces.next().unwrap_or_default());
    let mut breaks = 0;
    for piece in pieces {
        breaks += 1;
        let rest = piece.trim_start_matches(' ');
        if rest.is_empty() {
            continue;
        }
        let kept = out.trim_end_matches(' ').len();
        out.truncate(kept);
        let at_edge = rest.starts_with('\n') || out.is_empty() || out.ends_with('\n');
        if !at_edge {
            out.push_str(if breaks > 1 { "\n\n" } else { "\\\n" });
        }
        out.push_str(rest);
        breaks = 0;
    }
    out
}

/// The text of a block, ready to stand in a list item or a quote.
fn settled(handlers: &dyn Handlers, element: &Element<'_>) -> String {
    settle(content(handlers, element).trim_matches(is_blank))
}

fn indented(text: &str, width: usize) -> String {
    text.replace('\n', &format!("\n{}", " ".repeat(width))).replace(&format!("\n{}\n", " ".repeat(width)), "\n\n")
}

fn rule(_: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    some(if attribute(&element, "class") == Some("b") { "\n\n" } else { "\n\n---\n\n" }.to_owned())
}

fn heading(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let level = element.tag.strip_prefix('h').and_then(|digit| digit.parse().ok()).unwrap_or(1);
    let text = content(handlers, &element);
    let text = text.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if text.is_empty() { None } else { block(&format!("{} {text}", "#".repeat(level))) }
}

fn quote(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = settled(handlers, &element);
    let lines: Vec<_> =
        text.lines().map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") }).collect();
    block(&lines.join("\n"))
}

fn list(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let items = content(handlers, &element);
    let items = items.trim_matches(is_blank);
    match attribute(&element, "class") {
        _ if items.is_empty() => None,
        Some("n") => some(format!("\n{items}\n")),
        _ => block(items),
    }
}

fn item(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = settled(handlers, &element);
    if text.is_empty() {
        return None;
    }
    let marker = attribute(&element, "class").unwrap_or("-");
    some(format!("\n{marker} {}", indented(&text, marker.len() + 1)))
}

fn definitions(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    block(content(handlers, &element).trim_matches(is_blank))
}

fn term(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = settled(handlers, &element);
    if text.is_empty() { None } else { some(format!("\n\n{text}")) }
}

fn definition(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = settled(handlers, &element);
    if text.is_empty() { None } else { some(format!("\n: {}", indented(&text, 2))) }
}

fn task_box(_: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    some(if attribute(&element, "checked").is_some() { "[x] " } else { "[ ] " }.to_owned())
}

/// The longest run of backticks in code.
fn longest_run(code: &str) -> usize {
    code.split(|character| character != CODE_BACKTICK).map(|run| run.chars().count()).max().unwrap_or(0)
}

fn code_block(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let code = content(handlers, &element);
    let code = code.strip_suffix('\n').unwrap_or(&code);
    if code.trim_matches(['\n', CODE_SPACE]).is_empty() {
        return None;
    }
    let fence = "`".repeat(longest_run(code).saturating_add(1).max(3));
    let language = attribute(&element, "class").unwrap_or_default();
    block(&format!("{fence}{language}\n{code}\n{fence}"))
}

fn code_span(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let code = content(handlers, &element);
    if code.trim_matches(CODE_SPACE).is_empty() {
        return some(if code.is_empty() { String::new() } else { " ".to_owned() });
    }
    let fence = "`".repeat(longest_run(&code) + 1);
    // The parser takes one space away at both ends, if there is one at both.
    let touches = code.starts_with(CODE_BACKTICK) || code.ends_with(CODE_BACKTICK);
    let pad = if touches || (code.starts_with(CODE_SPACE) && code.ends_with(CODE_SPACE)) { " " } else { "" };
    some(format!("{fence}{pad}{code}{pad}{fence}"))
}

/// Delimiters around the text of each paragraph; white space stays outside.
fn emphasis(handlers: &dyn Handlers, element: &Element<'_>, open: char, close: char) -> Option<HandlerResult> {
    let text = content(handlers, element);
    let marked: Vec<_> = text
        .split("\n\n")
        .map(|paragraph| {
            let inner = paragraph.trim_matches(is_blank);
            if inner.is_empty() || inner.contains('\n') {
                return paragraph.to_owned();
            }
            let start = paragraph.len() - paragraph.trim_start_matches(is_blank).len();
            let (before, rest) = paragraph.split_at(start);
            format!("{before}{open}{inner}{close}{}", rest.get(inner.len()..).unwrap_or_default())
        })
        .collect();
    some(marked.join("\n\n"))
}

fn raised(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = content(handlers, &element);
    let text = text.trim_matches(is_blank);
    if text.is_empty() { None } else { some(format!("<{tag}>{text}</{tag}>", tag = element.tag)) }
}

fn link(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = content(handlers, &element);
    let url = attribute(&element, "href").unwrap_or_default();
    let target = target(url, attribute(&element, "title"));
    let start = text.len() - text.trim_start_matches(is_blank).len();
    let (before, rest) = text.split_at(start);
    let label = rest.trim_end_matches(is_blank);
    let after = rest.get(label.len()..).unwrap_or_default();
    if label.is_empty() {
        return some(text);
    }
    if !label.contains('\n') {
        return some(format!("{before}{}{after}", linked(label, &target)));
    }
    some(format!("{before}{}{after}", linked_blocks(label, &target, url)))
}

fn linked(label: &str, target: &str) -> String {
    format!("[{}]({target})", force_brackets(&label.replace(LINE_BREAK, " ")))
}

/// A link around several blocks: Markdown's cannot hold any, so the first line of text carries it. Code and tables
/// cannot; where there is nothing else, the link follows them.
fn linked_blocks(text: &str, target: &str, url: &str) -> String {
    let mut done = false;
    let mut fence: Option<String> = None;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let fence_here: String = line.trim_start_matches([' ', '>']).chars().take_while(|c| *c == '`').collect();
        let in_code = fence.is_some();
        if fence_here.len() >= 3 && !in_code {
            fence = Some(fence_here);
        } else if fence.as_ref() == Some(&fence_here) {
            fence = None;
        }
        let (marker, label) = line.split_at(marker_length(line));
        if done || in_code || fence.is_some() || label.is_empty() || label.starts_with('|') {
            lines.push(line.to_owned());
        } else {
            done = true;
            lines.push(format!("{marker}{}", linked(label, target)));
        }
    }
    if !done {
        lines.extend([String::new(), linked(url, target)]);
    }
    lines.join("\n")
}

/// How much of a line is indentation and the markers of headings, quotes and lists.
fn marker_length(line: &str) -> usize {
    let mut rest = line.trim_start_matches([' ', '>', '#']);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after = rest.strip_prefix("- ").or_else(|| rest.get(digits..)?.strip_prefix(". ").filter(|_| digits > 0));
        match after {
            Some(after) => rest = after.trim_start_matches([' ', '>', '#']),
            None => return line.len() - rest.len(),
        }
    }
}

fn image(_: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let target = target(attribute(&element, "src")?, attribute(&element, "title"));
    some(format!("![{}]({target})", force_brackets(attribute(&element, "alt").unwrap_or_default())))
}

/// A link's destination and title as they stand between the parentheses.
fn target(url: &str, title: Option<&str>) -> String {
    let mut out = String::with_capacity(url.len());
    let balanced = has_balanced_parentheses(url);
    for character in url.chars() {
        match character {
            ' ' => out.push_str("%20"),
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            c if c.is_control() => {}
            '(' | ')' if !balanced => out.extend(['\\', character]),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    // `&copy=` in a query would be read as a character reference.
    let out = escape_references(&out);
    match title {
        Some(title) => format!("{out} \"{}\"", title.replace('\\', "\\\\").replace('"', "\\\"")),
        None => out,
    }
}

fn escape_references(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    for (index, piece) in url.split('&').enumerate() {
        if index > 0 {
            let name_length = piece.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'#').count();
            out.push_str(if name_length > 0 && piece.as_bytes().get(name_length) == Some(&b';') { "\\&" } else { "&" });
        }
        out.push_str(piece);
    }
    out
}

fn has_balanced_parentheses(url: &str) -> bool {
    let mut open = 0_i32;
    for character in url.chars() {
        open += match character {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        // CommonMark parsers give up beyond 32 levels.
        if !(0..=32).contains(&open) {
            return false;
        }
    }
    open == 0
}

fn table_cell(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let text = content(handlers, &element);
    let layout = attribute(&element, "class").unwrap_or_default();
    some(format!("{CELL_START}{layout}{CELL_TEXT}{}", table::flat_cell(&text)))
}

fn table_block(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    block(&table::layout(&content(handlers, &element)))
}

/// A list item with one link; a link without text shows its URL.
pub(super) fn link_line(link: &PageLink) -> String {
    let mut label = String::new();
    push_text(&mut label, if link.text.is_empty() { &link.url } else { &link.text });
    format!("- {}", linked(&label, &target(&link.url, None)))
}
