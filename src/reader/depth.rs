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
/// Reads what `normalise.js` writes: every element but the void ones has an end tag, and text has no bare `<`. Links
/// beyond the limit keep their tags, one at a time.
pub(super) fn bounded(html: &str) -> (Cow<'_, str>, u32) {
    let mut bounder =
        Bounder { out: String::new(), copied: 0, open: Vec::new(), level: 0, in_deep_link: false, flattened: 0 };
    let mut position = 0;
    while let Some(start) = html.get(position..).and_then(|rest| rest.find('<')).map(|offset| position + offset) {
        let end = tag_end(html, start);
        bounder.tag(html, start, end);
        position = end;
    }
    if bounder.flattened == 0 {
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
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if name.is_empty() || is_void(name) {
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

/// The end of the tag that starts at `start`: after the first `>` outside quotes.
fn tag_end(html: &str, start: usize) -> usize {
    let mut quote = None;
    for (offset, byte) in html.bytes().enumerate().skip(start) {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'>', None) => return offset + 1,
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    html.len()
}

fn is_void(name: &str) -> bool {
    matches!(name, "br" | "hr" | "img" | "input" | "wbr")
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
        for html in ["<", "<p", "</p>", "<<<", "<p \"", "a<b>c</b></b></b>", "<é>"] {
            assert_eq!(bounded(html).1, 0, "{html}");
        }
    }
}
