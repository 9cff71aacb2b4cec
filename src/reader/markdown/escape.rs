//! Which characters of the page's text need a backslash in Markdown.
//!
//! Whether a character needs one depends on what stands around it in the *finished* Markdown. So the page's
//! punctuation travels through the converter as stand-ins from a private-use range, which the converter cannot mistake
//! for markup, and [`finish`] puts each character back when its surroundings are known. Markup that the converter
//! writes itself is plain ASCII and stays as it is.

/// Start of the private-use range; icon fonts use the planes' lower parts.
const BASE: u32 = 0x0010_E000;
/// Text: escaped where Markdown would read it as markup.
const TEXT: u32 = BASE;
/// Code and TeX: never escaped.
const VERBATIM: u32 = BASE + 0x100;
/// Text inside a link's label: always escaped.
const FORCED: u32 = BASE + 0x200;
const MARKS: u32 = BASE + 0x300;
const END: u32 = BASE + 0x3FF;

/// A line break inside a paragraph.
pub(super) const LINE_BREAK: char = mark(0);
/// The border between two blocks inside a table cell.
pub(super) const CELL_BREAK: char = mark(1);
/// The start of a list item inside a table cell.
pub(super) const CELL_ITEM: char = mark(2);
pub(super) const CELL_START: char = mark(3);
pub(super) const CELL_TEXT: char = mark(4);
pub(super) const ROW_END: char = mark(5);
/// A `|` of a table cell, always escaped.
pub(super) const CELL_PIPE: char = stand_in(FORCED, '|');
/// Delimiters of emphasis: dropped in pairs where Markdown would not read them as such.
pub(super) const OPEN_STRONG: char = mark(16);
pub(super) const CLOSE_STRONG: char = mark(17);
pub(super) const OPEN_EMPHASIS: char = mark(18);
pub(super) const CLOSE_EMPHASIS: char = mark(19);
pub(super) const OPEN_DELETED: char = mark(20);
pub(super) const CLOSE_DELETED: char = mark(21);
/// A backtick of code.
pub(super) const CODE_BACKTICK: char = stand_in(VERBATIM, '`');
pub(super) const CODE_SPACE: char = stand_in(VERBATIM, ' ');

const fn mark(number: u32) -> char {
    match char::from_u32(MARKS + number) {
        Some(character) => character,
        None => char::REPLACEMENT_CHARACTER,
    }
}

const fn stand_in(class: u32, character: char) -> char {
    match char::from_u32(class + character as u32) {
        Some(found) => found,
        None => char::REPLACEMENT_CHARACTER,
    }
}

/// Writes text of the page. TeX between `\(` and `\)`, `\[` and `\]`, or `$$` is kept as it is.
pub(super) fn push_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((before, tex, after)) = next_tex(rest) {
        push_plain(out, before);
        push_verbatim(out, tex);
        rest = after;
    }
    push_plain(out, rest);
}

fn push_plain(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '+' | '-' | '.' | ')' | '=' | '~' | '|' | '&'
            | '!' => {
                out.push(stand_in(TEXT, character));
            }
            other => push_safe(out, other),
        }
    }
}

/// Splits off the first piece of delimited TeX: the text before, the TeX with its delimiters, the text after.
fn next_tex(text: &str) -> Option<(&str, &str, &str)> {
    const DELIMITERS: [(&str, &str); 3] = [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$")];
    let (start, open, close) = DELIMITERS
        .iter()
        .filter_map(|(open, close)| Some((text.find(open)?, *open, *close)))
        .min_by_key(|found| found.0)?;
    let inner = start + open.len();
    let end = inner + text.get(inner..)?.find(close)? + close.len();
    Some((text.get(..start)?, text.get(start..end)?, text.get(end..)?))
}

/// Writes code or TeX: spaces and punctuation come out as they went in. Line breaks stay line breaks.
pub(super) fn push_verbatim(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            ' ' | '\t' => out.push(stand_in(VERBATIM, character)),
            other if other.is_ascii_punctuation() => out.push(stand_in(VERBATIM, other)),
            other => push_safe(out, other),
        }
    }
}

