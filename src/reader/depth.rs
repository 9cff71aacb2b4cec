//! Bounds the nesting of captured HTML before anything parses it.
//!
//! HTML parsers take quadratic time on deep nesting, and the extractors and the converter recurse: 20,000 nested
//! elements would cost minutes, then the stack. So the tags beyond a limit are taken out of the source in one pass.

use std::borrow::Cow;

use super::tree::is_block;

/// Elements nested deeper than this lose their tags, not their text.
///
/// Real pages stay below 60. A thread has 2 MiB of stack, and the recursion behind takes some kilobytes a level.
pub(super) const MAX_DEPTH: usize = 100;

/// `html` with at most [`MAX_DEPTH`] open elements at any place, and the number of elements that lost their tags.
///
/// Reads what an engine serialises: every element but the void ones has an end tag, and text has no bare `<`. Links
/// beyond the limit keep their tags, one at a time. Comments are taken out, so that no parser looks for tags in them.
pub(super) fn bounded(html: &str) -> (Cow<'_, str>, u32) {
    let mut bounder =
        Bounder { out: String::new(), copied: 0, open: Vec::new(), level: 0, in_deep_link: false, flattened: 0 };
    let mut position = 0;
    while let Some(start) = html.get(position..).and_then(|rest| rest.find('<')).map(|offset| position + offset) {
        let end = if let Some(end) = comment_end(html, start) {
            bounder.leave_out(html, start, end);
            end
        } else if is_tag(html, start) {
            let end = tag_end(html, start);
            bounder.tag(html, start, end);
            end
        } else {
            start + 1
        };
        position = end;
    }
    if bounder.copied == 0 {
        return (Cow::Borrowed(html), 0);
    }
    bounder.out.push_str(html.get(bounder.copied..).unwrap_or_default());
    (Cow::Owned(bounder.out), bounder.flattened)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Tag,
    DeepLink,
    Nothing,
}

struct Bounder {
    out: String,
    /// Everything of the source before this was written or left out.
    copied: usize,
    open: Vec<Written>,
    /// Elements of `open` that were written.
    level: usize,
    in_deep_link: bool,
    flattened: u32,
}