fn push_safe(out: &mut String, character: char) {
    match character {
        '\r' => {}
        c if (BASE..=END).contains(&u32::from(c)) => out.push(char::REPLACEMENT_CHARACTER),
        c => out.push(c),
    }
}

/// Makes the brackets of a link's label literal.
pub(super) fn force_brackets(label: &str) -> String {
    let swap =
        |text: &str, character: char| text.replace(stand_in(TEXT, character), &stand_in(FORCED, character).to_string());
    swap(&swap(label, '['), ']')
}

/// Makes every `|` of a cell literal.
pub(super) fn force_pipes(cell: &str) -> String {
    cell.replace(['|', stand_in(TEXT, '|'), stand_in(VERBATIM, '|')], &CELL_PIPE.to_string())
}

/// Puts the page's characters back, each with a backslash where Markdown would read it as markup.
pub(super) fn finish(markdown: &str) -> String {
    let mut finisher = Finisher::new(markdown);
    for index in 0..finisher.source.len() {
        finisher.step(index);
    }
    finisher.into_text()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Markup,
    Text,
    Verbatim,
    Forced,
    Mark,
}

fn decode(character: char) -> (Class, char) {
    let code = u32::from(character);
    let (class, base) = match code {
        TEXT..VERBATIM => (Class::Text, TEXT),
        VERBATIM..FORCED => (Class::Verbatim, VERBATIM),
        FORCED..MARKS => (Class::Forced, FORCED),
        MARKS..=END => (Class::Mark, 0),
        _ => (Class::Markup, 0),
    };
    (class, char::from_u32(code - base).unwrap_or(char::REPLACEMENT_CHARACTER))
}

struct Finisher {
    source: Vec<char>,
    out: String,
    /// Only markup that may stand before a block's first character was seen on this line.
    at_start: bool,
    /// Digits of a number that began the line, while nothing else followed.
    leading_digits: usize,
    heading: bool,
    /// Opening delimiters not yet closed: the mark, where it stands in `out`, whether it opens anything.
    open: Vec<(char, usize, bool)>,
    /// Parts of `out` to take away at the end: start and length.
    removals: Vec<(usize, usize)>,
}

impl Finisher {
    fn new(markdown: &str) -> Self {
        Self {
            source: markdown.chars().collect(),
            out: String::with_capacity(markdown.len()),
            at_start: true,
            leading_digits: 0,
            heading: false,
            open: Vec::new(),
            removals: Vec::new(),
        }
    }

    /// The character at `index` as a reader of the Markdown sees it, marks left out.
    fn shown(&self, index: Option<usize>) -> Option<char> {
        let (class, character) = decode(*self.source.get(index?)?);
        (class != Class::Mark).then_some(character)
    }

    fn next(&self, index: usize) -> Option<char> {
        self.shown(Some(index + 1))
    }

    fn step(&mut self, index: usize) {
        let Some(&raw) = self.source.get(index) else { return };
        let (class, character) = decode(raw);
        match class {
            Class::Mark => return self.delimiter(index, raw),
            Class::Forced => self.out.push('\\'),
            Class::Text if self.needs_backslash(index, character) => self.out.push('\\'),
            Class::Markup | Class::Text | Class::Verbatim => {}
        }
        self.note(class, character);
        self.out.push(character);
    }

    /// Keeps track of where in its line the next character stands.
    fn note(&mut self, class: Class, character: char) {
        if class == Class::Markup && character == '\n' {
            (self.at_start, self.leading_digits, self.heading) = (true, 0, false);
        } else if self.at_start {
            match character {
                ' ' if class == Class::Markup => self.at_start = self.leading_digits == 0,
                '#' if class == Class::Markup => self.heading = true,
                '.' if class == Class::Markup => self.leading_digits = 0,
                '>' | '-' | ':' if class == Class::Markup => {}
                '0'..='9' => self.leading_digits += 1,
                _ => self.at_start = false,
            }
        }
    }

    fn needs_backslash(&self, index: usize, character: char) -> bool {
        let next = self.next(index);
        let previous = index.checked_sub(1).and_then(|before| self.shown(Some(before)));
        let ends_word = next.is_none_or(char::is_whitespace);
        let starts_block = self.at_start && self.leading_digits == 0;
        match character {
            '\\' => next.is_none_or(|c| c.is_ascii_punctuation() || c == '\n'),
            '`' => true,
            '*' => starts_block || !(ends_word && previous.is_none_or(char::is_whitespace)),
            '_' => {
                let in_word = previous.is_some_and(char::is_alphanumeric) && next.is_some_and(char::is_alphanumeric);
                let alone = ends_word && previous.is_none_or(char::is_whitespace);
                starts_block || !(in_word || alone)
            }
            '[' => starts_block || next == Some('^'),
            ']' => matches!(next, Some('(' | '[' | ':')),
            '<' => next.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')),
            '#' => (starts_block && (ends_word || next == Some('#'))) || (self.heading && ends_word),
            '-' => starts_block && (ends_word || matches!(next, Some('-' | '|' | ':'))),
            '+' => starts_block && ends_word,
            '>' | '=' | '|' => starts_block,
            '.' | ')' => self.at_start && (1..=9).contains(&self.leading_digits) && ends_word,
            '~' => starts_block || next == Some('~') || previous.is_some_and(|c| !c.is_whitespace()),
            '&' => self.starts_entity(index),
            '!' => next == Some('['),
            _ => false,
        }
    }

    /// Whether `&` would be read as the start of a character reference; the longest name has 31 letters.
    fn starts_entity(&self, index: usize) -> bool {
        for offset in 1..=32 {
            match self.shown(Some(index + offset)) {
                Some(';') => return offset > 1,
                Some(c) if c.is_ascii_alphanumeric() || (offset == 1 && c == '#') => {}
                _ => return false,
            }
        }
        false
    }

    fn delimiter(&mut self, index: usize, mark: char) {
        let text = match mark {
            OPEN_STRONG | CLOSE_STRONG => "**",
            OPEN_EMPHASIS | CLOSE_EMPHASIS => "*",
            OPEN_DELETED | CLOSE_DELETED => "~~",
            _ => return,
        };
        let opens = matches!(mark, OPEN_STRONG | OPEN_EMPHASIS | OPEN_DELETED);
        let (inner, outer) =
            if opens { (self.after(index), self.before(index)) } else { (self.before(index), self.after(index)) };
        let works = can_delimit(inner, outer);
        let position = self.out.len();
        self.out.push_str(text);
        self.at_start = false;
        if opens {
            self.open.push((mark, position, works));
        } else if let Some((_, start, opener_works)) = self.open.pop()
            && !(works && opener_works)
        {
            self.removals.push((start, text.len()));
            self.removals.push((position, text.len()));
        }
    }

    /// The nearest character before `index` that is no mark.
    fn before(&self, index: usize) -> Option<char> {
        (0..index).rev().take(8).find_map(|at| self.shown(Some(at)))
    }

    fn after(&self, index: usize) -> Option<char> {
        (index + 1..self.source.len()).take(8).find_map(|at| self.shown(Some(at)))
    }

    fn into_text(mut self) -> String {
        // What was opened and never closed is no emphasis.
        for (mark, start, _) in std::mem::take(&mut self.open) {
            self.removals.push((start, if mark == OPEN_EMPHASIS { 1 } else { 2 }));
        }
        self.removals.sort_unstable();
        let mut text = String::with_capacity(self.out.len());
        let mut from = 0;
        for (start, length) in self.removals {
            text.push_str(self.out.get(from..start).unwrap_or_default());
            from = start + length;
        }
        text.push_str(self.out.get(from..).unwrap_or_default());
        text
    }
}

/// CommonMark's flanking rule: a delimiter between punctuation inside and a word outside is plain text.
fn can_delimit(inner: Option<char>, outer: Option<char>) -> bool {
    let Some(inner) = inner else { return false };
    if inner.is_whitespace() {
        return false;
    }
    let is_punctuation = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
    !is_punctuation(inner) || outer.is_none_or(|c| c.is_whitespace() || is_punctuation(c))
}