impl Bounder {
    fn tag(&mut self, html: &str, start: usize, end: usize) {
        let source = html.get(start..end).unwrap_or_default();
        let is_end = source.starts_with("</");
        let name = source.trim_start_matches(['<', '/']);
        let name = name.split(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>').next().unwrap_or_default();
        if is_void(name) {
            return;
        }
        if !is_end {
            let written = self.placed(name);
            if written == Written::Nothing {
                self.leave_out(html, start, end);
            }
            self.open.push(written);
            return;
        }
        match self.open.pop() {
            Some(Written::Tag) => self.level -= 1,
            Some(Written::DeepLink) => self.in_deep_link = false,
            Some(Written::Nothing) => {
                self.leave_out(html, start, end);
                // What stood on lines of its own stays so.
                if is_block(name) {
                    self.out.push_str("<br>");
                }
            }
            None => {}
        }
    }

    fn placed(&mut self, name: &str) -> Written {
        if self.level < MAX_DEPTH {
            self.level += 1;
            Written::Tag
        } else if name == "a" && !self.in_deep_link {
            self.in_deep_link = true;
            Written::DeepLink
        } else {
            self.flattened = self.flattened.saturating_add(1);
            Written::Nothing
        }
    }

    fn leave_out(&mut self, html: &str, start: usize, end: usize) {
        self.out.push_str(html.get(self.copied..start).unwrap_or_default());
        self.copied = end;
    }
}

/// The end of the comment or declaration that starts at `start`, if one does.
fn comment_end(html: &str, start: usize) -> Option<usize> {
    let source = html.get(start..)?;
    let mark = match source.as_bytes().get(1)? {
        b'!' if source.starts_with("<!--") => "-->",
        b'!' | b'?' => ">",
        _ => return None,
    };
    Some(source.find(mark).map_or(html.len(), |end| start + end + mark.len()))
}

/// True where a name follows; elsewhere a parser takes the `<` for text.
fn is_tag(html: &str, start: usize) -> bool {
    let source = html.get(start + 1..).unwrap_or_default();
    source.strip_prefix('/').unwrap_or(source).starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Where a tokenizer stands inside a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InTag {
    /// After white space or a slash, and after a quoted value.
    BeforeName,
    /// In the tag's name or an attribute's.
    Name,
    /// White space after an attribute's name: `=` may follow.
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
}

/// The end of the tag that starts at `start`: after the first `>` outside a quoted value, as the HTML standard's
/// tokenizer finds it. A quote opens a value after `=` only; elsewhere it is part of a name.
fn tag_end(html: &str, start: usize) -> usize {
    let mut state = InTag::Name;
    let mut is_tag_name = true;
    for (offset, byte) in html.bytes().enumerate().skip(start + 1) {
        let is_space = byte.is_ascii_whitespace();
        state = match (state, byte) {
            (InTag::Quoted(quote), _) => {
                if byte == quote {
                    InTag::BeforeName
                } else {
                    state
                }
            }
            (_, b'>') => return offset + 1,
            (InTag::BeforeName, _) if is_space => InTag::BeforeName,
            (InTag::BeforeName | InTag::Name | InTag::AfterName, b'/') => InTag::BeforeName,
            (InTag::BeforeName, _) => InTag::Name,
            (InTag::Name | InTag::AfterName, b'=') if !is_tag_name => InTag::BeforeValue,
            (InTag::Name, _) if is_space => {
                if is_tag_name {
                    InTag::BeforeName
                } else {
                    InTag::AfterName
                }
            }
            (InTag::AfterName, _) if !is_space => InTag::Name,
            (InTag::BeforeValue, b'"' | b'\'') => InTag::Quoted(byte),
            (InTag::BeforeValue, _) if !is_space => InTag::Unquoted,
            (InTag::Unquoted, _) if is_space => InTag::BeforeName,
            _ => state,
        };
        is_tag_name &= state == InTag::Name;
    }
    html.len()
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shallow_html_is_left_alone() {
        let html = "<p title=\"a > b\">x<br>y</p>";
        assert_eq!(bounded(html), (Cow::Borrowed(html), 0));
    }

    #[test]
    fn tags_beyond_the_limit_go_and_their_text_stays_on_its_lines() {
        let deep = MAX_DEPTH + 2;
        let html =
            format!("{}<p>one</p><p>two</p><a href=\"u\">three</a>{}", "<div>".repeat(deep), "</div>".repeat(deep));
        let (bounded, flattened) = bounded(&html);
        assert_eq!(flattened, 4);
        assert_eq!(bounded.matches("<div>").count(), MAX_DEPTH);
        assert_eq!(bounded.matches("</div>").count(), MAX_DEPTH);
        assert!(bounded.contains(">one<br>two<br><a href=\"u\">three</a><"), "{bounded}");
    }

    #[test]
    fn broken_html_is_no_trouble() {
        for html in ["<", "<p", "<!--", "<!", "<?x", "<p =\"a\">", "</p>", "<<<", "<p \"", "a<b>c</b></b></b>", "<é>"]
        {
            assert_eq!(bounded(html).1, 0, "{html}");
        }
    }

    #[test]
    fn comments_are_taken_out_whatever_they_hold() {
        let (bounded, flattened) = bounded("a<!-- <div> \" -->b<?x y?>c<!doctype x>d");
        assert_eq!((bounded.as_ref(), flattened), ("abcd", 0));
    }

    #[test]
    fn a_tag_ends_where_a_parser_ends_it() {
        for tag in [
            "<p>",
            "<p title=\"a > b\">",
            "<p title = 'a > b'>",
            "<p a\"b>",
            "<p a\"b=\"\">",
            "<p =\"x\"=\">\">",
            "<a\"b>",
            "<p a=b\">",
            "<p a='x'b>",
            "<p a=\"\"/>",
            "<a=\">",
        ] {
            assert_eq!(tag_end(&format!("{tag}text\">"), 0), tag.len(), "{tag}");
        }
    }
}
